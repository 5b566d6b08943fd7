# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a process was started, by which it is told from a later process with the same number."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.kernelfs import KernelFS


def read_process_start_time(fs: KernelFS, process: int) -> str:
    """Return the start time of a process in clock ticks since the boot, an empty text for a zombie.

    Start time and state are the fields 22 and 3 of proc_pid_stat(5), counted after the name, which may hold any
    character.
    """
    fields = fs.read(f"/proc/{process}/stat").rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]
