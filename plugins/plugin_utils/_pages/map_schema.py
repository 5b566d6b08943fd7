# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check of the map of a host before it is drawn, since a malformed map could break a page or exhaust the memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._host.map_data import LETTERS
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import LARGEST_CPU
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.shape import (
    Leaf,
    Nullable,
    text_choice_shape,
    whole_number_shape,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._host_data import Malformed, require_shape

if TYPE_CHECKING:
    from collections.abc import Mapping

NUMBER = whole_number_shape(0, LARGEST_CPU)
#: A size in bytes, or a count of pages. No EPYC's cache has more bytes.
AMOUNT = whole_number_shape(0, 1 << 40)
PAGE_SIZE = Leaf("a size of a page", lambda key: isinstance(key, str) and bool(re.fullmatch("[0-9]{1,9}kB", key)))
ROLE_LETTERS = Leaf("letters of roles", lambda value: isinstance(value, str) and set(value) <= set(LETTERS.values()))
#: The owner of each cache way, a point for a way of no role. No cache mask of the kernel has more than 64 bits.
WAYS = Leaf(
    "at most 64 letters of roles and points",
    lambda value: isinstance(value, str) and len(value) <= 64 and set(value) <= {*LETTERS.values(), "."},
)
DOMAIN = {
    **dict.fromkeys(("l3", "socket", "node", "ccd"), Nullable(NUMBER)),
    "bytes": AMOUNT,
    "cores": [[NUMBER]],
    "roles": [ROLE_LETTERS],
    "ways": WAYS,
}
MAP = {
    **dict.fromkeys(("model", "kernel", "parts"), str),
    "roles": {text_choice_shape(*LETTERS): str},
    "nodes": [{"id": NUMBER, "memory": str, "hugepages": {PAGE_SIZE: AMOUNT}}],
    "domains": [DOMAIN],
    "instances": [dict.fromkeys(("name", "cpus", "nodes", "draft_cpus", "url"), str)],
    "notes": [str],
    "faults": [str],
}


def validate_host_map(data: Any) -> None:
    """Raise Malformed for a map of a host that cannot be drawn."""
    require_shape(data, MAP, "map")
    seen: set[int] = set()
    for number, domain in enumerate(data["domains"]):
        _validate_cores(domain, f"map.domains[{number}]", seen)


def _validate_cores(domain: Mapping[str, Any], place: str, seen: set[int]) -> None:
    """Raise Malformed for cores that contradict their roles. ``seen`` collects CPUs: a CPU is in one domain only."""
    cores, roles = domain["cores"], domain["roles"]
    if not cores or [len(cpus) for cpus in cores] != [len(letters) for letters in roles] or not all(cores):
        raise Malformed(f"{place}.roles has not exactly one letter for each CPU of its cores")
    for cpu in (cpu for cpus in cores for cpu in cpus):
        if cpu in seen:
            raise Malformed(f"{place}.cores has CPU {cpu}, which is in another place too")
        seen.add(cpu)
