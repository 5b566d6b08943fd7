# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes that have memory without CPUs, such as memory on a CXL device, and nodes that have CPUs without memory."""

from __future__ import annotations

from .._notation.cpulist import format_cpulist
from .._notation.sizes import format_bytes_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .topology import Node, Topology


def list_nodes_without_cpus(top: Topology) -> list[Node]:
    """Return the nodes with memory that have no CPU, not even an offline one."""
    nodes_of_cpus = {domain.node for domain in top.domains}
    return [node for node in top.nodes if node.bytes and not node.cpus and node.id not in nodes_of_cpus]


def list_nodes_without_memory(top: Topology) -> list[Node]:
    """Return the nodes with CPUs that have no memory; an empty list where the memory of no node is known."""
    if not any(node.bytes for node in top.nodes):
        return []
    return [node for node in top.nodes if node.cpus and not node.bytes]


def list_odd_node_remarks(top: Topology) -> list[str]:
    """Return a remark on nodes without CPUs, and a remark on nodes without memory."""
    remarks = []
    without_cpus = list_nodes_without_cpus(top)
    if without_cpus:
        remarks.append(
            f"{describe_nodes_without_cpus(without_cpus)}: no model and no pool of huge pages is put there, unless an "
            "instance names the node in nodes, or a pool in node."
        )
    without_memory = list_nodes_without_memory(top)
    if without_memory:
        remarks.append(
            f"{_format_node_numbers_and_verb(without_memory)} CPUs and no memory: these CPUs read all memory "
            "from other nodes. Put modules into the memory channels there."
        )
    return remarks


def unused_memory_sentences(top: Topology) -> str:
    """Return sentences, with a blank before each, on memory that a refused model did not get; empty without any."""
    sentences = []
    without_cpus = list_nodes_without_cpus(top)
    if without_cpus:
        sentences.append(
            f" {describe_nodes_without_cpus(without_cpus)}, and would be used only if nodes named it: it is much "
            "slower to read."
        )
    without_memory = list_nodes_without_memory(top)
    if without_memory:
        sentences.append(f" {_format_node_numbers_and_verb(without_memory)} CPUs and no memory.")
    return "".join(sentences)


def describe_nodes_without_cpus(nodes: Sequence[Node]) -> str:
    """Return a clause on nodes without CPUs, as "Node 4 has 256 GiB of memory and no CPU, ..."."""
    size = format_bytes_short(sum(node.bytes for node in nodes))
    return f"{_format_node_numbers_and_verb(nodes)} {size} of memory and no CPU, as is usual for memory on a CXL device"


def _format_node_numbers_and_verb(nodes: Sequence[Node]) -> str:
    numbers = format_cpulist(node.id for node in nodes)
    return f"Node {numbers} has" if len(nodes) == 1 else f"Nodes {numbers} have"
