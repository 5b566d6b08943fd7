# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts of every shape, made in memory, because a tree of files for each would take most of the time of a test."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._host.ccds import L3Domain
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._host.topology import Node, Topology
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory

GIB = 1 << 30
ABSENT = "/nonexistent/of/a/host/in/memory"


class Shape(NamedTuple):
    """The shape of a host. ``nodes`` are those of a socket, 0 where each L3 domain is a node.

    ``cxl_gib`` is the memory of a node without CPUs, and ``bare_nodes`` are the numbers of nodes without memory.
    """

    sockets: int = 1
    nodes: int = 1
    ccds: int = 8
    l3_per_ccd: int = 1
    cores_per_l3: int = 8
    smt: bool = False
    node_gib: tuple[int, ...] = (384,)
    cxl_gib: int = 0
    bare_nodes: tuple[int, ...] = ()


@st.composite
def shapes(draw: Any) -> Shape:
    """Return shapes with 1 or 2 sockets of 1 to 16 CCDs, in which a node has whole CCDs or is an L3 domain."""
    ccds = draw(st.integers(1, 16))
    per_socket = draw(st.sampled_from([count for count in (0, 1, 2, 4) if count == 0 or ccds % count == 0]))
    l3_per_ccd = draw(st.sampled_from([1, 2]))
    sockets = draw(st.integers(1, 2))
    nodes = sockets * (per_socket or ccds * l3_per_ccd)
    bare = draw(st.sets(st.integers(0, nodes - 1), max_size=nodes - 1)) if draw(st.integers(0, 3)) == 0 else set()
    sizes = [draw(st.sampled_from([4, 24, 96, 192, 768]))]
    if draw(st.integers(0, 3)) == 0:
        sizes += draw(st.lists(st.sampled_from([4, 24, 96, 192]), max_size=3))
    return Shape(
        sockets,
        per_socket,
        ccds,
        l3_per_ccd,
        draw(st.integers(1, 16)),
        draw(st.booleans()),
        tuple(sizes),
        draw(st.sampled_from([0, 0, 256])),
        tuple(sorted(bare)),
    )


def topology_of_shape(shape: Shape) -> Topology:
    """Return the topology of a shape. The numbers of CPUs are those of AMD's firmware: second threads come last."""
    top = Topology()
    top.vendor, top.model, top.sku, top.family, top.model_number = "AuthenticAMD", "AMD EPYC 9999", "9999", 25, 17
    top.smt = "on" if shape.smt else "notsupported"
    cores = shape.sockets * shape.ccds * shape.l3_per_ccd * shape.cores_per_l3
    top.cores = top.present_cores = tuple((core, core + cores) if shape.smt else (core,) for core in range(cores))
    top.online = tuple(sorted(cpu for core in top.cores for cpu in core))
    domains = shape.sockets * shape.ccds * shape.l3_per_ccd
    for number, members in enumerate(_cpus_of_equal_parts(top, domains)):
        domain = L3Domain(number, 32 << 20, members)
        domain.ccd = number // shape.l3_per_ccd
        domain.socket = number * shape.sockets // domains
        top.l3.append(domain)
    top.domains = top.l3
    top.ccds = [top.l3[at : at + shape.l3_per_ccd] for at in range(0, domains, shape.l3_per_ccd)]
    top.sockets = dict(enumerate(_cpus_of_equal_parts(top, shape.sockets)))
    nodes = shape.sockets * (shape.nodes or shape.ccds * shape.l3_per_ccd)
    for number, members in enumerate(_cpus_of_equal_parts(top, nodes)):
        gib = 0 if number in shape.bare_nodes else shape.node_gib[number % len(shape.node_gib)]
        top.nodes.append(Node(number, members, gib * GIB, {}))
    if shape.cxl_gib:
        top.nodes.append(Node(nodes, (), shape.cxl_gib * GIB, {}))
    for domain in top.l3:
        domain.node = next(node.id for node in top.nodes if domain.cpus[0] in node.cpus)
    return top


def host_of_shape(shape: Shape, intent: dict[str, Any] | None = None) -> Host:
    """Return a host without kernel files, whose topology is known already."""
    host = Host(KernelFS(ABSENT, read_only=True), intent)
    host._topology = topology_of_shape(shape)
    return host


def free_memory_of(host: Host) -> FreeMemory:
    """Return the memory of a host of which 95 percent of each node are free."""
    return FreeMemory({node.id: node.bytes * 95 // 100 for node in host.topology.nodes})


def _cpus_of_equal_parts(top: Topology, parts: int) -> list[tuple[int, ...]]:
    size = len(top.cores) // parts
    return [
        tuple(sorted(cpu for core in top.cores[at : at + size] for cpu in core))
        for at in range(0, len(top.cores), size)
    ]
