# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Noise of a service in a window: interrupts on the CPUs of its busy threads, and time that other tasks took there.

Threads of a service wait for each other at the end of each layer of the model, so the worst CPU and the worst thread
count, not the mean. For the kernel a thread waits while it is ready to run and another task has its CPU.
"""

from __future__ import annotations

from ..._kernel.interrupts import KINDS
from ..._notation.cpulist import format_cpulist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..._kernel.threads import Thread

    Counts = Mapping[str, Mapping[int, int]]


def measure_noise_of_busy_threads(
    before: Counts, after: Counts, threads: Iterable[Thread], seconds: float
) -> dict[str, object] | None:
    """Return the noise of the busy threads in a window, None where no thread was busy.

    ``cpus`` are the CPUs on which these threads ran last. ``ticks``, ``devices`` and ``sent`` are the interrupts per
    second of the CPU with most of that kind. ``involuntary`` are the switches per second, and ``waited`` is the share
    of the window, of the thread with the largest number.
    """
    busy = [thread for thread in threads if thread.is_busy and thread.involuntary is not None]
    if not busy:
        return None
    cpus = sorted({thread.cpu for thread in busy})
    most = {kind: max(after[kind].get(cpu, 0) - before[kind].get(cpu, 0) for cpu in cpus) / seconds for kind in KINDS}
    return {
        "cpus": format_cpulist(cpus),
        **{kind: round(rate, 1) for kind, rate in most.items()},
        "involuntary": round(max(thread.involuntary or 0 for thread in busy) / seconds, 1),
        "waited": round(max(thread.waited or 0.0 for thread in busy) / seconds, 4),
    }
