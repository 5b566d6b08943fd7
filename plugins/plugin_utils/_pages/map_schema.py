# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of the map of a host before it is drawn, since a malformed map could break a page or exhaust the memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._host.map_data import LETTERS
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import LARGEST_CPU
from ansible_collections.sovereign.epyc.plugins.plugin_utils._schema import (
    TEXTS,
    Malformed,
    require_fields,
    require_json_list,
    require_json_table,
    show_value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

INSTANCE_FIELDS = dict.fromkeys(("name", "cpus", "nodes", "draft_cpus", "url"), str)
HEADING_FIELDS = ("model", "kernel", "parts")
PAGE_SIZE = re.compile(r"[0-9]{1,9}kB")
#: No EPYC's cache is larger, and no mask of the kernel has more bits.
LARGEST_CACHE, MOST_WAYS = 1 << 40, 64


def validate_host_map(data: object) -> None:
    """Check the map that a host returned. Raises Malformed."""
    whole = _require_exact_keys(data, "map", (*HEADING_FIELDS, "roles", "nodes", "domains", "instances", "notes"))
    require_fields(whole, {**dict.fromkeys(HEADING_FIELDS, str), "notes": TEXTS}, "map")
    roles = require_json_table(whole["roles"], "map.roles")
    for role, cpus in roles.items():
        if role not in LETTERS or not isinstance(cpus, str):
            raise Malformed(f"map.roles has {show_value(role)}: {show_value(cpus)}, which are no CPUs of a role")
    for number, instance in enumerate(require_json_list(whole["instances"], "map.instances")):
        place = f"map.instances[{number}]"
        require_fields(_require_exact_keys(instance, place, tuple(INSTANCE_FIELDS)), INSTANCE_FIELDS, place)
    for number, node in enumerate(require_json_list(whole["nodes"], "map.nodes")):
        _validate_node(node, f"map.nodes[{number}]")
    seen: set[int] = set()
    for number, domain in enumerate(require_json_list(whole["domains"], "map.domains")):
        _validate_domain(domain, f"map.domains[{number}]", seen)


def _validate_node(node: object, place: str) -> None:
    row = _require_exact_keys(node, place, ("id", "memory", "hugepages"))
    require_fields(row, {"memory": str}, place)
    _require_number(row["id"], f"{place}.id", LARGEST_CPU)
    for pool, count in require_json_table(row["hugepages"], f"{place}.hugepages").items():
        if not isinstance(pool, str) or not PAGE_SIZE.fullmatch(pool):
            raise Malformed(f"{place}.hugepages has {show_value(pool)}, which is no size of a page")
        _require_number(count, f"{place}.hugepages.{pool}", LARGEST_CACHE)


def _validate_domain(domain: object, place: str, seen: set[int]) -> None:
    """Check an L3 domain. ``seen`` has the CPUs of the domains before it, since a CPU is in one domain only."""
    row = _require_exact_keys(domain, place, ("l3", "bytes", "socket", "node", "ccd", "cores", "roles", "ways"))
    _require_number(row["bytes"], f"{place}.bytes", LARGEST_CACHE)
    for key in ("l3", "socket", "node", "ccd"):
        if row[key] is not None:
            _require_number(row[key], f"{place}.{key}", LARGEST_CPU)
    cores, roles = require_json_list(row["cores"], f"{place}.cores"), require_json_list(row["roles"], f"{place}.roles")
    if not cores or len(cores) != len(roles):
        raise Malformed(f"{place}.roles is not about each of its cores")
    for core, letters in zip(cores, roles):
        cpus = require_json_list(core, f"{place}.cores")
        for cpu in cpus:
            _require_number(cpu, f"{place}.cores", LARGEST_CPU)
            if cpu in seen:
                raise Malformed(f"{place}.cores has CPU {cpu}, which is in another place too")
            seen.add(cpu)
        if not cpus or not isinstance(letters, str) or len(letters) != len(cpus) or _has_unknown_letter(letters):
            raise Malformed(f"{place}.roles has {show_value(letters)}, which is not the role of each CPU of a core")
    ways = row["ways"]
    if not isinstance(ways, str) or len(ways) > MOST_WAYS or _has_unknown_letter(ways.replace(".", "")):
        raise Malformed(f"{place}.ways is {show_value(ways)}")


def _require_exact_keys(data: object, place: str, names: tuple[str, ...]) -> Mapping[str, Any]:
    row = require_json_table(data, place)
    if row.keys() != set(names):
        raise Malformed(f"{place} has {', '.join(sorted(map(repr, row)))} instead of {', '.join(names)}")
    return row


def _require_number(value: object, place: str, largest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise Malformed(f"{place} is {show_value(value)} and no number from 0 to {largest}")


def _has_unknown_letter(letters: str) -> bool:
    return not set(letters) <= set(LETTERS.values())
