# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moves the threads of a running llama-server that do not compute to the housekeeping CPUs.

A build with OpenMP pins its main thread when it is loaded, and every later thread inherits this pin, so that HTTP and
tokenizer threads share the CPU of the first compute thread. When the server is ready, each compute thread has a CPU of
its own.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ..._errors import Absent, TuningError
from ..._kernel.threads import read_thread_status
from ..._notation.cpulist import format_cpulist, parse_cpulist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ..._io.kernelfs import KernelFS


def list_threads_without_own_cpu(fs: KernelFS, server_pid: int) -> list[int]:
    """Return the threads without a CPU of their own, except the main thread, which computes."""
    allowed = {}
    for name in fs.list_names(f"/proc/{server_pid}/task"):
        with suppress(Absent):
            allowed[int(name)] = parse_cpulist(read_thread_status(fs, server_pid, int(name))["Cpus_allowed_list"])
    if server_pid not in allowed:
        raise TuningError(f"Process {server_pid} has ended.")
    return [
        tid for tid, cpus in allowed.items() if tid != server_pid and (len(cpus) > 1 or cpus == allowed[server_pid])
    ]


def move_threads_without_own_cpu(fs: KernelFS, pid: int, cpus: Collection[int]) -> int:
    """Restrict the threads that do not compute to these CPUs; return the number of moved threads."""
    moved = 0
    for tid in list_threads_without_own_cpu(fs, pid):
        try:
            os.sched_setaffinity(tid, cpus)
        except ProcessLookupError:
            continue
        except OSError as error:
            raise TuningError(
                f"Thread {tid} of process {pid} cannot be moved to CPUs {format_cpulist(cpus)}: {error.strerror}."
            ) from None
        moved += 1
    return moved
