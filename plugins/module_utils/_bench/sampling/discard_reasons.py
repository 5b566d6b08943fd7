# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules by which a round is discarded; each rule returns a sentence on a disturbance, and none looks at results.

A round is also discarded where a rule cannot read its figures.
"""

from __future__ import annotations

from ..._notation.cpulist import format_cpulist
from ..rounds.limits import MAX_MISPLACED_SHARE, MAX_OTHER_CPU_SHARE, MAX_STEAL_SHARE
from .host_activity import other_programs_cpu_share, stolen_cpu_share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from .host_activity import HostReading


class DiscardLimits:
    """The largest shares with which a round counts; ``nodes`` are the planned nodes, None for any node."""

    def __init__(
        self,
        nodes: Collection[int] | None = None,
        others: float = MAX_OTHER_CPU_SHARE,
        steal: float = MAX_STEAL_SHARE,
        misplaced: float = MAX_MISPLACED_SHARE,
    ) -> None:
        self.nodes = nodes
        self.others = others
        self.steal = steal
        self.misplaced = misplaced


def discard_reasons(
    before: HostReading, after: HostReading, requested_tokens: tuple[int, int], limits: DiscardLimits
) -> list[str]:
    """Return sentences why a round does not count, an empty list for a round that counts.

    ``requested_tokens`` are the numbers of tokens that the server had to read and to generate for all requests between
    the two readings.
    """
    reasons = [
        _restart_reason(before, after),
        _other_programs_reason(before, after, limits),
        _steal_reason(before, after, limits),
        _swap_reason(before, after),
        _other_requests_reason(before, after, requested_tokens),
        _moved_threads_reason(before, after),
        _misplaced_pages_reason(after, limits),
    ]
    return [reason for reason in reasons if reason]


def _restart_reason(before: HostReading, after: HostReading) -> str:
    if before.main_process == after.main_process:
        return ""
    old, new = before.main_process[0], after.main_process[0]
    return f"Process {old} of the service was replaced by {new}: the server began anew."


def _other_programs_reason(before: HostReading, after: HostReading, limits: DiscardLimits) -> str:
    share = other_programs_cpu_share(before, after)
    if share is None:
        return "The service used no processor time: another server answered, or nothing was asked."
    if share <= limits.others:
        return ""
    return f"Other programs used {share:.1%} of the processor time of the service, more than {limits.others:.1%}."


def _steal_reason(before: HostReading, after: HostReading, limits: DiscardLimits) -> str:
    share = stolen_cpu_share(before, after)
    if share <= limits.steal:
        return ""
    return f"The hypervisor kept {share:.1%} of the processor time from this machine, more than {limits.steal:.1%}."


def _swap_reason(before: HostReading, after: HostReading) -> str:
    pages = after.swapped_pages - before.swapped_pages
    return f"The host swapped {pages} pages." if pages else ""


def _other_requests_reason(before: HostReading, after: HostReading, requested_tokens: tuple[int, int]) -> str:
    if before.tokens is None or after.tokens is None:
        return f"Requests of other clients cannot be detected: the server reports no counters; {after.metrics_hint}."
    waiting = (before.pending_requests or 0) + (after.pending_requests or 0)
    if waiting:
        return f"Requests of other clients were pending before or after the round: {waiting}."
    foreign = [late - early - own for early, late, own in zip(before.tokens, after.tokens, requested_tokens)]
    if min(foreign) < 0:
        return "The server counted fewer tokens than were requested: it started anew, or another one answered."
    if max(foreign) > 0:
        counts = f"read {foreign[0]:.0f} and generated {foreign[1]:.0f} tokens"
        return f"Other clients sent requests too: the server {counts} for them."
    return ""


def _moved_threads_reason(before: HostReading, after: HostReading) -> str:
    changed = [key for key, cpus in after.allowed_cpus.items() if before.allowed_cpus.get(key, cpus) != cpus]
    if not changed:
        return ""
    first = min(changed)
    old, new = (format_cpulist(reading.allowed_cpus[first]) for reading in (before, after))
    threads = "1 thread" if len(changed) == 1 else f"{len(changed)} threads"
    return f"{threads} may run elsewhere than before: thread {first[0]} on CPUs {new} instead of {old}."


def _misplaced_pages_reason(after: HostReading, limits: DiscardLimits) -> str:
    if limits.nodes is None:
        return ""
    if after.pages is None:
        return f"The placement of the service's memory is not known: {after.unreadable_reason}"
    total = sum(after.pages.values())
    misplaced = sum(kb for node, kb in after.pages.items() if node not in limits.nodes)
    if misplaced <= limits.misplaced * total:
        return ""
    return f"{misplaced / total:.1%} of the service's memory lies on other nodes than {format_cpulist(limits.nodes)}."
