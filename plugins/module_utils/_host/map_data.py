# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The data of the map of a host and its plan, from which pages and terminals draw the map.

Equal hosts with equal plans must have equal data, so values that change by themselves, as free memory, are left out.
"""

from __future__ import annotations

from .._notation.cpulist import format_cpulist
from .._notation.sizes import format_bytes_short
from . import plan_text
from .ccds import L3Domain
from .intent import ROLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .memory_speed import MemorySpeed
    from .plan import Plan
    from .topology import Topology

OFFLINE = "offline"
#: The letter of each role, so that a map is readable without its colours.
LETTERS = {"housekeeping": "h", "draft": "d", "verify": "v", "idle": "i", OFFLINE: "x"}


def build_map_data(
    plan: Plan, top: Topology, instances: Sequence[Mapping[str, Any]] = (), memory: MemorySpeed | None = None
) -> dict[str, Any]:
    """Return the data of the map, as documented in the module epyc_plan: sizes in bytes, CPUs as lists."""
    roles = {role: getattr(plan, role) for role in ROLES}
    letter_of = {cpu: LETTERS[role] for role, cpus in roles.items() for cpu in cpus}
    return {
        "model": top.model or "unknown CPU",
        "kernel": top.kernel,
        "parts": plan_text.format_counts_of_host_parts(top),
        "roles": {name: format_cpulist(cpus) for name, cpus in {**roles, OFFLINE: top.offline}.items() if cpus},
        "nodes": [
            {
                "id": node.id,
                "memory": format_bytes_short(node.bytes) if node.bytes else "",
                "hugepages": {f"{size}kB": total for size, (total, dummy) in sorted(node.hugepages.items())},
            }
            for node in top.nodes
        ],
        "domains": [
            _domain_to_dict(domain, plan, top, letter_of)
            for domain in top.domains or _nodes_to_domains_without_cache(top)
        ],
        "faults": plan_text.list_faults(top, memory),
        "instances": [dict(instance) for instance in instances],
        "notes": plan_text.format_remarks_and_impossible_layers(plan, top, memory),
    }


def _domain_to_dict(domain: L3Domain, plan: Plan, top: Topology, letter_of: Mapping[int, str]) -> dict[str, Any]:
    full = top.resctrl.cbm_mask if top.resctrl and plan.groups else None
    cores = [list(core) for core in top.present_cores if core[0] in domain.present]
    return {
        "l3": domain.id,
        "bytes": domain.bytes,
        "socket": domain.socket,
        "node": domain.node,
        "ccd": domain.ccd if top.domains else None,
        "cores": cores,
        "roles": ["".join(letter_of.get(cpu, LETTERS[OFFLINE]) for cpu in core) for core in cores],
        "ways": plan_text.format_ways_as_group_letters(plan, domain, full) if full and domain.id is not None else "",
    }


def _nodes_to_domains_without_cache(top: Topology) -> list[L3Domain]:
    """Return a domain without a cache for each node with CPUs, for the map of a host that shows no L3 domains."""
    places = []
    for node in top.nodes:
        if node.cpus:
            place = L3Domain(None, 0, node.cpus)
            place.node = node.id
            place.socket = next((number for number, cpus in top.sockets.items() if node.cpus[0] in cpus), None)
            places.append(place)
    return places
