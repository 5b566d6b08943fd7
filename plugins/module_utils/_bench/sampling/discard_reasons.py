# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules by which a round is discarded, whatever its results are; each gives a sentence on what was observed.

Where a rule cannot read what it needs, the round is discarded with that reason.
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
    """The largest shares, of 1, with which a round counts; ``nodes`` are the planned nodes, None for any node."""

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
    before: HostReading, after: HostReading, asked: tuple[int, int], limits: DiscardLimits
) -> list[str]:
    """Return the sentences why a round does not count; an empty list where it counts.

    ``requested_tokens`` are the tokens that the server had to read and to generate for all requests between the two
    readings, with those that warmed it up.
    """
    found = [
        _restart_reason(before, after),
        _other_programs_reason(before, after, limits),
        _steal_reason(before, after, limits),
        _swap_reason(before, after),
        _other_requests_reason(before, after, asked),
        _moved_threads_reason(before, after),
        _misplaced_pages_reason(after, limits),
    ]
    return [sentence for sentence in found if sentence]


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


def _other_requests_reason(before: HostReading, after: HostReading, asked: tuple[int, int]) -> str:
    if before.tokens is None or after.tokens is None:
        return f"Requests of other clients cannot be detected: the server reports no counters; {after.metrics_hint}."
    waiting = (before.pending_requests or 0) + (after.pending_requests or 0)
    if waiting:
        return f"Requests of other clients were pending before or after the round: {waiting}."
    more = [late - early - ours for early, late, ours in zip(before.tokens, after.tokens, asked)]
    if min(more) < 0:
        return "The server counted fewer tokens than were requested: it started anew, or another one answered."
    if max(more) > 0:
        counts = f"read {more[0]:.0f} and generated {more[1]:.0f} tokens"
        return f"Other clients sent requests too: the server {counts} for them."
    return ""


def _moved_threads_reason(before: HostReading, after: HostReading) -> str:
    changed = [key for key, cpus in after.allowed_cpus.items() if before.allowed_cpus.get(key, cpus) != cpus]
    if not changed:
        return ""
    first = min(changed)
    was, now = (format_cpulist(reading.allowed_cpus[first]) for reading in (before, after))
    many = "1 thread" if len(changed) == 1 else f"{len(changed)} threads"
    return f"{many} may run elsewhere than before: thread {first[0]} on CPUs {now} instead of {was}."


def _misplaced_pages_reason(after: HostReading, limits: DiscardLimits) -> str:
    if limits.nodes is None:
        return ""
    if after.pages is None:
        return f"The placement of the service's memory is not known: {after.unreadable_reason}"
    total = sum(after.pages.values())
    wrong = sum(kb for node, kb in after.pages.items() if node not in limits.nodes)
    if wrong <= limits.misplaced * total:
        return ""
    return f"{wrong / total:.1%} of the service's memory lies on other nodes than {format_cpulist(limits.nodes)}."
