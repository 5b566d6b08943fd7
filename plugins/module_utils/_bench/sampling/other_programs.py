# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CPU time that other programs took from an instance, and the names of the busiest of them.

Only programs count that run on the cores of the instance or on its NUMA nodes, where they take its memory bandwidth: a
program on another socket takes nothing. The CPUs are those of the unchanged instance in all arms of a run, and CPU time
is a share of the time that passed, so that an arm with fewer threads is judged as any other arm.
"""

from __future__ import annotations

from ..._errors import TuningError
from ..._kernel import cgroups, cpu_time, threads
from ..._notation.cpulist import parse_cpulist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    from ..._host.topology import Topology
    from ..._io.kernelfs import KernelFS
    from ..target.measured_instance import MeasuredInstance

    Seconds = Mapping[int, tuple[float, float]]

#: So many of the busiest units are named, if they took at least this share of the time of the instance's CPUs.
NAMED_UNITS, LEAST_NAMED_SHARE = 3, 0.0005
#: So many processes of a unit are asked on which CPUs they may run; a unit has mostly few.
ASKED_PROCESSES = 64


class InstanceCpus:
    """The CPUs of an instance: ``computing`` by its plan, all ``cores`` of these CPUs, and those of its ``nodes``."""

    def __init__(self, top: Topology, targets: Iterable[MeasuredInstance]) -> None:
        """Collect the CPUs of an instance in one or several variants."""
        computing: set[int] = set()
        nodes: set[int] = set()
        for target in targets:
            computing |= {*target.cpus, *target.draft_cpus}
            nodes |= set(target.nodes)
        self.computing = computing
        self.cores = {cpu for core in top.cores if computing.intersection(core) for cpu in core} | computing
        near = [node.cpus for node in top.nodes if node.id in nodes or computing.intersection(node.cpus)]
        self.nodes = self.cores.union(*near)
        self.sockets = {number for number, cpus in top.sockets.items() if self.nodes.intersection(cpus)}


class ProgramSeconds:
    """CPU seconds at one moment: of each CPU, of the measured units, of this process, and of all other programs."""

    def __init__(self, fs: KernelFS, units: Iterable[str], own: float) -> None:
        self.cpus = cpu_time.read_busy_and_stolen_seconds(fs)
        self.service = sum(cgroups.read_cpu_seconds(fs, unit) for unit in units)
        self.own = own
        self.units = cpu_time.read_seconds_by_unit(fs)
        self.kernel_threads = cpu_time.read_seconds_by_kernel_thread(fs)
        #: The folder of the unit in which this process runs.
        self.own_unit = cgroups.CGROUPS + (fs.read_if_present("/proc/self/cgroup") or "").rpartition(":")[2]


def other_programs_cpu_share(
    before: ProgramSeconds, after: ProgramSeconds, seconds: float, cpus: InstanceCpus, own_cpus: Collection[int]
) -> float | None:
    """Return the time of other programs on the instance's cores, or on its nodes, as a share of the time of these CPUs.

    The larger of both shares counts. None where the service used no CPU time. The CPU time of this process, which sends
    the requests, does not count; ``own_cpus`` are the CPUs on which it may run.
    """
    service, own = after.service - before.service, after.own - before.own
    if service <= 0 or seconds <= 0:
        return None
    shares = []
    for watched, capacity in ((cpus.cores, cpus.computing), (cpus.nodes, cpus.nodes)):
        busy = _seconds_on_cpus(before.cpus, after.cpus, watched, 0)
        own_part = own if watched.intersection(own_cpus) else 0.0
        shares.append(max(0.0, busy - service - own_part) / (seconds * len(capacity)))
    return max(shares)


def stolen_cpu_share(before: ProgramSeconds, after: ProgramSeconds, cpus: Collection[int]) -> float:
    """Return the share of the time with work in which the hypervisor gave these CPUs to other guests."""
    busy, stolen = (_seconds_on_cpus(before.cpus, after.cpus, cpus, at) for at in (0, 1))
    return stolen / (busy + stolen) if busy + stolen > 0 else 0.0


def _seconds_on_cpus(before: Seconds, after: Seconds, cpus: Collection[int], at: int) -> float:
    """Return the seconds with work (``at`` 0) or stolen (1) of the CPUs that were online at both readings."""
    return sum(after[cpu][at] - before[cpu][at] for cpu in cpus if cpu in before and cpu in after)


def find_busiest_units(
    fs: KernelFS,
    before: ProgramSeconds,
    after: ProgramSeconds,
    seconds: float,
    cpus: InstanceCpus,
    measured_units: Collection[str],
) -> list[dict[str, Any]]:
    """Return unit and share of the busiest other programs that may run on the nodes of the instance, busiest first.

    The share is of the time of the instance's CPUs. A unit is named with its busiest process, and a kernel thread by
    its name. This process does not count.
    """
    used: list[tuple[float, str, int]] = []
    for folder, total in after.units.items():
        if folder.rpartition("/")[2] not in measured_units:
            own = after.own - before.own if f"{after.own_unit}/".startswith(f"{folder}/") else 0.0
            used.append((total - before.units.get(folder, 0.0) - own, folder, 0))
    for number, (name, total) in after.kernel_threads.items():
        earlier_name, earlier = before.kernel_threads.get(number, (name, 0.0))
        used.append((total - (earlier if earlier_name == name else 0.0), name, number))
    busiest: list[dict[str, Any]] = []
    for spent, name, kernel_thread in sorted(used, reverse=True):
        share = spent / (seconds * len(cpus.computing)) if seconds > 0 else 0.0
        if share < LEAST_NAMED_SHARE or len(busiest) == NAMED_UNITS:
            break
        processes = [kernel_thread] if kernel_thread else cgroups.list_processes_of_folder(fs, name)
        if _may_run_on(fs, processes, cpus.nodes):
            label = f"{name} (kernel)" if kernel_thread else _format_unit_and_process(fs, name, processes)
            busiest.append({"unit": label, "share": round(share, 5)})
    return busiest


def _may_run_on(fs: KernelFS, processes: Collection[int], cpus: Collection[int]) -> bool:
    """Return whether any of the processes may run on any of the CPUs; True where none can be asked."""
    asked = 0
    for process in sorted(processes)[:ASKED_PROCESSES]:
        try:
            allowed = threads.read_thread_status(fs, process, process).get("Cpus_allowed_list", "")
            if not allowed or set(parse_cpulist(allowed)) & set(cpus):
                return True
        except TuningError:
            continue
        asked += 1
    return asked == 0


def _format_unit_and_process(fs: KernelFS, folder: str, processes: Collection[int]) -> str:
    """Return the name of a unit with the name of its process that has used the most CPU time."""
    unit = folder.rpartition("/")[2]
    seconds_and_names = []
    for process in processes:
        try:
            name, seconds = cpu_time.read_process_name_and_seconds(fs, process)
        except TuningError:
            continue
        seconds_and_names.append((seconds, name))
    return f"{unit} ({max(seconds_and_names)[1]})" if seconds_and_names else unit
