# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Activity of the host during a round: CPU time of other programs, swapping, placement of memory, power.

The host is read before and after a round. A reading does not depend on the arm, so that no result can decide whether
its round counts.

Source: Documentation/filesystems/proc.rst (/proc/stat, /proc/vmstat) of the Linux kernel.
"""

from __future__ import annotations

import time

from ..._errors import TuningError
from ..._kernel import cgroups, numa_maps, threads
from ..._serving.hooks import server_http
from . import sensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ..._io.kernelfs import KernelFS
    from ..load.answer import Server

#: Columns of the first line of /proc/stat with work: not idle, iowait and steal; guest time is part of user time.
WORK_COLUMNS = (1, 2, 3, 6, 7)
STEAL_COLUMN = 8
SWAP_COUNTERS = ("pswpin", "pswpout")
METRICS_TIMEOUT = 30.0
#: Seconds between two readings of counters that the server updates late.
COUNTER_PAUSE = 0.1
MEMORY_KINDS = ("weights", "anonymous")


class HostReading:
    """State of the host and of the measured service at one moment.

    Times are CPU seconds since the start of the host or of a process: ``busy`` and ``stolen`` of all CPUs, ``service``
    of all units, ``measuring_seconds`` of this process. All other fields are of the first unit. ``allowed_cpus`` has
    the CPUs of each thread, and ``main_process`` the number and the start of the oldest process. ``tokens`` and
    ``pending_requests`` are None for a server without counters, and ``metrics_hint`` says how to enable the counters.
    ``pages`` (kB by node) and ``huge_kb`` are None where the kernel does not report them.
    """

    def __init__(self, fs: KernelFS, units: Sequence[str], models: Iterable[str], clock: Any) -> None:
        self.moment = clock.monotonic()
        self.measuring_seconds = clock.process_time()
        words = fs.read("/proc/stat").splitlines()[0].split()
        self.busy = sum(int(words[at]) for at in WORK_COLUMNS) / threads.TICKS_PER_SECOND
        self.stolen = int(words[STEAL_COLUMN]) / threads.TICKS_PER_SECOND
        self.service = sum(cgroups.read_cpu_seconds(fs, unit) for unit in units)
        counts = dict(line.split() for line in fs.read("/proc/vmstat").splitlines())
        self.swapped_pages = sum(int(counts.get(name, 0)) for name in SWAP_COUNTERS)
        found = threads.sample_threads(fs, cgroups.list_processes(fs, units[0]))
        self.allowed_cpus = {key: thread.allowed for key, thread in found.items()}
        processes = [thread for thread in found.values() if thread.tid == thread.process]
        if not processes:
            raise TuningError(
                f"The unit {units[0]} has no process: it ended while it was measured. Its journal says why."
            )
        oldest = min(processes, key=lambda thread: (int(thread.started), thread.tid))
        self.main_process = oldest.tid, oldest.started
        memory = [numa_maps.read_process_memory(fs, thread.tid, models) for thread in processes]
        self.unreadable_reason = "; ".join(
            reason for process_memory in memory for reason in process_memory.missing.values()
        )
        self.pages = _memory_kb_by_node(memory)
        huge = [sum(process_memory.huge.values()) for process_memory in memory if process_memory.huge is not None]
        self.huge_kb = sum(huge) // 1024 if len(huge) == len(memory) else None
        self.cycles = sensors.read_cycle_counters(
            fs, sorted({cpu for cpus in self.allowed_cpus.values() for cpu in cpus})
        )
        self.energy = sensors.read_energy_counters(fs)
        self.tokens: tuple[float, float] | None = None
        self.pending_requests: int | None = None
        self.metrics_hint = ""

    def read_token_counters(self, server: Server) -> None:
        """Read the token counters of the server; wait for pending requests where counters are updated late."""
        api, end = server.api, server.clock.monotonic() + server.api.counter_delay
        self.metrics_hint = api.metrics_hint
        while True:
            status, text = server_http.send_get_request(server.url, "/metrics", METRICS_TIMEOUT, server.key)
            numbers = server_http.parse_prometheus_metrics(text) if status == 200 else {}
            if any(name not in numbers for name in (*api.counters, api.pending_metrics[0])):
                return
            self.tokens = numbers[api.counters[0]], numbers[api.counters[1]]
            self.pending_requests = round(sum(numbers.get(name, 0) for name in api.pending_metrics))
            if not self.pending_requests or server.clock.monotonic() >= end:
                return
            server.clock.sleep(COUNTER_PAUSE)


def _memory_kb_by_node(memory: Iterable[numa_maps.ProcessMemory]) -> dict[int, int] | None:
    """Return the memory of processes in kB by node; None where the memory of a process cannot be read."""
    pages: dict[int, int] = {}
    for process_memory in memory:
        if process_memory.kinds is None:
            return None
        for node, size in (
            (node, size) for kind in MEMORY_KINDS for node, size in process_memory.kinds[kind].nodes.items()
        ):
            pages[node] = pages.get(node, 0) + size // 1024
    return pages


def read_host_activity(
    fs: KernelFS, units: Sequence[str], server: Server, models: Iterable[str] = (), clock: Any = time
) -> HostReading:
    """Read host and service once; ``units`` are the unit of the server, and of its draft server where there is one.

    BadRequest or TuningError where a unit does not run.
    """
    reading = HostReading(fs, units, models, clock)
    reading.read_token_counters(server)
    return reading


def activity_between_readings(
    fs: KernelFS, before: HostReading, after: HostReading, settings_sha256: str | None = None
) -> dict[str, Any]:
    """Return the activity between two readings in the format of samples; an unknown figure is None."""
    pages = after.pages or {}
    return {
        "others": _round_share(other_programs_cpu_share(before, after)),
        "steal": _round_share(stolen_cpu_share(before, after)),
        "freq_mhz": sensors.mean_frequency_mhz(fs, before.cycles, after.cycles),
        "watts": sensors.mean_power_watts(before.energy, after.energy, after.moment - before.moment),
        "pages_by_node": {str(node): pages[node] for node in sorted(pages)},
        "huge_kb": after.huge_kb,
        "settings_sha256": settings_sha256,
    }


def other_programs_cpu_share(before: HostReading, after: HostReading) -> float | None:
    """Return the CPU time of other programs as a share of the service's CPU time; None where the service used none.

    The CPU time of this process does not count, because this process sends the requests.
    """
    service = after.service - before.service
    own = after.measuring_seconds - before.measuring_seconds
    return max(0.0, after.busy - before.busy - service - own) / service if service > 0 else None


def stolen_cpu_share(before: HostReading, after: HostReading) -> float:
    """Return the share of the time with work in which the hypervisor gave the CPUs to other guests."""
    stolen = after.stolen - before.stolen
    with_work = after.busy - before.busy + stolen
    return stolen / with_work if with_work > 0 else 0.0


def _round_share(share: float | None) -> float | None:
    return None if share is None else round(share, 5)
