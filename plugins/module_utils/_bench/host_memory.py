# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures the read bandwidth of a host, of each node and of all together, and stores it for plans and checks.

The first CPU of each core reads. Nothing else may read memory meanwhile, so a measurement waits
until the CPUs are idle, and is refused where they stay busy. Page cache is dropped where the measured pages would
otherwise come from another node.
"""

from __future__ import annotations

import time

from .._errors import BadRequest, TuningError
from .._host.memory_channels import numbers_of_ccds
from .._host.memory_speed import load_memory_speed, nodes_with_channels, save_measured_speed
from .._io.store import Store
from .._kernel import partitions
from .._kernel.cpu_time import read_busy_and_stolen_seconds
from .._kernel.page_cache import (
    drop_page_cache_of_nodes,
    read_available_bytes,
    read_free_bytes,
    read_reserve_bytes,
)
from .._notation.cpulist import format_cpulist
from .._notation.sizes import format_bytes_short
from .._serving.unit.installed import list_installed_instances
from . import progress
from .memory.bandwidth import bytes_to_read_for_measurement, measure_bandwidth

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .._host.host import Host
    from .._host.memory_speed import MemorySpeed
    from .._host.topology import Topology
    from .memory.bandwidth import Bandwidth
    from .target.measured_instance import MeasuredInstance

#: Seconds of one look at the CPUs, and of all waiting for idle CPUs.
LOOK_SECONDS, WAIT_SECONDS = 1.0, 60.0
#: CPUs that may be busy on an idle host: this number, or this share of all.
IDLE_CPUS, IDLE_SHARE = 0.5, 0.01
#: Bytes of a node that stay available while it is measured.
LEFT_BYTES = 1 << 30
#: The part of the cores of a node with which an instance measures the whole node.
LEAST_CORES = 0.5


def measure_host_memory(
    host: Host,
    report_step: Callable[[str], None] = lambda line: None,
    clock: Any = time,
    wait_seconds: float = WAIT_SECONDS,
) -> MemorySpeed:
    """Measure the bandwidth of each node and of all nodes, store it, and return what is known now.

    BadRequest where the CPUs are busy, or another run measures on this host; TuningError where nothing can measure.
    """
    with progress.hold_run_lock("the measurement of the memory"):
        wait_for_idle_cpus(host, report_step, clock, wait_seconds)
        return _measure_nodes(host, report_step)


def format_memory_speed(speed: MemorySpeed) -> str:
    """Return what a host reads of its memory, and what is wrong with it, in sentences."""
    nodes = ", ".join(f"node {node}: {gbps:.0f} GB/s" for node, gbps in sorted(speed.measured_by_node.items()))
    total = f"{speed.measured_gbps or 0:.0f}"
    if speed.share_of_theoretical_bandwidth is None:
        result = f"{total} GB/s were read; what this CPU could read is not in our table."
    else:
        result = f"{total} of {speed.theoretical_gbps:.0f} GB/s were read, {speed.share_of_theoretical_bandwidth:.0%}."
    return " ".join([result, f"{nodes[:1].upper()}{nodes[1:]}.", *speed.faults])


def wait_for_idle_cpus(
    host: Host, report_step: Callable[[str], None], clock: Any = time, wait_seconds: float = WAIT_SECONDS
) -> None:
    """Wait until almost all CPUs are idle; BadRequest where they are still busy after ``wait_seconds``."""
    end = clock.monotonic() + wait_seconds
    while True:
        busy = count_busy_cpus(host, clock)
        if busy <= _max_busy_cpus_of_idle_host(host):
            return
        if clock.monotonic() >= end:
            raise BadRequest(
                f"{busy:.1f} CPUs of this host are busy, also after {wait_seconds:.0f} seconds. Programs that work "
                "read memory too, so its bandwidth would be measured too low. Measure when no instance answers, or "
                "drain the host first (playbooks/drain.yml). Nothing was measured."
            )
        report_step(f"it waits until the CPUs are idle; {busy:.1f} of them are busy")


def count_busy_cpus(host: Host, clock: Any = time) -> float:
    """Return how many CPUs were busy in a moment, as a number with a fraction."""
    before, begin = read_busy_and_stolen_seconds(host.fs), clock.monotonic()
    clock.sleep(LOOK_SECONDS)
    after, seconds = read_busy_and_stolen_seconds(host.fs), clock.monotonic() - begin
    return float(sum(after[cpu][0] - before[cpu][0] for cpu in before if cpu in after) / seconds)


def _max_busy_cpus_of_idle_host(host: Host) -> float:
    """Return how many CPUs may be busy on an idle host."""
    return max(IDLE_CPUS, IDLE_SHARE * len(host.topology.online))


def _measure_nodes(host: Host, report_step: Callable[[str], None]) -> MemorySpeed:
    top = host.topology
    kind, partition = partitions.read_active_partition(host.fs)
    cpus = [cpu for cpu in (core[0] for core in top.cores) if not kind or cpu in partition]
    # Only the units of the slice may run on the CPUs of its partition.
    policy = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", f"--slice={partitions.SLICE}"] if kind else []
    members = {node.id: [cpu for cpu in cpus if cpu in node.cpus] for node in top.nodes}
    nodes = [node for node in nodes_with_channels(top) if members[node]]
    _drop_page_cache_for_measurement(host, {node: members[node] for node in nodes})
    by_node = {}
    for node in nodes:
        report_step(f"it measures the memory of node {node}")
        by_node[node] = _measure_gbps_or_raise(top, members[node], [node], policy)
    total = sum(by_node.values())
    if len(nodes) > 1:
        report_step("it measures the memory of all nodes together")
        total = _measure_gbps_or_raise(top, [cpu for node in nodes for cpu in members[node]], nodes, policy)
    save_measured_speed(host, Store(host.fs.root), by_node, total)
    return load_memory_speed(host)


def _measure_gbps_or_raise(top: Topology, cpus: Sequence[int], nodes: Sequence[int], policy: Sequence[str]) -> float:
    bandwidth = measure_bandwidth(top, cpus, nodes, policy)
    if not bandwidth.measured or bandwidth.gbps is None:
        raise TuningError(f"The memory bandwidth cannot be measured: {' '.join(bandwidth.reasons)}")
    return float(bandwidth.gbps)


def _drop_page_cache_for_measurement(host: Host, cpus_by_node: dict[int, list[int]]) -> None:
    """Drop page cache where a node has too few free pages; TuningError where it would still have too few."""
    needed = {
        node: bytes_to_read_for_measurement(host.topology, cpus) + read_reserve_bytes(host.fs, node)
        for node, cpus in cpus_by_node.items()
    }
    for node, size in needed.items():
        available = read_available_bytes(host.fs, node)
        if available < size + LEFT_BYTES:
            raise TuningError(
                f"Node {node} has {format_bytes_short(available)} of memory available, and {format_bytes_short(size)} "
                f"are read to measure it, beside {format_bytes_short(LEFT_BYTES)} that stay. Stop an instance on nodes "
                f"{format_cpulist(needed)} first. Nothing was measured."
            )
    drop_page_cache_of_nodes(host.fs, needed)


def are_other_instances_idle(host: Host, clock: Any = time) -> bool:
    """Return whether other instances than the one that is to be measured do no work, so that they read no memory."""
    return len(list_installed_instances(host.fs.root)) < 2 or count_busy_cpus(
        host, clock
    ) <= _max_busy_cpus_of_idle_host(host)


def store_bandwidth_of_instance(host: Host, target: MeasuredInstance, bandwidth: Bandwidth) -> None:
    """Store what a run measured for an instance, where its CPUs read all that its nodes give.

    Pages of other nodes make the figure of an instance too low, so it never replaces a higher one that counts, and none
    is stored where a node has too few free pages.
    """
    top = host.topology
    if not bandwidth.measured or bandwidth.gbps is None or not _cpus_cover_nodes(top, target.cpus, target.nodes):
        return
    size = bytes_to_read_for_measurement(top, target.cpus) // len(target.nodes)
    if any(read_free_bytes(host.fs, node) < size + read_reserve_bytes(host.fs, node) for node in target.nodes):
        return
    known = dict(load_memory_speed(host).measured_by_node)
    share = bandwidth.gbps / len(target.nodes)
    if all(share > known.get(node, 0.0) for node in target.nodes):
        known.update(dict.fromkeys(target.nodes, share))
        save_measured_speed(host, Store(host.fs.root), known, sum(known.values()))


def _cpus_cover_nodes(top: Topology, cpus: Sequence[int], nodes: Sequence[int]) -> bool:
    """Return whether some CPUs are on each CCD of some nodes, and are enough of their cores."""
    of_nodes = [cpu for node in top.nodes if node.id in nodes for cpu in node.cpus]
    members, near = set(cpus), set(of_nodes)
    cores = [core for core in top.cores if near.intersection(core)]
    used = [core for core in cores if members.intersection(core)]
    return (
        bool(cores)
        and set(nodes) <= set(nodes_with_channels(top))
        and numbers_of_ccds(top, of_nodes) == numbers_of_ccds(top, sorted(members & near))
        and len(used) >= LEAST_CORES * len(cores)
    )
