# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which programs count as a disturbance of an instance, and how they are named; two sockets, four nodes, 16 cores."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import limits
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.sampling import other_programs
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

CGROUPS = "/sys/fs/cgroup"
SERVICE = "llama-chat.service"


class Machine:
    """A machine of two sockets, of which each ``run`` lets programs use CPU seconds within ten seconds."""

    def __init__(self, root: Path, smt: bool = False) -> None:
        self.tree = hosts.build(root, sockets=2, l3_per_socket=2, cores_per_l3=4, nodes=4, smt=smt)
        self.top = self.tree.topology()
        self.cpu_ticks = dict.fromkeys(self.top.online, 1000)
        self.unit_seconds = {f"system.slice/{SERVICE}": 50.0}
        self.put()

    def put(self) -> None:
        rows = [f"cpu{cpu} {ticks} 0 0 9 9 0 0 0 0 0" for cpu, ticks in self.cpu_ticks.items()]
        self.tree.put("/proc/stat", "\n".join(["cpu  1 0 0 9 9 0 0 0 0 0", *rows, "intr 5"]))
        for unit, seconds in self.unit_seconds.items():
            self.tree.put(f"{CGROUPS}/{unit}/cpu.stat", f"usage_usec {round(seconds * 1e6)}\nuser_usec 1")

    def unit(self, unit: str, process: int, name: str, cpus: str, seconds: float = 0.0) -> None:
        """Put a unit with one process that may run on these CPUs."""
        self.unit_seconds[unit] = seconds
        self.tree.put(f"{CGROUPS}/{unit}/cgroup.procs", process)
        self.process(process, name, cpus)
        self.put()

    def process(self, process: int, name: str, cpus: str, seconds: float = 1.0) -> None:
        self.tree.put(f"/proc/{process}/task/{process}/status", f"Name:\t{name}\nCpus_allowed_list:\t{cpus}")
        fields = ["S", *["0"] * 50]
        fields[14 - 3] = str(round(100 * seconds))
        self.tree.put(f"/proc/{process}/stat", f"{process} ({name}) {' '.join(fields)}")

    def look(self) -> other_programs.ProgramSeconds:
        return other_programs.ProgramSeconds(self.tree.fs, [SERVICE], 0.0)

    def run(self, cpus: dict[int, float], units: dict[str, float]) -> tuple[Any, Any]:
        """Return the readings before and after these CPUs and units used so many seconds."""
        before = self.look()
        for cpu, seconds in cpus.items():
            self.cpu_ticks[cpu] += round(100 * seconds)
        for unit, seconds in units.items():
            self.unit_seconds[unit] = self.unit_seconds.get(unit, 0.0) + seconds
        self.put()
        return before, self.look()

    def instance(self, *cpus: int, nodes: tuple[int, ...] = (0,), draft: tuple[int, ...] = ()) -> Any:
        return SimpleNamespace(cpus=cpus, draft_cpus=draft, nodes=nodes)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def share(machine: Machine, cpus: other_programs.InstanceCpus, readings: tuple[Any, Any]) -> float | None:
    return other_programs.other_programs_cpu_share(*readings, 10.0, cpus, {15})


def test_the_cpus_of_an_instance(tmp_path: Path) -> None:
    """Both threads of each core count, the CPUs of a draft, and all CPUs of the nodes of its memory."""
    machine = Machine(tmp_path, smt=True)
    cpus = other_programs.InstanceCpus(machine.top, [machine.instance(0, 1, draft=(2,), nodes=(1,))])
    assert (cpus.computing, cpus.cores, cpus.sockets) == ({0, 1, 2}, {0, 1, 2, 16, 17, 18}, {0})
    assert cpus.nodes == {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23}


def test_another_socket_does_not_count(machine: Machine) -> None:
    """A second instance that is busy on the other socket disturbs neither cores nor memory of the first."""
    cpus = other_programs.InstanceCpus(machine.top, [machine.instance(0, 1, 2, 3)])
    busy = {cpu: 10.0 for cpu in (0, 1, 2, 3, 8, 9, 10, 11)}
    units = {f"system.slice/{SERVICE}": 40.0, "system.slice/llama-other.service": 40.0}
    assert share(machine, cpus, machine.run(busy, units)) == 0


def test_a_small_instance_is_not_disturbed_by_an_exporter(machine: Machine) -> None:
    """Two threads compute; on a CPU of the same node an agent takes 0.5 percent of a CPU."""
    cpus = other_programs.InstanceCpus(machine.top, [machine.instance(0, 1)])
    found = share(machine, cpus, machine.run({0: 10.0, 1: 10.0, 3: 0.05}, {f"system.slice/{SERVICE}": 20.0}))
    assert found == pytest.approx(0.05 / 40) and found < limits.MAX_OTHER_CPU_SHARE


def test_a_program_on_the_node_takes_memory_bandwidth(machine: Machine) -> None:
    cpus = other_programs.InstanceCpus(machine.top, [machine.instance(0, 1)])
    found = share(machine, cpus, machine.run({0: 10.0, 1: 10.0, 3: 10.0}, {f"system.slice/{SERVICE}": 20.0}))
    assert found == pytest.approx(0.25)


def test_a_program_on_the_sibling_thread_counts(tmp_path: Path) -> None:
    machine = Machine(tmp_path, smt=True)
    cpus = other_programs.InstanceCpus(machine.top, [machine.instance(0, 1)])
    found = share(machine, cpus, machine.run({0: 10.0, 1: 10.0, 16: 1.0}, {f"system.slice/{SERVICE}": 20.0}))
    assert found == pytest.approx(0.05)


def test_all_arms_are_judged_alike(machine: Machine) -> None:
    """An arm with one thread instead of four has the same share of others, though its service used less."""
    unchanged, changed = machine.instance(0, 1, 2, 3), machine.instance(0)
    cpus = other_programs.InstanceCpus(machine.top, [unchanged, changed])
    both = [
        share(
            machine, cpus, machine.run({0: 10.5, 1: used, 2: used, 3: used}, {f"system.slice/{SERVICE}": 10 + 3 * used})
        )
        for used in (10.0, 0.0)
    ]
    assert both == [pytest.approx(0.5 / 40)] * 2


def test_our_own_time_counts_where_we_may_run(machine: Machine) -> None:
    cpus = other_programs.InstanceCpus(machine.top, [machine.instance(0, 1, 2, 3)])
    before, after = machine.run({0: 10.0}, {f"system.slice/{SERVICE}": 8.0})
    after.own = 2.0
    assert other_programs.other_programs_cpu_share(before, after, 10.0, cpus, {0}) == 0
    assert other_programs.other_programs_cpu_share(before, after, 10.0, cpus, {15}) == pytest.approx(0.05)


def test_a_service_without_cpu_time(machine: Machine) -> None:
    cpus = other_programs.InstanceCpus(machine.top, [machine.instance(0)])
    assert share(machine, cpus, machine.run({0: 10.0}, {})) is None


def test_the_busiest_units_are_named(machine: Machine) -> None:
    """Not the measured service, nor what cannot run on the nodes of the instance, nor what did almost nothing."""
    session = "user.slice/user-1000.slice/session-3.scope"
    machine.unit("system.slice/exporter.service", 200, "node_exporter", "0-15")
    machine.unit("system.slice/llama-other.service", 201, "llama-server", "8-11")
    machine.unit("system.slice/idle.service", 202, "idle", "0-15")
    machine.unit(session, 203, "bash", "0-15")
    machine.tree.put(f"{CGROUPS}/{session}/cgroup.procs", "203\n204")
    machine.process(204, "rsync (a) b", "0-15", seconds=99)
    machine.tree.put(f"{CGROUPS}/cgroup.procs", "7\n9\n999")
    machine.process(7, "kswapd0", "0-3", seconds=5)
    machine.process(9, "kswapd3", "12-15", seconds=5)
    cpus = other_programs.InstanceCpus(machine.top, [machine.instance(0, 1)])
    units = {"system.slice/exporter.service": 0.2, "system.slice/llama-other.service": 40, session: 8.0}
    before = machine.look()
    machine.process(7, "kswapd0", "0-3", seconds=6)
    machine.process(9, "kswapd3", "12-15", seconds=8)
    dummy, after = machine.run({}, {**units, "system.slice/idle.service": 0.001, f"system.slice/{SERVICE}": 20})
    found = other_programs.find_busiest_units(machine.tree.fs, before, after, 10.0, cpus, [SERVICE])
    assert found == [
        {"unit": "session-3.scope (rsync (a) b)", "share": 0.4},
        {"unit": "kswapd0 (kernel)", "share": 0.05},
        {"unit": "exporter.service (node_exporter)", "share": 0.01},
    ]


def test_our_own_requests_are_no_disturbance(machine: Machine) -> None:
    session = "user.slice/user-1000.slice/session-3.scope"
    machine.unit(session, 203, "python3", "0-15")
    machine.tree.put("/proc/self/cgroup", f"0::/{session}")
    cpus = other_programs.InstanceCpus(machine.top, [machine.instance(0, 1)])
    before, after = machine.run({}, {session: 3.0})
    after.own = 2.9
    found = other_programs.find_busiest_units(machine.tree.fs, before, after, 10.0, cpus, [SERVICE])
    assert found == [{"unit": "session-3.scope (python3)", "share": pytest.approx(0.005)}]


def test_the_sentence_names_them() -> None:
    busiest = [{"unit": "session-3.scope (rsync)", "share": 0.41}, {"unit": "kswapd0 (kernel)", "share": 0.01}]
    assert limits.disturbance_messages({"others": 0.412, "steal": 0.0, "busiest": busiest}) == [
        "Other programs took 41.2% of the time of the instance's CPUs, above 2.0%; the busiest: session-3.scope "
        "(rsync) 41.0%, kswapd0 (kernel) 1.0%."
    ]
    assert limits.disturbance_messages({"others": 0.02, "steal": 0.005}) == []
