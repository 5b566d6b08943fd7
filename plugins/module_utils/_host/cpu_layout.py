# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Infers the cores and L3 domains of offline CPUs from CPU numbers: the kernel shows those of online CPUs only.

EPYC's firmware numbers cores in the order of the L3 domains, which all have the same number of cores: first the first
thread of every core, then the second threads. Virtual machines often number the threads of a core one after the other.
A numbering is used only where it is right for all online CPUs.
Source: cacheinfo_cpu_pre_down (drivers/base/cacheinfo.c) and topology_remove_dev (drivers/base/topology.c) of the Linux
kernel, which take the folders away when a CPU goes offline.
"""

from __future__ import annotations

from .ccds import L3Domain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Cpus = tuple[int, ...]


class CpuLayout:
    """The present CPUs, grouped by L3 domain in the order of their numbers, and by core."""

    def __init__(self, domains: list[Cpus], cores: list[Cpus]) -> None:
        self.domains = domains
        self.cores = cores


def infer_layout_of_present_cpus(
    present: Cpus,
    domains: Sequence[tuple[int | None, Cpus]],
    cores: Sequence[Cpus],
    threads_per_core: int,
    smt_is_off: bool = False,
) -> CpuLayout | None:
    """Return the layout of the present CPUs, None where the layout cannot be inferred from their numbers.

    ``domains`` are the ids and CPUs of the online L3 domains, ``cores`` the CPUs of each core with an online CPU. Where
    SMT is off, the second threads are offline on purpose and left out.
    """
    count, odd = divmod(len(present), threads_per_core)
    if odd or not domains:
        return None
    for numbering in (
        [present[number::count] for number in range(count)],
        [present[number * threads_per_core :][:threads_per_core] for number in range(count)],
    ):
        number_of = {cpu: number for number, core in enumerate(numbering) for cpu in core}
        if any(len({number_of[cpu] for cpu in core}) > 1 for core in cores):
            continue
        places = [(domain, sorted({number_of[cpu] for cpu in cpus})) for domain, cpus in domains]
        for size in range(max(len(numbers) for dummy, numbers in places), count + 1):
            if count % size == 0 and _fits_online_domains(places, size):
                usable = [core[:1] if smt_is_off else core for core in numbering]
                groups = [usable[first : first + size] for first in range(0, count, size)]
                return CpuLayout([tuple(sorted(cpu for core in group for cpu in core)) for group in groups], usable)
    return None


def complete_domains_with_offline_cpus(
    online: Sequence[L3Domain], layout: Sequence[Cpus], sockets: int
) -> list[L3Domain]:
    """Return all L3 domains of a layout in its order: online domains with their offline CPUs, and offline domains.

    Each socket has the same number of domains.
    """
    by_cpu = {cpu: domain for domain in online for cpu in domain.cpus}
    domains = []
    for present in layout:
        domain = next((by_cpu[cpu] for cpu in present if cpu in by_cpu), None) or L3Domain(None, 0, ())
        domain.present = present
        domains.append(domain)
    each = -(-len(domains) // sockets)
    for at in range(0, len(domains), each):
        members = domains[at : at + each]
        socket = next((domain.socket for domain in members if domain.cpus), None)
        for domain in members:
            domain.socket = domain.socket if domain.cpus else socket
    return domains


def _fits_online_domains(places: Sequence[tuple[int | None, list[int]]], cores_per_domain: int) -> bool:
    """Return whether all online domains fit into domains of this many cores, in the order of the kernel's ids.

    ``places`` has the id and the core numbers of each online domain. The kernel may leave out ids, but the ids of two
    domains differ at least by the number of domains from the first to the second.
    """
    indexes = [({core // cores_per_domain for core in cores}, domain) for domain, cores in places]
    if any(len(index) > 1 for index, dummy in indexes):
        return False
    rows = sorted(((min(index), domain) for index, domain in indexes), key=lambda row: row[0])
    return all(
        low < high and (low_id is None or high_id is None or high_id - low_id >= high - low)
        for (low, low_id), (high, high_id) in zip(rows, rows[1:])
    )
