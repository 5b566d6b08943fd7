# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which part of a host each of several instances gets: whole sockets where there are enough, else nodes, else CCDs.

Nobody reads memory over the link between sockets then, or no further than its node, and no core works for two.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._notation.sizes import format_bytes_short
from ..plan import cpu_assignment
from .largest_fit import fit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._host.host import Host
    from ..plan.free_memory import FreeMemory
    from ..plan.instance_plan import InstancePlan
    from .largest_fit import Candidate


class Unit:
    """A place that an instance may have: its name in the option ``cpus``, and the bytes that are its share."""

    __slots__ = ("memory", "name")

    def __init__(self, name: str, memory: float) -> None:
        self.name = name
        self.memory = memory


def seated(host: Host, free: FreeMemory, candidates: Sequence[Candidate]) -> list[InstancePlan]:
    """Give each candidate its part of the host, and plan them all. BadRequest says why they cannot share it."""
    for units in kinds(host, free):
        counts = shares(units, [one.least() for one in candidates], [one.reading for one in candidates])
        if counts is None:
            continue
        at = 0
        for one, count in zip(candidates, counts):
            one.fixed["cpus"] = ",".join(unit.name for unit in units[at : at + count])
            at += count
        try:
            return fit(host, free, candidates)
        except BadRequest:
            # Places of another kind may have memory for all.
            continue
    needs = ", ".join(f"{format_bytes_short(one.least())} for {one.model.path}" for one in candidates)
    there = sum(free.available.values())
    raise BadRequest(
        f"These models do not fit beside each other: they need at least {needs}, each on nodes or CCDs of its own, "
        f"and {format_bytes_short(there)} are available on {len(host.topology.nodes)} nodes with "
        f"{len(host.topology.ccds)} CCDs. Leave one out, or take smaller files. Nothing is recommended."
    )


def kinds(host: Host, free: FreeMemory) -> list[list[Unit]]:
    """Return the sockets, the nodes and the CCDs on which something can compute, each in the order of their numbers."""
    top = host.topology
    nodes = {node.id: node.cpus for node in top.nodes}
    ccds = {number: tuple(cpu for domain in ccd for cpu in domain.cpus) for number, ccd in enumerate(top.ccds)}
    found = []
    for word, places in (("socket", top.sockets), ("node", nodes), ("ccd", ccds)):
        works = {n: cpus for n, cpus in places.items() if set(cpus).difference(host.plan.housekeeping)}
        near = {n: cpu_assignment.memory_nodes_of_cpus(host, cpus) for n, cpus in works.items()}
        takers = {node: sum(1 for one in near.values() if node in one) for node in nodes}
        found.append(
            [
                Unit(f"{word}{n}", sum(free.available.get(node, 0) / max(1, takers[node]) for node in near[n]))
                for n in sorted(works)
            ]
        )
    return found


def shares(units: Sequence[Unit], needs: Sequence[int], reading: Sequence[float]) -> list[int] | None:
    """Return how many units each instance gets, None where there are too few.

    Each gets as many as hold what it needs at least. What is left goes where a token reads most for each unit, because
    reading takes the time of a token.
    """
    each = sum(unit.memory for unit in units) / len(units) if units else 0
    if each <= 0:
        return None
    counts = [max(1, -int(-need // each)) for need in needs]
    left = len(units) - sum(counts)
    for dummy in range(left):
        slowest = max(range(len(counts)), key=lambda number: reading[number] / counts[number])
        counts[slowest] += 1
    return counts if left >= 0 else None
