# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Activity of the host during a round: CPU time of other programs, swapping, placement of memory, energy.

The host is read before and after a round. A reading does not depend on the arm, so that no result can decide whether
its round counts.

Source: Documentation/filesystems/proc.rst (/proc/vmstat) of the Linux kernel.
"""

from __future__ import annotations

import os
import time

from ..._errors import TuningError
from ..._kernel import cgroups, numa_maps, threads
from ..._serving.hooks import server_http
from . import cycle_counters, other_programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ..._io.kernelfs import KernelFS
    from ..load.answer import Server
    from .energy import EnergyRecorder
    from .other_programs import InstanceCpus

SWAP_COUNTERS = ("pswpin", "pswpout")
METRICS_TIMEOUT = 30.0
#: Seconds between two readings of counters that the server updates late.
COUNTER_PAUSE = 0.1
MEMORY_KINDS = ("weights", "anonymous")


class HostReading:
    """State of the host and of the measured service at one moment.

    ``program_seconds`` are of all units of the service and of all other programs; all other fields are of the first
    unit. ``allowed_cpus`` has the CPUs of each thread, and ``main_process`` the number and the start of the oldest
    process. ``tokens`` and ``pending_requests`` are None for a server without counters, and ``metrics_hint`` says how
    to enable the counters. ``pages`` (kB by node) are None where the kernel does not report them.
    """

    def __init__(self, fs: KernelFS, units: Sequence[str], models: Iterable[str], clock: Any) -> None:
        self.moment = clock.monotonic()
        self.units = list(units)
        self.program_seconds = other_programs.ProgramSeconds(fs, units, clock.process_time())
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
        self.cycles = cycle_counters.read_cycle_counters(
            fs, sorted({cpu for cpus in self.allowed_cpus.values() for cpu in cpus})
        )
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
    fs: KernelFS,
    before: HostReading,
    after: HostReading,
    cpus: InstanceCpus,
    energy: EnergyRecorder,
    tokens: int,
    settings_sha256: str | None = None,
) -> dict[str, Any]:
    """Return the activity between two readings in the format of samples; an unknown figure is None.

    ``energy`` was recorded while the server generated these ``tokens``.
    """
    pages = after.pages or {}
    seconds = after.moment - before.moment
    early, late = before.program_seconds, after.program_seconds
    others = other_programs.other_programs_cpu_share(early, late, seconds, cpus, os.sched_getaffinity(0))
    return {
        "others": None if others is None else round(others, 5),
        "steal": round(other_programs.stolen_cpu_share(early, late, cpus.cores), 5),
        "busiest": other_programs.find_busiest_units(fs, early, late, seconds, cpus, before.units),
        "freq_mhz": cycle_counters.mean_frequency_mhz(fs, before.cycles, after.cycles),
        "joules": None if energy.joules is None else round(energy.joules, 1),
        "seconds": round(energy.seconds, 3),
        "power_source": energy.source,
        "tokens": tokens,
        "pages_by_node": {str(node): pages[node] for node in sorted(pages)},
        "settings_sha256": settings_sha256,
    }
