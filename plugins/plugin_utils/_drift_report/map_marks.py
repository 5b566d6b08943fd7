# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The places on the map of a host that its findings are about: CPUs, L3 domains and nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import words
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import PLAN
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.address_kinds import NOTHING
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import L3_DOMAIN
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import format_cpulist, parse_cpulist

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Mark = tuple[int, str, int, int]

#: Unit of a place -> its kind on the map. The number of a cpufreq policy is that of its first CPU.
PLACE_KINDS = {"CPU": "cpu", "policy": "cpu", L3_DOMAIN: "l3", "node": "node"}
CPUS_SUFFIX = "/cpus"
#: The values of a finding that stand for a list without CPUs.
EMPTY_LISTS = ("''", NOTHING)


def find_map_marks(findings: Iterable[Mapping[str, Any]]) -> list[Mark]:
    """Return marks: the id of the finding, the kind of place (cpu, l3, node), and its first and last number.

    A finding about the whole host has no mark.
    """
    marks = []
    for finding in findings:
        places: dict[str, set[int]] = {}
        for address in finding["addresses"]:
            for kind, number in _places_of_address_on_map(address, finding):
                places.setdefault(kind, set()).add(number)
        for kind, numbers in places.items():
            for run in format_cpulist(numbers).split(","):
                first, dummy, last = run.partition("-")
                marks.append((finding["id"], kind, int(first), int(last or first)))
    return marks


def _places_of_address_on_map(address: str, finding: Mapping[str, Any]) -> list[tuple[str, int]]:
    if address.startswith(f"{PLAN}:") or (address.startswith("resctrl:") and address.endswith(CPUS_SUFFIX)):
        return [("cpu", cpu) for cpu in _differing_cpus(finding["wanted"], finding["found"])]
    try:
        dummy, unit, place = words.name_and_place_of_address(address)
    except (ArithmeticError, LookupError, StopIteration, TypeError, ValueError):
        return []  # A host can answer any text, also one that is no address of a setting.
    return [(PLACE_KINDS[unit], place)] if unit in PLACE_KINDS and isinstance(place, int) else []


def _differing_cpus(wanted_cpulist: str, found_cpulist: str) -> list[int]:
    """Return the CPUs that are in only one of two lists of CPUs; no CPUs where a text is no such list."""
    try:
        cpus = [set(parse_cpulist("" if text in EMPTY_LISTS else text)) for text in (wanted_cpulist, found_cpulist)]
        return sorted(cpus[0] ^ cpus[1])
    except ValueError:
        return []
