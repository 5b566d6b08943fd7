# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a process was started, by which it is told from a later one with the same number, and which files a unit maps.

Source: proc_pid_stat(5), proc_pid_maps(5).
"""

from __future__ import annotations

from .._errors import TuningError
from .cgroups import list_processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.kernelfs import KernelFS

#: What the kernel writes behind the path of a mapped file that has lost its name.
DELETED = " (deleted)"
#: The most bytes of a list of mappings that are read; a server has some hundred lines.
LARGEST_MAPS = 16 << 20
#: The number of columns before the path in a row of a list of mappings.
COLUMNS_BEFORE_PATH = 5


def read_process_start_time(fs: KernelFS, process: int) -> str:
    """Return the start time of a process in clock ticks since the boot, an empty text for a zombie.

    Start time and state are the fields 22 and 3 of proc_pid_stat(5), counted after the name, which may hold any
    character.
    """
    fields = fs.read(f"/proc/{process}/stat").rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def read_mapped_paths(fs: KernelFS, unit: str) -> set[str]:
    """Return the paths of the files that a unit maps, with DELETED behind a lost name; none where it does not run."""
    paths: set[str] = set()
    try:
        processes = list_processes(fs, unit)
    except TuningError:
        return paths
    for process in processes:
        try:
            rows = fs.read(f"/proc/{process}/maps", LARGEST_MAPS).splitlines()
        except TuningError:
            # The process has ended meanwhile.
            continue
        columns = [row.split(maxsplit=COLUMNS_BEFORE_PATH) for row in rows]
        paths.update(words[-1] for words in columns if len(words) > COLUMNS_BEFORE_PATH)
    return paths
