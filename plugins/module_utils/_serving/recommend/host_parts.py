# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of a host that instances can get: its sockets, the nodes of a socket, its CCDs, and the cores of a CCD.

Only CPUs that compute count. The L3 domains of a CCD share its link to memory, so no part has only one of them: nodes
that share a CCD, as where the BIOS makes each L3 domain a node, are one part.
"""

from __future__ import annotations

from ..._notation.cpulist import format_cpulist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..._host.host import Host


class HostPart:
    """A part of a host, by the words that name it in the option ``cpus``.

    ``links`` is the number of its links to memory, which is that of its CCDs, or 1 for a core. ``nodes`` are the nodes
    of its memory. ``levels`` are all its smaller parts of each kind: nodes, CCDs and cores, from the largest kind down.
    """

    __slots__ = ("cpus", "levels", "links", "nodes", "words")

    def __init__(
        self,
        words: str,
        cpus: Iterable[int],
        links: int,
        nodes: tuple[int, ...],
        levels: Sequence[Sequence[HostPart]] = (),
    ) -> None:
        self.words = words
        self.cpus = frozenset(cpus)
        self.links = links
        self.nodes = nodes
        self.levels = [list(parts) for parts in levels]

    @property
    def cores(self) -> int:
        """The number of cores that compute, which is the largest number of instances."""
        return len(self.levels[-1]) if self.levels else 1


def format_cpus_option_of_parts(parts: Sequence[HostPart]) -> str:
    """Return the value of the option ``cpus`` that names all these parts."""
    numbers = [cpu for part in parts if part.words[0].isdigit() for cpu in part.cpus]
    words = [part.words for part in parts if not part.words[0].isdigit()]
    return ",".join([*words, *([format_cpulist(numbers)] if numbers else [])])


def list_socket_parts(host: Host) -> list[HostPart]:
    """Return the sockets that have CPUs for computing, in numerical order, each with its smaller parts."""
    top = host.topology
    sockets = []
    for number, members in sorted(top.sockets.items()):
        ccds = _list_ccd_parts(host, set(members))
        if ccds:
            levels = [_join_ccds_by_node(host, ccds), ccds, [core for ccd in ccds for core in ccd.levels[0]]]
            sockets.append(_join_parts(host, f"socket{number}", ccds, levels))
    return sockets


def _list_ccd_parts(host: Host, socket: set[int]) -> list[HostPart]:
    """Return the CCDs of a socket with CPUs for computing; on a host without known CCDs, its nodes in their place."""
    top = host.topology
    places = [
        (f"ccd{number}", {cpu for domain in ccd for cpu in domain.cpus}) for number, ccd in enumerate(top.ccds)
    ] or [("", set(node.cpus)) for node in top.nodes]
    parts = []
    for words, place in places:
        cpus = place.intersection(socket).difference(host.plan.housekeeping)
        cores = [core for core in (cpus.intersection(core) for core in top.cores) if core]
        if cores:
            core_parts = [HostPart(format_cpulist(core), core, 1, _memory_nodes(host, core)) for core in cores]
            words = words or format_cpulist(cpus)
            parts.append(HostPart(words, cpus, 1, _memory_nodes(host, cpus), [core_parts]))
    return parts


def _join_ccds_by_node(host: Host, ccds: Sequence[HostPart]) -> list[HostPart]:
    """Return the CCDs of a socket in groups: CCDs with CPUs on the same node are in the same group."""
    nodes = {node.id: set(node.cpus) for node in host.topology.nodes}
    groups: list[tuple[set[int], list[HostPart]]] = []
    for ccd in ccds:
        numbers = {number for number, cpus in nodes.items() if cpus & ccd.cpus}
        members = [ccd]
        for group in [group for group in groups if group[0] & numbers]:
            groups.remove(group)
            numbers |= group[0]
            members = [*group[1], *members]
        groups.append((numbers, members))
    joined = []
    for numbers, members in groups:
        cpus = {cpu for number in numbers for cpu in nodes[number]}.difference(host.plan.housekeeping)
        # Where both sockets are one node (NPS0), the node is larger than its part on this socket.
        whole = cpus == {cpu for ccd in members for cpu in ccd.cpus}
        words = (
            ",".join(f"node{number}" for number in sorted(numbers)) if whole else format_cpus_option_of_parts(members)
        )
        cores = [core for ccd in members for core in ccd.levels[0]]
        joined.append(_join_parts(host, words, members, [members, cores]))
    return joined


def _join_parts(host: Host, words: str, parts: Sequence[HostPart], levels: Sequence[Sequence[HostPart]]) -> HostPart:
    cpus = {cpu for part in parts for cpu in part.cpus}
    return HostPart(words, cpus, len(parts), _memory_nodes(host, cpus), levels)


def _memory_nodes(host: Host, cpus: Iterable[int]) -> tuple[int, ...]:
    """Return the nodes of these CPUs that have memory; an empty tuple where none of them has."""
    members = set(cpus)
    return tuple(node.id for node in host.topology.nodes if node.bytes and members & set(node.cpus))
