# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CPUs on which an instance computes, the nodes of its memory, and how its compute threads are pinned to CPUs.

Where an option sets only CPUs or only nodes, the others are chosen to match. There are four methods of pinning.
``strict``: the server's flag --cpu-mask, with which threads take CPUs in ascending order. ``gomp``: the CPU list of an
OpenMP build, in any order. ``numa``: the server's flag --numa, which spreads threads over all nodes and overrides
other pins. ``cpuset``: no pinning; threads move freely between the CPUs of the unit.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._host.intent import ROLES
from ..._kernel import hugepages
from ..._notation.cpulist import format_cpulist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._host.host import Host
    from ..._host.topology import Topology
    from ..options.option_table import OptionTable


def choose_compute_cpus(options: OptionTable, host: Host) -> list[int]:
    """Return the CPUs on which an instance and its draft compute.

    These are the CPUs of the option cpus, or else all CPUs of the nodes except for housekeeping CPUs. BadRequest where
    no CPU is left.
    """
    top = host.topology
    if options.cpus:
        busy = parse_cpu_selection(host, options.cpus)
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


def parse_cpu_selection(host: Host, text: str) -> list[int]:
    """Return the CPUs, in ascending order, that a text names by roles, places and numbers with commas in between."""
    return sorted({cpu for word in text.split(",") for cpu in _parse_cpu_selection_word(host, word.strip())})


def _parse_cpu_selection_word(host: Host, word: str) -> set[int]:
    """Return the CPUs that a word names. A place, such as a node, does not include its housekeeping CPUs."""
    named = set(host.parse_cpus(word))
    return named if word in ROLES or word[:1].isdigit() else named.difference(host.plan.housekeeping)


def choose_memory_nodes(options: OptionTable, host: Host, compute_cpus: Sequence[int]) -> tuple[int, ...]:
    """Return the nodes for the memory of an instance: the option nodes, or else the nodes of the CPUs that compute."""
    if options.nodes:
        return tuple(hugepages.parse_nodes(host.fs, options.nodes, "nodes"))
    return memory_nodes_of_cpus(host, compute_cpus)


def memory_nodes_of_cpus(host: Host, cpus: Sequence[int]) -> tuple[int, ...]:
    """Return the nodes of these CPUs that have memory, or all nodes of these CPUs if none of these nodes has memory."""
    near = [node for node in host.topology.nodes if set(node.cpus) & set(cpus)]
    return tuple([node.id for node in near if node.bytes] or [node.id for node in near])


def far_and_housekeeping_cpu_remarks(
    options: OptionTable, host: Host, busy: Sequence[int], nodes: Sequence[int]
) -> list[str]:
    """Return remarks on CPUs that are far from the memory of an instance, and on housekeeping CPUs that compute."""
    remarks = []
    far = [node.id for node in host.topology.nodes if set(node.cpus) & set(busy) and node.id not in nodes]
    if far and options.nodes:
        remarks.append(f"CPUs on nodes {format_cpulist(far)} read all memory from nodes {format_cpulist(nodes)}.")
    housekeeping = set(busy) & set(host.plan.housekeeping)
    if housekeeping:
        remarks.append(
            f"CPUs {format_cpulist(housekeeping)} compute, and are housekeeping too: interrupts will disturb them."
        )
    return remarks


STRICT, GOMP, NUMA, CPUSET = "strict", "gomp", "numa", "cpuset"
#: The limits of llama-server, which are compiled into the program.
MOST_NODES = 8
MOST_CPUS = 512


def first_cpu_of_each_core(top: Topology, cpus: Sequence[int]) -> list[int]:
    """Return the first of the given CPUs on each core, because two threads on a core slow each other down."""
    members = set(cpus)
    return sorted(min(members.intersection(core)) for core in top.cores if members.intersection(core))


def require_core_for_each_thread(option: str, threads: int, cores: int, owner: str) -> None:
    """Raise BadRequest where an option requests more threads than its owner, such as "the draft", has cores."""
    if threads > cores:
        raise BadRequest(
            f"{option} is {threads}, but there are {cores} cores for {owner}. Two threads on a core slow each other "
            f"down. Use at most {cores}."
        )


def alternate_l3_domains(top: Topology, cpus: Sequence[int]) -> list[int]:
    """Return the CPUs in an order that takes one CPU of each L3 domain in turn.

    In this order, even a few threads use the memory links of all CCDs.
    """
    rows = [[cpu for cpu in cpus if cpu in domain.cpus] for domain in top.l3] or [list(cpus)]
    longest = max(len(row) for row in rows)
    return [row[at] for at in range(longest) for row in rows if at < len(row)]


def choose_pinning_method(
    can_pin_threads: bool, openmp: bool, in_order: bool, threads: int, draft_threads: int, isolated: Sequence[int]
) -> str:
    """Return the method of pinning: STRICT, GOMP or CPUSET. BadRequest where all threads would run on one CPU."""
    if openmp and (in_order or not can_pin_threads or threads == 1):
        # An OpenMP build with one thread ignores --cpu-mask.
        return GOMP
    if can_pin_threads and (openmp or draft_threads <= 1):
        return STRICT
    if isolated:
        reason = (
            "this build makes new threads for each drafted token, and masks would put them all on one CPU"
            if can_pin_threads
            else "this build ignores --cpu-mask, and has no OpenMP, which would use GOMP_CPU_AFFINITY"
        )
        raise BadRequest(
            f"CPUs {format_cpulist(isolated)} are isolated, where the kernel spreads no threads, so each must be "
            f"pinned; but {reason}. Build the server with OpenMP, or use CPUs that are not isolated."
        )
    return CPUSET


def max_threads_spread_evenly_over_nodes(
    top: Topology, cpus: Sequence[int], isolated: Sequence[int], memory: str, numa_mode: str
) -> int:
    """Return the largest number of threads that the flag --numa spreads evenly over all nodes, in this mode.

    With this flag, thread i runs on any CPU of node i modulo the number of nodes. BadRequest where the flag cannot be
    used on this host or with these CPUs; ``memory`` is the value of the option memory that needs the flag.
    """
    numbers = [node.id for node in top.nodes]
    reason = ""
    counts = [len(first_cpu_of_each_core(top, [cpu for cpu in cpus if cpu in node.cpus])) for node in top.nodes]
    if not 2 <= len(numbers) <= MOST_NODES:
        reason = f"it is made for 2 to {MOST_NODES} nodes, and this host has {len(numbers)}"
    elif numbers != list(range(len(numbers))):
        reason = f"it counts nodes from 0 without holes, and this host has {format_cpulist(numbers)}"
    elif len(top.online) > MOST_CPUS or max(top.online) >= MOST_CPUS:
        reason = f"it is made for {MOST_CPUS} CPUs, and this host has {len(top.online)}"
    elif not all(counts):
        missing = format_cpulist(node.id for node, count in zip(top.nodes, counts) if not count)
        reason = f"it sends threads to every node of the host, and the instance has no CPU on node {missing}"
    elif isolated:
        reason = f"it pins threads to nodes only, and the kernel spreads none over CPUs {format_cpulist(isolated)}, "
        reason += "which are isolated"
    if reason:
        raise BadRequest(f"memory {memory} needs --numa {numa_mode}: {reason}. Use interleave or bind.")
    return min(counts) * len(counts)
