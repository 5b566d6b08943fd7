# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the map of a host must look like to be drawn; a map that is not so could end a page, or fill the memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._host.map_data import LETTERS
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import LARGEST_CPU
from ansible_collections.sovereign.epyc.plugins.plugin_utils._schema import (
    TEXTS,
    Malformed,
    fields,
    items,
    show_value,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

INSTANCE = dict.fromkeys(("name", "cpus", "nodes", "draft_cpus", "url"), str)
PARTS = ("model", "kernel", "parts")
POOL = re.compile(r"[0-9]{1,9}kB")
#: No EPYC's cache is larger, and no mask of the kernel has more bits.
LARGEST_CACHE, MOST_WAYS = 1 << 40, 64


def host_map(data: object) -> None:
    """Check a map that a host returned. Raises Malformed."""
    whole = _exactly(data, "map", (*PARTS, "roles", "nodes", "domains", "instances", "notes"))
    fields(whole, {**dict.fromkeys(PARTS, str), "notes": TEXTS}, "map")
    roles = table(whole["roles"], "map.roles")
    for role, cpus in roles.items():
        if role not in LETTERS or not isinstance(cpus, str):
            raise Malformed(f"map.roles has {show_value(role)}: {show_value(cpus)}, which are no CPUs of a role")
    for number, instance in enumerate(items(whole["instances"], "map.instances")):
        place = f"map.instances[{number}]"
        fields(_exactly(instance, place, tuple(INSTANCE)), INSTANCE, place)
    for number, node in enumerate(items(whole["nodes"], "map.nodes")):
        _node(node, f"map.nodes[{number}]")
    seen: set[int] = set()
    for number, domain in enumerate(items(whole["domains"], "map.domains")):
        _domain(domain, f"map.domains[{number}]", seen)


def _node(node: object, place: str) -> None:
    row = _exactly(node, place, ("id", "memory", "hugepages"))
    fields(row, {"memory": str}, place)
    _number(row["id"], f"{place}.id", LARGEST_CPU)
    for pool, count in table(row["hugepages"], f"{place}.hugepages").items():
        if not isinstance(pool, str) or not POOL.fullmatch(pool):
            raise Malformed(f"{place}.hugepages has {show_value(pool)}, which is no size of a page")
        _number(count, f"{place}.hugepages.{pool}", LARGEST_CACHE)


def _domain(domain: object, place: str, seen: set[int]) -> None:
    """Check a domain; ``seen`` are the CPUs of those before, since each CPU is in one place only."""
    row = _exactly(domain, place, ("l3", "bytes", "socket", "node", "ccd", "cores", "roles", "ways"))
    _number(row["bytes"], f"{place}.bytes", LARGEST_CACHE)
    for key in ("l3", "socket", "node", "ccd"):
        if row[key] is not None:
            _number(row[key], f"{place}.{key}", LARGEST_CPU)
    cores, roles = items(row["cores"], f"{place}.cores"), items(row["roles"], f"{place}.roles")
    if not cores or len(cores) != len(roles):
        raise Malformed(f"{place}.roles is not about each of its cores")
    for core, letters in zip(cores, roles):
        cpus = items(core, f"{place}.cores")
        for cpu in cpus:
            _number(cpu, f"{place}.cores", LARGEST_CPU)
            if cpu in seen:
                raise Malformed(f"{place}.cores has CPU {cpu}, which is in another place too")
            seen.add(cpu)
        if not cpus or not isinstance(letters, str) or len(letters) != len(cpus) or _strange(letters):
            raise Malformed(f"{place}.roles has {show_value(letters)}, which is not the role of each CPU of a core")
    ways = row["ways"]
    if not isinstance(ways, str) or len(ways) > MOST_WAYS or _strange(ways.replace(".", "")):
        raise Malformed(f"{place}.ways is {show_value(ways)}")


def _exactly(data: object, place: str, names: tuple[str, ...]) -> Mapping[str, Any]:
    row = table(data, place)
    if row.keys() != set(names):
        raise Malformed(f"{place} has {', '.join(sorted(map(repr, row)))} instead of {', '.join(names)}")
    return row


def _number(value: object, place: str, largest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise Malformed(f"{place} is {show_value(value)} and no number from 0 to {largest}")


def _strange(letters: str) -> bool:
    return not set(letters) <= set(LETTERS.values())
