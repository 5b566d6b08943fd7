# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The threads of processes: allowed CPUs, last CPU, running and waiting times, and context switches.

Three small files per thread are read, once or at both ends of a time window.
Source: Documentation/filesystems/proc.rst and Documentation/scheduler/sched-stats.rst of the Linux kernel.
"""

from __future__ import annotations

from .._errors import Absent
from .._notation.cpulist import parse_cpulist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .._io.kernelfs import KernelFS

TICKS_PER_SECOND = 100
NANOSECONDS = 1_000_000_000
#: The share of the window that a busy thread at least ran or waited to run. Threads that compute come close to 1, even
#: where a hundred of them share a CPU and each runs for a hundredth of the window.
BUSY = 0.5
#: The least share of the window that the busiest thread was busy, where other threads are compared with it.
IDLE = 0.01


class Thread:
    """A thread; measured attributes are None without a time window, or where the kernel does not count them."""

    def __init__(self, process: int, tid: int) -> None:
        self.process = process
        self.tid = tid
        self.name = ""
        self.started = ""
        self.allowed: tuple[int, ...] = ()
        self.cpu = 0
        self.earlier_cpu: int | None = None
        self.worked: float | None = None
        self.waited: float | None = None
        self.busy: float | None = None
        self.voluntary: int | None = None
        self.involuntary: int | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether the thread ran or waited to run for most of the window."""
        return self.busy is not None and self.busy >= BUSY

    def __str__(self) -> str:
        return f"thread {self.tid} ({self.name})"


def sample_threads(fs: KernelFS, processes: Iterable[int]) -> dict[tuple[int, str], Thread]:
    """Return the threads of processes by (id, start time), with times and switches since the start of each.

    The start time is in the key because the kernel reuses ids. A thread that ends meanwhile is left out.
    """
    threads = {}
    for process in processes:
        for name in fs.list_names(f"/proc/{process}/task"):
            try:
                thread = _read_thread(fs, process, int(name))
            except Absent:
                continue
            threads[thread.tid, thread.started] = thread
    return threads


def read_thread_status(fs: KernelFS, process: int, tid: int) -> dict[str, str]:
    """Return the fields of a thread's status file. Raises Absent where the thread has ended."""
    rows = [line.partition(":") for line in fs.read(f"/proc/{process}/task/{tid}/status").splitlines()]
    return {key: value.strip() for key, dummy, value in rows}


def _read_thread(fs: KernelFS, process: int, tid: int) -> Thread:
    folder = f"/proc/{process}/task/{tid}"
    thread = Thread(process, tid)
    status = read_thread_status(fs, process, tid)
    thread.name = status.get("Name", "")
    thread.allowed = parse_cpulist(status["Cpus_allowed_list"])
    thread.voluntary = int(status["voluntary_ctxt_switches"])
    thread.involuntary = int(status["nonvoluntary_ctxt_switches"])
    # The second field is the name in parentheses, which may contain any character; the third field follows it.
    fields = fs.read(f"{folder}/stat").rpartition(")")[2].split()
    thread.started = fields[22 - 3]
    thread.cpu = int(fields[39 - 3])
    thread.worked = (int(fields[14 - 3]) + int(fields[15 - 3])) / TICKS_PER_SECOND
    words = (fs.read_if_present(f"{folder}/schedstat") or "").split()
    if len(words) == 3 and words[2] != "0":
        # On a CPU without ticks, one of the two clocks may stop for up to a second, so the larger value is right.
        thread.worked = max(thread.worked, int(words[0]) / NANOSECONDS)
        thread.waited = int(words[1]) / NANOSECONDS
    return thread


def measure_threads_between(
    before: dict[tuple[int, str], Thread], after: dict[tuple[int, str], Thread], seconds: float
) -> list[Thread]:
    """Return the threads of the sample ``after`` with times and switches since ``before``; None for new threads."""
    for key, thread in after.items():
        first = before.get(key)
        if first is None:
            thread.worked = thread.waited = thread.voluntary = thread.involuntary = None
            continue
        thread.earlier_cpu = first.cpu
        thread.worked = _difference_at_least_zero(first.worked, thread.worked)
        thread.waited = _difference_at_least_zero(first.waited, thread.waited)
        thread.voluntary = (thread.voluntary or 0) - (first.voluntary or 0)
        thread.involuntary = (thread.involuntary or 0) - (first.involuntary or 0)
        if thread.worked is not None and thread.waited is not None:
            thread.busy = min(1.0, (thread.worked + thread.waited) / seconds)
    return list(after.values())


def scale_busy_to_busiest(threads: Iterable[Thread]) -> None:
    """Turn ``busy`` from a share of the window into a share of the busiest thread's time, unless that was idle."""
    measured = [thread for thread in threads if thread.busy is not None]
    most = max((thread.busy or 0 for thread in measured), default=0)
    for thread in measured if most >= IDLE else ():
        thread.busy = (thread.busy or 0) / most


def without_measured_values(threads: Iterable[Thread]) -> list[Thread]:
    """Return the threads of a single sample with measured attributes set to None."""
    return measure_threads_between({}, {(thread.tid, thread.started): thread for thread in threads}, 0)


def _difference_at_least_zero(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else max(0.0, second - first)
