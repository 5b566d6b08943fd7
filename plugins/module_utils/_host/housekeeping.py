# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cores that a host keeps for its operating system: how many by default, which ones, and what they cost.

A core that is kept computes nothing, so by default a host keeps few: one of each node where nodes are large, one of
each socket where they are small, and none where a host has only a few cores.
"""

from __future__ import annotations

from .._errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .topology import Topology

PER = ("node", "socket", "host")
#: By default a core is kept in each place with at least this many cores, so that it costs a sixteenth at most.
CORES_OF_LARGE_PLACE = 16
#: By default a host with fewer cores keeps none: all of them compute, as for a plain server.
FEWEST_CORES = 8
#: A remark names the share of the kept cores from this percentage on.
REMARKED_PERCENT = 10
#: The largest number of nodes in a socket (NPS4), except where the BIOS makes each L3 domain a node.
MOST_NODES = 4


class HousekeepingShare:
    """The number of cores that are kept in each place; ``per`` is the kind of the places: node, socket or host."""

    __slots__ = ("cores", "per")

    def __init__(self, cores: int, per: str) -> None:
        self.cores = cores
        self.per = per

    def to_option(self) -> dict[str, int | str]:
        """Return the share as a value of the variable epyc_plan_housekeeping."""
        return {"cores": self.cores, "per": self.per}

    def to_inventory_line(self) -> str:
        return f"epyc_plan_housekeeping: {{cores: {self.cores}, per: {self.per}}}"


def default_housekeeping_share(top: Topology) -> HousekeepingShare:
    """Return the share that a host keeps where the operator requests none.

    Offline cores count too, so that the share does not change when a CPU goes offline.
    """
    if len(top.present_cores) < FEWEST_CORES:
        return HousekeepingShare(0, "host")
    for per in ("node", "socket"):
        counts = [len(_cores_of_place(cpus, top.present_cores)) for cpus in _cpus_by_place(per, top).values()]
        if min(count for count in counts if count) >= CORES_OF_LARGE_PLACE:
            return HousekeepingShare(1, per)
    return HousekeepingShare(1, "host")


def choose_housekeeping_cpus(share: HousekeepingShare, top: Topology) -> tuple[int, ...]:
    """Return the first cores of each place; CPU 0, which cannot be isolated, is always among them.

    Raises BadRequest where no core of a place would be left.
    """
    places = _cpus_by_place(share.per, top)
    for name, cpus in places.items():
        cores = _cores_of_place(cpus, top.present_cores)
        if cores and share.cores >= len(cores):
            raise BadRequest(
                f"housekeeping takes {share.cores} cores of {name}, which has only {len(cores)}: none would be left "
                "to work."
            )
    # The first online CPU does not show the order of cores, because the first thread of a core may be offline.
    position = {cpu: number for number, core in enumerate(top.present_cores) for cpu in core}
    cores = sorted(top.cores, key=lambda core: position.get(core[0], len(position)))
    return tuple(sorted(_first_cores_of_places(share, places, cores)))


def housekeeping_cpus_if_all_online(share: HousekeepingShare, top: Topology) -> set[int]:
    """Return the CPUs that would be kept without offline CPUs."""
    return _first_cores_of_places(share, _cpus_by_place(share.per, top), top.present_cores)


def housekeeping_remarks(
    share: HousekeepingShare, is_default: bool, housekeeping: Sequence[int], top: Topology
) -> list[str]:
    """Return a remark where no core is kept, and where more than a tenth of the cores are kept; else an empty list."""
    if not housekeeping:
        return [_no_housekeeping_remark(is_default, top)]
    count = sum(1 for core in top.cores if set(housekeeping).intersection(core))
    if 100 * count <= REMARKED_PERCENT * len(top.cores):
        return []
    return [
        f"housekeeping takes {count} of {len(top.cores)} cores, {100 * count // len(top.cores)} percent"
        f"{_l3_domains_as_nodes_reason(share, top)}: prompts are read slower by this share"
        f"{_idle_ccds_clause(housekeeping, top)}. {_smaller_share_hint(share, count, top)}"
    ]


def _no_housekeeping_remark(is_default: bool, top: Topology) -> str:
    reason = hint = ""
    if is_default:
        reason = f", because this host has only {len(top.present_cores)}"
        hint = f" '{HousekeepingShare(1, 'host').to_inventory_line()}' keeps one."
    return (
        f"No core is kept for the operating system{reason}: interrupts and daemons run among the threads that compute, "
        f"and the layer irq and the isolation safe set nothing.{hint}"
    )


def _l3_domains_as_nodes_reason(share: HousekeepingShare, top: Topology) -> str:
    """Return why a core of each node is many cores, if the BIOS makes each L3 domain a node; else an empty text."""
    nodes = [node for node in top.nodes if node.cpus]
    if share.per != "node" or len(nodes) <= MOST_NODES * len(top.sockets):
        return ""
    return (
        ", because the BIOS makes each L3 domain a NUMA node (ACPI SRAT L3 cache as NUMA domain), of which there are "
        f"{len(nodes)}"
    )


def _idle_ccds_clause(housekeeping: Sequence[int], top: Topology) -> str:
    """Return a clause on the CCDs with no other core, whose links to memory carry no weights; else an empty text."""
    idle = [ccd for ccd in top.ccds if set(housekeeping).issuperset(cpu for domain in ccd for cpu in domain.present)]
    if not idle:
        return ""
    return f", and {len(idle)} of {len(top.ccds)} CCDs with their links to memory compute nothing"


def _smaller_share_hint(share: HousekeepingShare, count: int, top: Topology) -> str:
    """Return a sentence with the inventory line for the default share, or for none if the default takes no less."""
    default = default_housekeeping_share(top)
    if default.cores and share.to_option() != default.to_option():
        cpus = choose_housekeeping_cpus(default, top)
        fewer = sum(1 for core in top.cores if set(cpus).intersection(core))
        if fewer < count:
            return f"'{default.to_inventory_line()}' takes {fewer}."
    return (
        f"'{HousekeepingShare(0, 'host').to_inventory_line()}' takes none, and interrupts and daemons then run among "
        "the threads that compute."
    )


def _cores_of_place(cpus: set[int], cores: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [core for core in cores if cpus.intersection(core)]


def _cpus_by_place(place_kind: str, top: Topology) -> dict[str, set[int]]:
    """Return name -> CPUs, offline ones included, of each node or socket, or of the host."""
    places = {
        "node": {f"node {node.id}": set(node.cpus) for node in top.nodes},
        "socket": {f"socket {number}": set(cpus) for number, cpus in top.sockets.items()},
        "host": {"the host": set(top.online)},
    }[place_kind]
    for domain in top.domains:
        name = {"node": f"node {domain.node}", "socket": f"socket {domain.socket}", "host": "the host"}[place_kind]
        places.setdefault(name, set()).update(domain.present)
    return places


def _first_cores_of_places(
    share: HousekeepingShare, places: Mapping[str, set[int]], cores: Sequence[tuple[int, ...]]
) -> set[int]:
    """Return the CPUs of the first cores of each place."""
    kept = (_cores_of_place(cpus, cores)[: share.cores] for cpus in places.values())
    return {cpu for members in kept for core in members for cpu in core}
