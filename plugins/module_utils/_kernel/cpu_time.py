# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""CPU seconds since the start of the host: of each CPU, of each systemd unit, and of each kernel thread.

Source: Documentation/filesystems/proc.rst (/proc/stat, /proc/PID/stat) and Documentation/admin-guide/cgroup-v2.rst
(cpu.stat) of the Linux kernel.
"""

from __future__ import annotations

from .._errors import Absent, Refused
from .cgroups import CGROUPS, MICROSECONDS
from .threads import TICKS_PER_SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._io.kernelfs import KernelFS

#: Columns of a line of /proc/stat with work: not idle, iowait and steal; guest time is part of user time.
WORK_COLUMNS = (1, 2, 3, 6, 7)
STEAL_COLUMN = 8


def read_busy_and_stolen_seconds(fs: KernelFS) -> dict[int, tuple[float, float]]:
    """Return for each CPU the seconds with work, and those in which a hypervisor gave the CPU to another guest."""
    seconds = {}
    for line in fs.read("/proc/stat").splitlines():
        words = line.split()
        if words and words[0].startswith("cpu") and words[0] != "cpu":
            ticks = sum(int(words[at]) for at in WORK_COLUMNS), int(words[STEAL_COLUMN])
            seconds[int(words[0][3:])] = ticks[0] / TICKS_PER_SECOND, ticks[1] / TICKS_PER_SECOND
    return seconds


def read_seconds_by_unit(fs: KernelFS) -> dict[str, float]:
    """Return the CPU seconds of all systemd units but slices, by the folder of their control group."""
    seconds = {}
    for folder in _list_unit_folders(fs, CGROUPS):
        try:
            fields = dict(line.split() for line in fs.read(f"{folder}/cpu.stat").splitlines())
            seconds[folder] = int(fields["usage_usec"]) / MICROSECONDS
        except (Absent, Refused):
            continue  # The unit has ended.
    return seconds


def _list_unit_folders(fs: KernelFS, folder: str) -> Iterator[str]:
    for name in fs.list_names(folder):
        if name.endswith(".slice"):
            yield from _list_unit_folders(fs, f"{folder}/{name}")
        elif name.endswith((".service", ".scope")):
            yield f"{folder}/{name}"


def read_seconds_by_kernel_thread(fs: KernelFS) -> dict[int, tuple[str, float]]:
    """Return name and CPU seconds of each kernel thread by its number; systemd leaves only those without a unit."""
    found = {}
    text = fs.read_if_present(f"{CGROUPS}/cgroup.procs") or ""
    for process in map(int, text.split()):
        try:
            found[process] = read_process_name_and_seconds(fs, process)
        except (Absent, Refused):
            continue  # The thread has ended.
    return found


def read_process_name_and_seconds(fs: KernelFS, process: int) -> tuple[str, float]:
    """Return the name of a process and its CPU seconds; Absent where it has ended."""
    start, dummy, rest = fs.read(f"/proc/{process}/stat").rpartition(")")
    fields = rest.split()
    # Fields 14 and 15 of proc_pid_stat(5) are the times; the third field is the first after the name.
    return start.partition("(")[2], (int(fields[14 - 3]) + int(fields[15 - 3])) / TICKS_PER_SECOND
