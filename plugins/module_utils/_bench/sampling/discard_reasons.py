# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules by which a round is void: each a sentence on what the witnesses saw, whatever the figures of the round are.

What a rule needs and cannot be read speaks against the round too, with the reason: it never counts as fine.
"""

from __future__ import annotations

from ..._notation.cpulist import format_cpulist
from ..rounds.measured_rounds import OTHERS, STEAL
from .host_activity import others, steal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from .host_activity import Reading


class Limits:
    """How much is too much: shares of 1. ``nodes`` are those on which the memory is planned, None for any."""

    __slots__ = ("astray", "nodes", "others", "steal")

    def __init__(
        self, nodes: Collection[int] | None = None, others: float = OTHERS, steal: float = STEAL, astray: float = 0.01
    ) -> None:
        self.nodes = nodes
        self.others = others
        self.steal = steal
        self.astray = astray


def objections(before: Reading, after: Reading, asked: tuple[int, int], limits: Limits) -> list[str]:
    """Return why a round does not count, a sentence each; none where it does.

    ``asked`` are the tokens that all requests between the two readings had the server read and make, also those that
    warmed it up.
    """
    found = [
        _served_by_one(before, after),
        _disturbed(before, after, limits),
        _stolen(before, after, limits),
        _swapped(before, after),
        _foreign(before, after, asked),
        _moved(before, after),
        _astray(after, limits),
    ]
    return [sentence for sentence in found if sentence]


def _served_by_one(before: Reading, after: Reading) -> str:
    if before.main == after.main:
        return ""
    return f"Process {before.main[0]} of the service was replaced by {after.main[0]}: the server began anew."


def _disturbed(before: Reading, after: Reading, limits: Limits) -> str:
    share = others(before, after)
    if share is None:
        return "The service used no processor time: another server answered, or nothing was asked."
    if share <= limits.others:
        return ""
    return f"Other programs used {share:.1%} of the processor time of the service, more than {limits.others:.1%}."


def _stolen(before: Reading, after: Reading, limits: Limits) -> str:
    share = steal(before, after)
    if share <= limits.steal:
        return ""
    return f"The hypervisor kept {share:.1%} of the processor time from this machine, more than {limits.steal:.1%}."


def _swapped(before: Reading, after: Reading) -> str:
    pages = after.swapped - before.swapped
    return f"The host swapped {pages} pages." if pages else ""


def _foreign(before: Reading, after: Reading, asked: tuple[int, int]) -> str:
    if before.tokens is None or after.tokens is None:
        return f"Requests of others cannot be seen: the server tells no counters; {after.uncounted}."
    waiting = (before.waiting or 0) + (after.waiting or 0)
    if waiting:
        return f"Requests of others were in progress before or after the round: {waiting}."
    more = [late - early - ours for early, late, ours in zip(before.tokens, after.tokens, asked)]
    if min(more) < 0:
        return "The server counted fewer tokens than were asked of it: it began anew, or another one answered."
    if max(more) > 0:
        return f"Others asked the server too: it read {more[0]:.0f} and made {more[1]:.0f} tokens that were not ours."
    return ""


def _moved(before: Reading, after: Reading) -> str:
    changed = [key for key, cpus in after.allowed.items() if before.allowed.get(key, cpus) != cpus]
    if not changed:
        return ""
    first = min(changed)
    was, now = (format_cpulist(reading.allowed[first]) for reading in (before, after))
    many = "1 thread" if len(changed) == 1 else f"{len(changed)} threads"
    return f"{many} may run elsewhere than before: thread {first[0]} on CPUs {now} instead of {was}."


def _astray(after: Reading, limits: Limits) -> str:
    if limits.nodes is None:
        return ""
    if after.pages is None:
        return f"Nobody knows where the memory of the service lies: {after.unread}"
    total = sum(after.pages.values())
    wrong = sum(kb for node, kb in after.pages.items() if node not in limits.nodes)
    if wrong <= limits.astray * total:
        return ""
    return f"{wrong / total:.1%} of the service's memory lies on other nodes than {format_cpulist(limits.nodes)}."
