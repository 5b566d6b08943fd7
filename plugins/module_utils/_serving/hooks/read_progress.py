# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much of its model a starting server has read, and how long the rest will take.

A server that reads its files has them in the counter of bytes that it read (rchar), and a server that maps its files
has their pages in its memory. The larger of the two numbers counts, because a server does one or the other. A hook that
copies or places the model before the start reads it too. Programs and libraries are counted with the model, which is
large beside them.

Source: /proc/PID/io, /proc/PID/status and /proc/PID/stat in proc(5).
"""

from __future__ import annotations

import os

from ..._errors import TuningError
from ..._io.kernelfs import KernelFS
from ..._kernel.cgroups import list_processes
from ..._kernel.processes import read_process_start_time
from ..catalogue import LLAMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: The kinds of memory in which the pages of a mapped file are counted, by the file system of the file.
MAPPED_KINDS = ("RssFile", "RssShmem", "HugetlbPages")
#: A rate is computed once a process is this old, in seconds, and has read this share of the model.
LEAST_SECONDS, LEAST_SHARE = 1.0, 0.01
#: Times up to this many seconds are shown in seconds, and longer ones in minutes.
LONGEST_IN_SECONDS = 90


class ReadProgress:
    """The share of the model that is read, from 0 to 1, and the seconds until all of it is read; None if unknown."""

    __slots__ = ("seconds_left", "share")

    def __init__(self, share: float, seconds_left: float | None) -> None:
        self.share = share
        self.seconds_left = seconds_left

    def __str__(self) -> str:
        """Return the progress as the end of a sentence whose subject is the server."""
        if self.share >= 1:
            return "it has read its model"
        left = "" if self.seconds_left is None else f", {_format_seconds_left(self.seconds_left)}"
        return f"it has read {int(100 * self.share)} % of its model{left}"


def describe_start_of_unit(unit: str, plan: Mapping[str, Any] | None, root: str = "/") -> str:
    """Return that a unit is being started, and how much of the model in its plan it has read, where this is known."""
    fs = KernelFS(root, read_only=True)
    try:
        processes = list_processes(fs, unit)
    except TuningError:
        processes = []  # The start is queued.
    # Only some models of a router are read, and the libraries of vLLM are as large as a small model.
    is_measurable = plan is not None and plan["engine"] == LLAMA.key and not plan["models"]
    progress = measure_read_progress(fs, processes, count_model_bytes(plan["files"]) if plan and is_measurable else 0)
    return f"{unit} is being started{f': {progress}' if progress else ''}"


def count_model_bytes(files: Mapping[str, Sequence[int]]) -> int:
    """Return the sum of the sizes of files, each with its size and other facts."""
    return sum(int(size) for size, *dummy in files.values())


def measure_read_progress(fs: KernelFS, processes: Sequence[int], model_bytes: int) -> ReadProgress | None:
    """Return how much of a model these processes together have read; None if nothing is known."""
    if not processes or not model_bytes:
        return None
    try:
        bytes_by_process = {process: _count_bytes_read(fs, process) for process in processes}
        seconds = _read_age(fs, max(processes, key=lambda process: bytes_by_process[process]))
    except (TuningError, ValueError, IndexError):  # A process has ended, or may not be looked at.
        return None
    share = min(1.0, sum(bytes_by_process.values()) / model_bytes)
    is_rate_known = seconds >= LEAST_SECONDS and share >= LEAST_SHARE
    return ReadProgress(share, seconds * (1 - share) / share if is_rate_known else None)


def _count_bytes_read(fs: KernelFS, process: int) -> int:
    mapped = _read_numbers(fs, f"/proc/{process}/status", MAPPED_KINDS)
    return max(1024 * mapped, _read_numbers(fs, f"/proc/{process}/io", ("rchar",)))


def _read_numbers(fs: KernelFS, path: str, names: Sequence[str]) -> int:
    """Return the sum of the numbers with these names in a file with a name and a number in each line."""
    rows = dict(line.partition(":")[::2] for line in fs.read(path).splitlines())
    return sum(int(rows.get(name, "0").split()[0]) for name in names)


def _read_age(fs: KernelFS, process: int) -> float:
    """Return for how many seconds a process has run."""
    start_ticks = int(read_process_start_time(fs, process))
    return float(fs.read("/proc/uptime").split()[0]) - start_ticks / os.sysconf("SC_CLK_TCK")


def _format_seconds_left(seconds: float) -> str:
    if seconds <= LONGEST_IN_SECONDS:
        return f"about {max(1, round(seconds))} s left"
    return f"about {round(seconds / 60)} min left"
