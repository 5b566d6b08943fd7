# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Threads as text for the ledger, with start times that tell them from later threads with the same ids.

Source: proc_pid_stat(5) for the start time of a thread.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..._io.kernelfs import KernelFS

STARTED = 22  # the field of the table in proc_pid_stat(5), counted from 1; the third one follows the name


def format_threads(fs: KernelFS, ids: Iterable[int]) -> str:
    """Return threads as text: ids, each with its start time in ticks since the boot."""
    rows = [(number, _read_start_time(fs, number)) for number in sorted(ids)]
    return ",".join(f"{number}:{started}" for number, started in rows if started)


def parse_living_threads(fs: KernelFS, text: str | None) -> set[int]:
    """Return the ids of the threads in such a text that still live."""
    rows = [row.partition(":") for row in (text or "").split(",") if row]
    return {int(number) for number, dummy, started in rows if _read_start_time(fs, int(number)) == started}


def _read_start_time(fs: KernelFS, number: int) -> str:
    fields = (fs.read_if_present(f"/proc/{number}/stat") or "").rpartition(")")[2].split()
    return fields[STARTED - 3] if fields else ""
