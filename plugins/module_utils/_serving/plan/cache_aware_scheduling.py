# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cache-aware scheduling, with which Linux since 7.2 draws the running threads of a process to one L3 domain.

It moves threads that may run in several domains, and only where few threads of the process run. With NUMA balancing it
leaves processes alone that use more memory than an L3 domain holds, as every model does. Without NUMA balancing, as on
a tuned host, memory does not count. Source: invalid_llc_nr, exceed_llc_capacity and update_avg_scale in
kernel/sched/fair.c of Linux 7.3, and its threads in the lab.
"""

from __future__ import annotations

from ..._errors import Refused
from ..._io.paths import CACHE_AWARE, SYSCTL
from ..._notation.cpulist import format_cpulist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..._host.host import Host
    from ..._host.topology import Topology
    from ..._io.kernelfs import KernelFS

#: The kernel multiplies the size of a domain by this number; from ALWAYS on, it draws any number of threads together.
TOLERANCE = CACHE_AWARE.replace("enabled", "aggr_tolerance")
ALWAYS = 100
#: Running threads fill a domain if they need more than 1024/1280 of its CPUs.
FULL, CAPACITY = 1280, 1024


def max_threads_drawn_together(host: Host) -> int:
    """Return the largest number of running threads of a model's process that the kernel draws to one L3 domain.

    Return 0 where it draws none, and where the kernel does not show whether it does.
    """
    fs, top = host.fs, host.topology
    if not _is_switched_on(fs):
        return 0
    tolerance = _read_number(fs, TOLERANCE, 1)
    if tolerance >= ALWAYS:
        return len(top.online)
    if tolerance == 1 and _read_number(fs, f"{SYSCTL}/numa_balancing", 0) & 1:
        return 0
    threads_per_core = max(len(core) for core in top.cores)
    domain = max((len(domain.cpus) for domain in top.l3), default=0)
    if not tolerance or not domain:
        return 0
    # The kernel compares an average of whole numbers, which stays below the number of threads by its divisor, less one.
    divisor = min(max(domain // 4, 2), 8)
    return (tolerance * domain * CAPACITY - 1) // (FULL * threads_per_core) + divisor - 1


def l3_domains_of_cpus(top: Topology, cpus: Iterable[int]) -> list[int]:
    """Return the ids of the L3 domains of these CPUs, in ascending order."""
    cpus = set(cpus)
    return sorted(domain.id for domain in top.l3 if domain.id is not None and cpus.intersection(domain.cpus))


def drawn_threads_remarks(host: Host, cpus: Iterable[int], threads: int) -> list[str]:
    """Return a remark if the kernel draws this number of threads, which move freely on these CPUs, to one L3 domain."""
    domains = l3_domains_of_cpus(host.topology, cpus)
    if len(domains) < 2 or not 1 < threads <= max_threads_drawn_together(host):
        return []
    return [
        f"Cache-aware scheduling of this kernel draws the {threads} threads, which are not pinned one by one, to one "
        f"of the L3 domains {format_cpulist(domains)}, away from the memory links of the others. Switch it off with "
        "epyc_numa_cache_aware_scheduling: false."
    ]


def _is_switched_on(fs: KernelFS) -> bool:
    try:
        return fs.read_if_present(CACHE_AWARE) == "1"
    except Refused:
        return False  # Only root may look into debugfs, and nobody may in a kernel that is locked down.


def _read_number(fs: KernelFS, path: str, default: int) -> int:
    text = fs.read_if_present(path) or ""
    return int(text) if text.isdecimal() else default
