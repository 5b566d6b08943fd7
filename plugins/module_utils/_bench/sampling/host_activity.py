# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Witnesses of a round: what else the host did while a server was measured, read before and after.

They know nothing of the arm, so that no result can decide whether its round counts.
Source: Documentation/filesystems/proc.rst (/proc/stat, /proc/vmstat) of the Linux kernel.
"""

from __future__ import annotations

import time

from ..._errors import TuningError
from ..._kernel import cgroups, numa_maps, threads
from ..._serving.hooks import http as server_http
from . import sensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ..._io.kernelfs import KernelFS
    from ..load.answer import Server

#: Words of the first line of /proc/stat that count work. Idle, iowait and steal are none, and guests are in user.
WORK = (1, 2, 3, 6, 7)
STEAL = 8
SWAPPED = ("pswpin", "pswpout")
METRICS_TIMEOUT = 30.0
#: Seconds between two readings of counters that are late.
PAUSE = 0.1
KINDS = ("weights", "anonymous")


class Reading:
    """What there was at one moment. Times are seconds since the start of the host or of the program.

    ``busy`` and ``stolen`` are those of all CPUs, ``service`` that of all units, ``own`` that of this program. The rest
    is of the first unit: ``allowed`` holds the CPUs of each thread, ``main`` process and start of the oldest one.
    ``tokens`` and ``waiting`` are None where the server does not tell them, for which ``uncounted`` has a way out, and
    ``pages`` and ``huge_kb`` where the kernel does not; the kB of ``pages`` are by node.
    """

    def __init__(self, fs: KernelFS, units: Sequence[str], models: Iterable[str], clock: Any) -> None:
        self.moment = clock.monotonic()
        self.own = clock.process_time()
        words = fs.read("/proc/stat").splitlines()[0].split()
        self.busy = sum(int(words[at]) for at in WORK) / threads.TICKS_PER_SECOND
        self.stolen = int(words[STEAL]) / threads.TICKS_PER_SECOND
        self.service = sum(cgroups.read_cpu_seconds(fs, unit) for unit in units)
        counts = dict(line.split() for line in fs.read("/proc/vmstat").splitlines())
        self.swapped = sum(int(counts.get(name, 0)) for name in SWAPPED)
        found = threads.sample_threads(fs, cgroups.list_processes(fs, units[0]))
        self.allowed = {key: thread.allowed for key, thread in found.items()}
        processes = [thread for thread in found.values() if thread.tid == thread.process]
        if not processes:
            raise TuningError(
                f"The unit {units[0]} has no process: it ended while it was measured. Its journal says why."
            )
        oldest = min(processes, key=lambda thread: (int(thread.started), thread.tid))
        self.main = oldest.tid, oldest.started
        memory = [numa_maps.read_process_memory(fs, thread.tid, models) for thread in processes]
        self.unread = "; ".join(reason for one in memory for reason in one.missing.values())
        self.pages = _pages(memory)
        huge = [sum(one.huge.values()) for one in memory if one.huge is not None]
        self.huge_kb = sum(huge) // 1024 if len(huge) == len(memory) else None
        self.cycles = sensors.cycles(fs, sorted({cpu for cpus in self.allowed.values() for cpu in cpus}))
        self.energy = sensors.energy(fs)
        self.tokens: tuple[float, float] | None = None
        self.waiting: int | None = None
        self.uncounted = ""

    def ask(self, server: Server) -> None:
        """Read the counters of the server too; where they come late, when nothing is in work any more."""
        api, end = server.api, server.clock.monotonic() + server.api.late
        self.uncounted = api.uncounted
        while True:
            status, text = server_http.ask(server.url, "/metrics", METRICS_TIMEOUT, server.key)
            numbers = server_http.parse_metrics(text) if status == 200 else {}
            if any(name not in numbers for name in (*api.counters, api.in_work[0])):
                return
            self.tokens = numbers[api.counters[0]], numbers[api.counters[1]]
            self.waiting = round(sum(numbers.get(name, 0) for name in api.in_work))
            if not self.waiting or server.clock.monotonic() >= end:
                return
            server.clock.sleep(PAUSE)


def _pages(memory: Iterable[numa_maps.ProcessMemory]) -> dict[int, int] | None:
    """Return the kB of some processes by node, None where one cannot be read."""
    pages: dict[int, int] = {}
    for one in memory:
        if one.kinds is None:
            return None
        for node, size in ((node, size) for kind in KINDS for node, size in one.kinds[kind].nodes.items()):
            pages[node] = pages.get(node, 0) + size // 1024
    return pages


def look(fs: KernelFS, units: Sequence[str], server: Server, models: Iterable[str] = (), clock: Any = time) -> Reading:
    """Read everything once: ``units`` are that of the server, and that of its draft where it has one.

    BadRequest or TuningError where one does not run.
    """
    reading = Reading(fs, units, models, clock)
    reading.ask(server)
    return reading


def witness(fs: KernelFS, before: Reading, after: Reading, settings_sha256: str | None = None) -> dict[str, Any]:
    """Return what the samples between two readings keep of them. Shares are of 1, pages are kB; None is unknown."""
    pages = after.pages or {}
    return {
        "others": _rounded(others(before, after)),
        "steal": _rounded(steal(before, after)),
        "freq_mhz": sensors.mhz(fs, before.cycles, after.cycles),
        "watts": sensors.watts(before.energy, after.energy, after.moment - before.moment),
        "pages_by_node": {str(node): pages[node] for node in sorted(pages)},
        "huge_kb": after.huge_kb,
        "settings_sha256": settings_sha256,
    }


def others(before: Reading, after: Reading) -> float | None:
    """Return the processor time of all other programs, as a share of the service's; None where that had none.

    The time of this program is not in it: it may be what asks the server.
    """
    service = after.service - before.service
    own = after.own - before.own
    return max(0.0, after.busy - before.busy - service - own) / service if service > 0 else None


def steal(before: Reading, after: Reading) -> float:
    """Return the share of the time that CPUs had work in which the hypervisor gave them to somebody else."""
    stolen = after.stolen - before.stolen
    wanted = after.busy - before.busy + stolen
    return stolen / wanted if wanted > 0 else 0.0


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 5)
