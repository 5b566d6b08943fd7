# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Threads, processes, processor time and memory of a running service, read from its control group.

Source: Documentation/admin-guide/cgroup-v2.rst of the Linux kernel (cgroup.threads, cgroup.procs, cpu.stat and
memory.stat).
"""

from __future__ import annotations

from .._errors import Absent, BadRequest
from .._notation.numbers import parse_whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.kernelfs import KernelFS

CGROUPS = "/sys/fs/cgroup"
MICROSECONDS = 1_000_000


def list_threads(fs: KernelFS, unit_or_pid: str) -> set[int]:
    """Return the thread ids of a systemd unit, or of the process with a number; BadRequest where it does not run."""
    if parse_whole_number(unit_or_pid) is not None:
        names = fs.list_names(f"/proc/{unit_or_pid}/task")
        if not names:
            raise BadRequest(f"There is no process {unit_or_pid}: it has ended, or the number is wrong.")
        return {int(name) for name in names}
    return _read_ids_recursively(fs, _require_unit_folder(fs, unit_or_pid), "cgroup.threads")


def list_processes(fs: KernelFS, unit_or_pid: str) -> list[int]:
    """Return the process ids of a systemd unit, sorted; for a number, that process, as list_threads does."""
    process = parse_whole_number(unit_or_pid)
    if process is not None:
        list_threads(fs, unit_or_pid)
        return [process]
    return list_processes_of_folder(fs, _require_unit_folder(fs, unit_or_pid))


def list_processes_of_folder(fs: KernelFS, folder: str) -> list[int]:
    """Return the process ids of a control group and of those below it, sorted; none where it has ended."""
    return sorted(_read_ids_recursively(fs, folder, "cgroup.procs"))


def read_cpu_seconds(fs: KernelFS, unit: str) -> float:
    """Return the processor time of all processes of a systemd unit in seconds, ended processes included."""
    lines = (line.split() for line in fs.read(f"{_require_unit_folder(fs, unit)}/cpu.stat").splitlines())
    return int(dict(lines)["usage_usec"]) / MICROSECONDS


def read_unreclaimable_bytes(fs: KernelFS, folder: str) -> int:
    """Return the bytes of a control group that the kernel cannot take back: anonymous, shared and locked memory.

    0 is returned where the kernel counts no memory of the group.
    """
    rows = (row.split() for row in (fs.read_if_present(f"{folder}/memory.stat") or "").splitlines())
    count = {row[0]: int(row[1]) for row in rows if len(row) == 2}
    # Locked memory may be anonymous too, so it is not added.
    return max(count.get("anon", 0) + count.get("shmem", 0), count.get("unevictable", 0))


def _require_unit_folder(fs: KernelFS, unit: str) -> str:
    folder = _find_unit_folder(fs, unit, CGROUPS)
    if folder is None:
        raise BadRequest(
            f"The unit {unit} has no control group below {CGROUPS}: it does not run. Start it first, or check its name."
        )
    return folder


def _find_unit_folder(fs: KernelFS, unit: str, folder: str) -> str | None:
    """Return the control group of a unit in a folder or the slices below it, None where it has none."""
    for name in fs.list_names(folder):
        if name == unit:
            return f"{folder}/{name}"
        if name.endswith(".slice"):
            found = _find_unit_folder(fs, unit, f"{folder}/{name}")
            if found:
                return found
    return None


def _read_ids_recursively(fs: KernelFS, folder: str, file: str) -> set[int]:
    try:
        ids = {int(line) for line in fs.read(f"{folder}/{file}").split()}
    except Absent:
        return set()
    for name in fs.list_names(folder):
        if fs.is_dir(f"{folder}/{name}"):
            ids |= _read_ids_recursively(fs, f"{folder}/{name}", file)
    return ids
