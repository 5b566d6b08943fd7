# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check whether the threads of a running service are on the requested CPUs, and spread over these CPUs.

The kernel does not balance threads over isolated CPUs (isolcpus). If a program is started on several isolated CPUs and
does not pin its threads, all its threads run on a single CPU.
Source: proc_pid_stat(5) and proc_pid_status(5); Documentation/admin-guide/kernel-parameters.txt (isolcpus) of Linux.
"""

from __future__ import annotations

from .._errors import BadRequest
from .._kernel import partitions
from .._kernel.cgroups import list_processes
from .._kernel.threads import sample_threads
from .._notation.cpulist import format_cpulist, parse_cpulist
from .checklist_items import OK, UNKNOWN, WRONG, Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._host.host import Host
    from .._io.kernelfs import KernelFS
    from .._kernel.threads import Thread


def check_allowed_cpus_of_unit_threads(host: Host, unit: str, cpus: str) -> Item:
    """Return an item on the threads of a unit; ``cpus`` names the CPUs where they may run, "" for all CPUs."""
    name, title = f"threads/{unit}", f"threads of {unit}"
    try:
        threads = list(sample_threads(host.fs, list_processes(host.fs, unit)).values())
        allowed = set(host.parse_cpus(cpus or "all"))
    except BadRequest as error:
        return Item(name, title, UNKNOWN, str(error))
    if not threads:
        return Item(name, title, UNKNOWN, f"{unit} has no threads.")
    outside = [set(thread.allowed) - allowed for thread in threads if set(thread.allowed) - allowed]
    if cpus and outside:
        wrong_cpus = format_cpulist(set().union(*outside))
        sentence = (
            f"{len(outside)} of {len(threads)} threads may also run on {wrong_cpus}, outside of {cpus} "
            f"({format_cpulist(allowed)}). Set AllowedCPUs={format_cpulist(allowed)} for {unit}."
        )
        return Item(name, title, WRONG, sentence)
    return Item(name, title, *_judge_spread_over_isolated_cpus(host.fs, threads))


def _judge_spread_over_isolated_cpus(fs: KernelFS, threads: Sequence[Thread]) -> tuple[str, str]:
    """Return the verdict and a sentence on whether threads that may run on isolated CPUs are spread over them."""
    isolated = set(parse_cpulist(fs.read_if_present("/sys/devices/system/cpu/isolated") or ""))
    kind, partition = partitions.read_active_partition(fs)
    isolated |= partition if kind == partitions.ISOLATED else set()
    unbalanced = [thread for thread in threads if len(isolated.intersection(thread.allowed)) > 1]
    used = {thread.cpu for thread in threads}
    if unbalanced:
        allowed = isolated & set().union(*(thread.allowed for thread in unbalanced))
        occupied = {thread.cpu for thread in unbalanced}
        # Sleeping helper threads may share a CPU, so only threads that leave most of their CPUs empty are wrong.
        if len(occupied) * 2 < min(len(unbalanced), len(allowed)):
            return WRONG, (
                f"{len(unbalanced)} threads are piled on CPU {format_cpulist(occupied)}: {format_cpulist(allowed)} are "
                "isolated, so the kernel does not spread them. Pin each thread, or take isolcpus out of the boot "
                "parameters and give the service AllowedCPUs; of a partition, choose the type root."
            )
    return OK, f"{len(threads)} threads, last seen on CPU {format_cpulist(used)}."
