# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bandwidth of a whole host: when it may be measured, of which CPUs and nodes, and what of it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench import host_memory
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.memory.bandwidth import Bandwidth
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._host.memory_speed import load_memory_speed
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import measuring_run
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

KIB_PER_GIB = 1 << 20


class Clock:
    """Seconds that pass by sleeping; meanwhile so many CPUs of the host are busy."""

    def __init__(self, host: hosts.Host, busy: Sequence[float]) -> None:
        self.host = host
        self.busy = list(busy)
        self.now = self.ticks = 0.0
        self.put()

    def put(self) -> None:
        self.host.put("/proc/stat", f"cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 {round(self.ticks)} 0 0 9 9 0 0 0 0 0")

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.ticks += 100 * seconds * (self.busy.pop(0) if len(self.busy) > 1 else self.busy[0])
        self.put()


class Measurements:
    """Stands for what measures: each CPU reads 3 GB/s, and all together 40."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[int, ...], tuple[int, ...], tuple[str, ...]]] = []
        self.source = "reader"

    def measure(self, top: Any, cpus: Sequence[int], nodes: Sequence[int], policy: Sequence[str] = ()) -> Bandwidth:
        self.asked.append((tuple(cpus), tuple(nodes), tuple(policy)))
        return Bandwidth(cpus, nodes, min(40.0, 3.0 * len(cpus)), self.source, ["There is no compiler."])


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> hosts.Host:
    """Four nodes of four cores with two threads each, and 16 GiB of memory in each node."""
    tree = hosts.small(tmp_path, smt=True)
    for node in range(4):
        tree.put(
            f"/sys/devices/system/node/node{node}/meminfo",
            f"Node {node} MemTotal: {16 * KIB_PER_GIB} kB Node {node} MemFree: {15 * KIB_PER_GIB} kB",
        )
    monkeypatch.setattr(measuring_run, "LOCK", str(tmp_path / "run/lock"))
    return tree


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> Measurements:
    found = Measurements()
    monkeypatch.setattr(host_memory, "measure_bandwidth", found.measure)
    return found


def test_each_node_and_all_of_them_are_measured_and_stored(host: hosts.Host, measurements: Measurements) -> None:
    lines: list[str] = []
    speed = host_memory.measure_host_memory(Host(host.fs), lines.append, Clock(host, [0.1]))
    assert [(len(cpus), nodes) for cpus, nodes, _policy in measurements.asked] == [
        *((4, (node,)) for node in range(4)),
        (16, (0, 1, 2, 3)),
    ]
    # One thread of each core reads.
    assert measurements.asked[-1][0] == tuple(range(16))
    assert (speed.measured_gbps, speed.measured_by_node) == (40.0, dict.fromkeys(range(4), 12.0))
    assert load_memory_speed(Host(host.fs)).measured_gbps == 40.0
    # Two CCDs carry 115 GB/s.
    assert host_memory.format_memory_speed(speed).startswith("40 of 115 GB/s were read, 35%. Node 0: 12 GB/s, node 1:")
    assert speed.is_slow
    assert len(lines) == 5


def test_it_waits_until_the_cpus_are_idle(host: hosts.Host, measurements: Measurements) -> None:
    clock = Clock(host, [3.0, 3.0, 0.2])
    host_memory.measure_host_memory(Host(host.fs), clock=clock)
    assert clock.now == 3.0


def test_a_host_that_works_is_refused(host: hosts.Host, measurements: Measurements) -> None:
    with pytest.raises(BadRequest, match=r"3\.0 CPUs of this host are busy, also after 5 seconds.*Nothing was meas"):
        host_memory.measure_host_memory(Host(host.fs), clock=Clock(host, [3.0]), wait_seconds=5)
    assert measurements.asked == []


def test_a_node_without_memory_to_read_is_refused(host: hosts.Host, measurements: Measurements) -> None:
    host.put("/sys/devices/system/node/node2/meminfo", "Node 2 MemTotal: 16777216 kB Node 2 MemFree: 1048576 kB")
    with pytest.raises(TuningError, match=r"Node 2 has 1 GiB of memory available, and 1 GiB are read"):
        host_memory.measure_host_memory(Host(host.fs), clock=Clock(host, [0]))
    assert measurements.asked == []


def test_nothing_is_stored_where_nothing_measures(host: hosts.Host, measurements: Measurements) -> None:
    measurements.source = "paper"
    with pytest.raises(TuningError, match="cannot be measured: There is no compiler"):
        host_memory.measure_host_memory(Host(host.fs), clock=Clock(host, [0]))
    assert load_memory_speed(Host(host.fs)).measured_by_node == {}


def test_cpus_of_a_partition_are_measured_in_its_slice(host: hosts.Host, measurements: Measurements) -> None:
    host.put("/sys/fs/cgroup/llama.slice/cpuset.cpus.partition", "root")
    host.put("/sys/fs/cgroup/llama.slice/cpuset.cpus.effective", "1-15,17-31")
    host_memory.measure_host_memory(Host(host.fs), clock=Clock(host, [0]))
    cpus, _nodes, policy = measurements.asked[-1]
    assert cpus == tuple(range(1, 16))
    assert "--slice=llama.slice" in policy


class Target:
    """An instance with CPUs and nodes."""

    def __init__(self, cpus: Sequence[int], nodes: Sequence[int]) -> None:
        self.cpus = list(cpus)
        self.nodes = list(nodes)


def stored(host: hosts.Host, cpus: Sequence[int], nodes: Sequence[int], gbps: float, source: str = "reader") -> Any:
    target: Any = Target(cpus, nodes)
    host_memory.store_bandwidth_of_instance(Host(host.fs), target, Bandwidth(cpus, nodes, gbps, source))
    return load_memory_speed(Host(host.fs)).measured_by_node


def test_an_instance_on_whole_nodes_measures_them(host: hosts.Host) -> None:
    assert stored(host, [1, 2, 3], [0], 30.0) == {0: 30.0}
    assert stored(host, range(4, 12), [1, 2], 50.0) == {0: 30.0, 1: 25.0, 2: 25.0}
    # A neighbour that works makes a figure low.
    assert stored(host, [1, 2, 3], [0], 10.0)[0] == 30.0
    assert stored(host, [1, 2, 3], [0], 31.0)[0] == 31.0


def test_an_instance_on_a_node_without_free_pages_is_not_stored(host: hosts.Host) -> None:
    host.put("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 16777216 kB Node 0 MemFree: 1000000 kB")
    assert stored(host, [1, 2, 3], [0], 30.0) == {}


def test_neighbours_that_work_are_seen(host: hosts.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = ["chat"]
    monkeypatch.setattr(host_memory, "list_installed_instances", lambda root: installed)
    assert host_memory.are_other_instances_idle(Host(host.fs), Clock(host, [3.0]))
    installed.append("code")
    assert not host_memory.are_other_instances_idle(Host(host.fs), Clock(host, [3.0]))
    assert host_memory.are_other_instances_idle(Host(host.fs), Clock(host, [0.1]))


@pytest.mark.parametrize(
    ("cpus", "nodes", "source"),
    [
        ([0], [0], "reader"),  # one core of four
        ([0, 1, 2, 3], [0, 2], "reader"),  # no CCD of node 2
        ([0, 1, 2, 3], [0], "paper"),
    ],
)
def test_an_instance_that_reads_less_is_not_stored(
    host: hosts.Host, cpus: Sequence[int], nodes: Sequence[int], source: str
) -> None:
    assert stored(host, cpus, nodes, 30.0, source) == {}
