# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules by which a round is discarded; each rule returns a sentence on a disturbance, and none looks at results.

A round is also discarded where a rule cannot read its figures.
"""

from __future__ import annotations

from ..._notation.cpulist import format_cpulist
from ..rounds.limits import MAX_MISPLACED_SHARE, disturbance_messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from .host_activity import HostReading


def discard_reasons(
    before: HostReading,
    after: HostReading,
    requested_tokens: tuple[int, int],
    activity: Mapping[str, Any],
    nodes: Collection[int] | None = None,
) -> list[str]:
    """Return sentences why a round does not count, an empty list for a round that counts.

    ``requested_tokens`` are the numbers of tokens that the server had to read and to generate for all requests between
    the two readings, and ``activity`` is what their samples record. ``nodes`` are the planned nodes of the memory, None
    for any node.
    """
    reasons = [
        _restart_reason(before, after),
        _idle_service_reason(activity),
        *disturbance_messages(activity),
        _swap_reason(before, after),
        _other_requests_reason(before, after, requested_tokens),
        _moved_threads_reason(before, after),
        _misplaced_pages_reason(after, nodes),
    ]
    return [reason for reason in reasons if reason]


def _restart_reason(before: HostReading, after: HostReading) -> str:
    if before.main_process == after.main_process:
        return ""
    old, new = before.main_process[0], after.main_process[0]
    return f"Process {old} of the service was replaced by {new}: the server began anew."


def _idle_service_reason(activity: Mapping[str, Any]) -> str:
    if activity["others"] is not None:
        return ""
    return "The service used no processor time: another server answered, or nothing was asked."


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


def _misplaced_pages_reason(after: HostReading, nodes: Collection[int] | None) -> str:
    if nodes is None:
        return ""
    if after.pages is None:
        return f"The placement of the service's memory is not known: {after.unreadable_reason}"
    total = sum(after.pages.values())
    misplaced = sum(kb for node, kb in after.pages.items() if node not in nodes)
    if misplaced <= MAX_MISPLACED_SHARE * total:
        return ""
    return f"{misplaced / total:.1%} of the service's memory lies on other nodes than {format_cpulist(nodes)}."
