# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CPUs on which an instance computes, and the nodes of its memory; where one is not set, it follows the other."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._host.host import ROLES
from ..._kernel import hugepages
from ..._notation.cpulist import format_cpulist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._host.host import Host
    from ..options.options import Options


def busy_cpus(options: Options, host: Host) -> list[int]:
    """Return the CPUs to compute on, those of a draft among them."""
    top = host.topology
    if options.cpus:
        busy = named(host, options.cpus)
    else:
        nodes = hugepages.parse_nodes(host.fs, options.nodes, "nodes") if options.nodes else ()
        near = {cpu for node in top.nodes if node.id in nodes or not nodes for cpu in node.cpus}
        busy = [cpu for cpu in top.online if cpu in near and cpu not in host.plan.housekeeping]
    if not busy:
        raise BadRequest(
            "All CPUs to compute on are housekeeping. Name other cpus or nodes, or give cpus as numbers to use these "
            "CPUs nevertheless."
        )
    return busy


def named(host: Host, words: str) -> list[int]:
    """Return the CPUs that words with commas name: roles, places and numbers."""
    return sorted({cpu for word in words.split(",") for cpu in _free_cpus(host, word.strip())})


def _free_cpus(host: Host, word: str) -> set[int]:
    """Return the CPUs that a word names; without the housekeeping CPUs unless it is a role or numbers."""
    named = set(host.parse_cpus(word))
    return named if word in ROLES or word[:1].isdigit() else named.difference(host.plan.housekeeping)


def memory_nodes(options: Options, host: Host, busy: Sequence[int]) -> tuple[int, ...]:
    """Return the nodes for the memory of what computes on these CPUs."""
    return tuple(hugepages.parse_nodes(host.fs, options.nodes, "nodes")) if options.nodes else near_nodes(host, busy)


def near_nodes(host: Host, cpus: Sequence[int]) -> tuple[int, ...]:
    """Return the nodes of these CPUs, without those that have no memory where others have some."""
    own = [node for node in host.topology.nodes if set(node.cpus) & set(cpus)]
    return tuple([node.id for node in own if node.bytes] or [node.id for node in own])


def remarks(options: Options, host: Host, busy: Sequence[int], nodes: Sequence[int]) -> list[str]:
    """Return what speaks against these CPUs with memory on these nodes."""
    found = []
    far = [node.id for node in host.topology.nodes if set(node.cpus) & set(busy) and node.id not in nodes]
    if far and options.nodes:
        found.append(f"CPUs on nodes {format_cpulist(far)} read all memory from nodes {format_cpulist(nodes)}.")
    kept = set(busy) & set(host.plan.housekeeping)
    if kept:
        found.append(f"CPUs {format_cpulist(kept)} compute, and are housekeeping too: interrupts will disturb them.")
    return found
