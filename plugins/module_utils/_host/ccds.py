# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""L3 domains grouped by CCD: a CCD is a chip with one L3 domain, or with two on dense parts."""

from __future__ import annotations

from .._generations import find_row
from .._notation.cpulist import format_cpulist
from .._notation.sizes import format_bytes_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Ccds = list[list["L3Domain"]]

#: CPU family, first and last model, L3 domains (CCX) per CCD, and name, for kernels without die_id. Of Zen 6, a sample
#: showed six L3 domains of 24 cores and 64 MiB (openvelinux pull request 125), and no source says how many a CCD has.
#: Source: the tuning guides that SUSE wrote with AMD for EPYC 9004 and 9005, and AMD's model list in LIKWID.
CCX_PER_CCD = (
    (23, 0x00, 0x2F, 2, "Zen"),
    (23, 0x30, 0xFF, 2, "Zen 2"),
    (25, 0x00, 0x0F, 1, "Zen 3"),
    (25, 0x10, 0x1F, 1, "Zen 4"),
    (25, 0xA0, 0xAF, 2, "Zen 4c"),
    (26, 0x00, 0x1F, 1, "Zen 5"),
    (26, 0x50, 0x57, None, "Zen 6"),
)


class L3Domain:
    """CPUs that share an L3 cache; ``id`` is the kernel's number, which resctrl uses, None on kernels without ids.

    ``cpus`` are the online CPUs. ``present`` also has the offline CPUs that can be inferred from CPU numbers. A domain
    whose CPUs are all offline has no id and no ``cpus``.
    """

    def __init__(self, domain_id: int | None, size: int, cpus: tuple[int, ...]) -> None:
        self.id = domain_id
        self.bytes = size
        self.cpus = self.present = cpus
        self.socket: int | None = None
        self.node: int | None = None
        self.ccd = 0


def format_different_l3_sizes(ccds: Ccds) -> str:
    """Return the sizes of the L3 domains by CCD, as "96 MiB on CCD 0, 32 MiB on CCD 1"; "" where all are equal.

    A CPU with V-Cache on one of its CCDs is an example.
    """
    numbers_by_size: dict[int, list[int]] = {}
    for number, ccd in enumerate(ccds):
        for size in sorted({domain.bytes for domain in ccd if domain.cpus}, reverse=True):
            numbers_by_size.setdefault(size, []).append(number)
    if len(numbers_by_size) < 2:
        return ""
    rows = [f"{format_bytes_short(size)} on CCD {format_cpulist(numbers)}" for size, numbers in numbers_by_size.items()]
    return ", ".join(rows)


def group_domains_by_die_id(domains: Sequence[L3Domain], dies: Mapping[L3Domain, object]) -> Ccds:
    """Return the CCDs by the kernel's die ids; offline domains, which have no die id, are grouped by their order."""
    groups = [[domain for domain in domains if dies.get(domain) == die] for die in dict.fromkeys(dies.values())]
    placed = _group_domains_of_each_socket_in_order(domains, max(len(group) for group in groups))
    online = [frozenset(domain for domain in ccd if domain in dies) for ccd in placed]
    known = {frozenset(group) for group in groups}
    # Where the order of the domains contradicts the die ids, only the die ids count.
    ccds = placed if {ccd for ccd in online if ccd} == known else groups
    return sorted(ccds, key=lambda ccd: ccd[0].present[0])


def group_domains_by_cpu_family(domains: Sequence[L3Domain], family: int | None, model: int) -> tuple[Ccds, str]:
    """Return the CCDs by AMD's CPU family and model, and a text on how the CCDs are known."""
    row = find_row(CCX_PER_CCD, family, model)
    if row is None:
        source = "one per L3 domain: the kernel gives no die_id and the family is not in our table"
        return _group_domains_of_each_socket_in_order(domains, 1), source
    *dummy, per_ccd, name = row
    if per_ccd is None:
        unknown = f"one per L3 domain: the kernel gives no die_id, and how many {name} has on a CCD is not published"
        return _group_domains_of_each_socket_in_order(domains, 1), unknown
    sockets = [domain.socket for domain in domains]
    if any(sockets.count(socket) % per_ccd for socket in sockets):
        odd = f"one per L3 domain: {name} has {per_ccd} on a CCD, but a socket here has an odd number"
        return _group_domains_of_each_socket_in_order(domains, 1), odd
    source = f"family {family} model {model} ({name}) has {per_ccd} L3 domain(s) on a CCD"
    return _group_domains_of_each_socket_in_order(domains, per_ccd), source


def _group_domains_of_each_socket_in_order(domains: Sequence[L3Domain], per_ccd: int) -> Ccds:
    """Return the domains of each socket in groups of ``per_ccd``, in the order of their numbers."""
    ccds: Ccds = []
    for socket in dict.fromkeys(domain.socket for domain in domains):
        members = [domain for domain in domains if domain.socket == socket]
        ccds += [members[start : start + per_ccd] for start in range(0, len(members), per_ccd)]
    return ccds
