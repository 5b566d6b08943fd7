# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Assigns parts of a host to several instances: whole sockets where there are enough, else nodes, else CCDs.

No instance then reads memory over the link between sockets, or from another node, and no core works for two instances.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._notation.sizes import format_bytes_short
from ..plan import cpu_assignment
from .largest_fit import fit_candidates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._host.host import Host
    from ..plan.free_memory import FreeMemory
    from ..plan.instance_plan import InstancePlan
    from .largest_fit import Candidate


class HostPart:
    """A part of the host, such as a node: its name in the option ``cpus``, and its share of the available bytes."""

    __slots__ = ("memory", "name")

    def __init__(self, name: str, memory: float) -> None:
        self.name = name
        self.memory = memory


def assign_host_parts(host: Host, free: FreeMemory, candidates: Sequence[Candidate]) -> list[InstancePlan]:
    """Assign a part of the host to each candidate, and return the plans; BadRequest where they do not fit together."""
    for units in list_host_parts(host, free):
        counts = count_parts(
            units,
            [candidate.least_bytes() for candidate in candidates],
            [candidate.bytes_per_token for candidate in candidates],
        )
        if counts is None:
            continue
        at = 0
        for candidate, count in zip(candidates, counts):
            candidate.fixed["cpus"] = ",".join(unit.name for unit in units[at : at + count])
            at += count
        try:
            return fit_candidates(host, free, candidates)
        except BadRequest:
            # Smaller parts may give each candidate enough memory.
            continue
    needs = ", ".join(
        f"{format_bytes_short(candidate.least_bytes())} for {candidate.model.path}" for candidate in candidates
    )
    available = sum(free.available.values())
    raise BadRequest(
        f"These models do not fit beside each other: they need at least {needs}, each on nodes or CCDs of its own, "
        f"and {format_bytes_short(available)} are available on {len(host.topology.nodes)} nodes with "
        f"{len(host.topology.ccds)} CCDs. Leave one out, or take smaller files. Nothing is recommended."
    )


def list_host_parts(host: Host, free: FreeMemory) -> list[list[HostPart]]:
    """Return the sockets, the nodes and the CCDs with CPUs to compute on, each kind in the order of its numbers."""
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


def count_parts(
    parts: Sequence[HostPart], least_bytes: Sequence[int], bytes_per_token: Sequence[float]
) -> list[int] | None:
    """Return how many parts each instance gets, None where there are too few.

    Each instance gets as many parts as hold its least need. The parts that are left go where a token reads most bytes
    for each part, because the time of a token is that of reading.
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
