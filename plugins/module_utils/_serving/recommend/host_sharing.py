# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Assigns parts of a host to several instances: sockets where there are enough sockets, or else nodes, or else CCDs.

So no instance reads memory from another socket or another node, and no core works for two instances.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._notation.sizes import format_bytes_short
from ..plan import cpu_assignment
from .largest_fit import choose_best_levels_that_fit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._host.host import Host
    from ..plan.free_memory import FreeMemory
    from ..plan.instance_plan import InstancePlan
    from .largest_fit import Candidate


class HostPart:
    """A part of the host, such as a node: its name for the option ``cpus``, and its share of the available bytes."""

    __slots__ = ("memory", "name")

    def __init__(self, name: str, memory: float) -> None:
        self.name = name
        self.memory = memory


def assign_host_parts(host: Host, free: FreeMemory, candidates: Sequence[Candidate]) -> list[InstancePlan]:
    """Assign parts of the host to each candidate, and return all plans; BadRequest where the instances do not fit."""
    for parts in list_host_parts(host, free):
        counts = count_parts_per_instance(
            parts,
            [candidate.bytes_needed_at_level() for candidate in candidates],
            [candidate.bytes_per_token for candidate in candidates],
        )
        if counts is None:
            continue
        at = 0
        for candidate, count in zip(candidates, counts):
            candidate.fixed["cpus"] = ",".join(part.name for part in parts[at : at + count])
            at += count
        try:
            return choose_best_levels_that_fit(host, free, candidates)
        except BadRequest:
            # Smaller parts may give each candidate enough memory.
            continue
    needs = ", ".join(
        f"{format_bytes_short(candidate.bytes_needed_at_level())} for {candidate.model.path}"
        for candidate in candidates
    )
    available = sum(free.available.values())
    raise BadRequest(
        f"These models do not fit beside each other: they need at least {needs}, each on nodes or CCDs of its own, "
        f"and {format_bytes_short(available)} are available on {len(host.topology.nodes)} nodes with "
        f"{len(host.topology.ccds)} CCDs. Leave one out, or take smaller files. Nothing is recommended."
    )


def list_host_parts(host: Host, free: FreeMemory) -> list[list[HostPart]]:
    """Return the sockets, the nodes, and the CCDs that have CPUs for computing, each kind in numerical order."""
    top = host.topology
    nodes = {node.id: node.cpus for node in top.nodes}
    ccds = {number: tuple(cpu for domain in ccd for cpu in domain.cpus) for number, ccd in enumerate(top.ccds)}
    kinds_of_parts = []
    for word, places in (("socket", top.sockets), ("node", nodes), ("ccd", ccds)):
        works = {n: cpus for n, cpus in places.items() if set(cpus).difference(host.plan.housekeeping)}
        near = {n: cpu_assignment.memory_nodes_of_cpus(host, cpus) for n, cpus in works.items()}
        takers = {node: sum(1 for memory_nodes in near.values() if node in memory_nodes) for node in nodes}
        kinds_of_parts.append(
            [
                HostPart(f"{word}{n}", sum(free.available.get(node, 0) / max(1, takers[node]) for node in near[n]))
                for n in sorted(works)
            ]
        )
    return kinds_of_parts


def count_parts_per_instance(
    parts: Sequence[HostPart], least_bytes: Sequence[int], bytes_per_token: Sequence[float]
) -> list[int] | None:
    """Return how many parts of the host each instance gets; None where there are too few parts.

    Each instance gets enough parts for its ``least_bytes``. Each remaining part goes to the instance with the most
    ``bytes_per_token`` for each of its parts, because this instance is the slowest: a token takes the time of reading.
    """
    part_bytes = sum(unit.memory for unit in parts) / len(parts) if parts else 0
    if part_bytes <= 0:
        return None
    counts = [max(1, -int(-need // part_bytes)) for need in least_bytes]
    left = len(parts) - sum(counts)
    for dummy in range(left):
        slowest = max(range(len(counts)), key=lambda number: bytes_per_token[number] / counts[number])
        counts[slowest] += 1
    return counts if left >= 0 else None
