# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check whether the threads of a running service are on the requested CPUs, and spread over them.

The kernel does not balance threads over CPUs that isolcpus isolates. A program that is started on many of them and
does not pin its threads runs all of them on one CPU.
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


def check_unit_threads(host: Host, unit: str, cpus: str) -> Item:
    """Return an item on the threads of one unit; ``cpus`` names the CPUs where they may run, "" for any."""
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
        where = format_cpulist(set().union(*outside))
        return Item(
            name,
            title,
            WRONG,
            f"{len(outside)} of {len(threads)} threads may also run on {where}, outside of {cpus} "
            f"({format_cpulist(allowed)}). Set AllowedCPUs={format_cpulist(allowed)} for {unit}.",
        )
    return _check_spread(host.fs, unit, threads)


def _check_spread(fs: KernelFS, unit: str, threads: Sequence[Thread]) -> Item:
    name, title = f"threads/{unit}", f"threads of {unit}"
    isolated = set(parse_cpulist(fs.read_if_present("/sys/devices/system/cpu/isolated") or ""))
    kind, partition = partitions.read_partition_in_force(fs)
    isolated |= partition if kind == partitions.ISOLATED else set()
    unbalanced = [thread for thread in threads if len(isolated.intersection(thread.allowed)) > 1]
    used = {thread.cpu for thread in threads}
    if unbalanced:
        could = isolated & set().union(*(thread.allowed for thread in unbalanced))
        stay = {thread.cpu for thread in unbalanced}
        # Sleeping helper threads may share a CPU; that most CPUs have no thread shows threads that are not spread.
        if len(stay) * 2 < min(len(unbalanced), len(could)):
            return Item(
                name,
                title,
                WRONG,
                f"{len(unbalanced)} threads are piled on CPU {format_cpulist(stay)}: {format_cpulist(could)} are "
                "isolated, so the kernel does not spread them. Pin each thread, or take isolcpus out of the boot "
                "parameters and give the service AllowedCPUs; of a partition, choose the type root.",
            )
    return Item(name, title, OK, f"{len(threads)} threads, last seen on CPU {format_cpulist(used)}.")
