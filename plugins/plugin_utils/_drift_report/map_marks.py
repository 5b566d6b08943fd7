# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where on the map of a host its findings are: CPUs, L3 domains and nodes. A finding of the whole host has no place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import words
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import PLAN
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import L3_DOMAIN
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import format_cpulist, parse_cpulist

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Mark = tuple[int, str, int, int]

#: Unit of a place -> its kind on the map. The number of a cpufreq policy is that of its first CPU.
KINDS = {"CPU": "cpu", "policy": "cpu", L3_DOMAIN: "l3", "node": "node"}
CPUS = "/cpus"
#: How a finding says that there are no CPUs.
NONE = ("''", "nothing")


def of(findings: Iterable[Mapping[str, Any]]) -> list[Mark]:
    """Return marks: the id of the finding, the kind of place (cpu, l3, node), and its first and last number."""
    marks = []
    for finding in findings:
        places: dict[str, set[int]] = {}
        for address in finding["addresses"]:
            for kind, number in _places(address, finding):
                places.setdefault(kind, set()).add(number)
        for kind, numbers in places.items():
            for run in format_cpulist(numbers).split(","):
                first, dummy, last = run.partition("-")
                marks.append((finding["id"], kind, int(first), int(last or first)))
    return marks


def _places(address: str, finding: Mapping[str, Any]) -> list[tuple[str, int]]:
    if address.startswith(f"{PLAN}:") or (address.startswith("resctrl:") and address.endswith(CPUS)):
        return [("cpu", cpu) for cpu in _differing(finding["wanted"], finding["found"])]
    try:
        dummy, unit, place = words.describe(address)
    except (ArithmeticError, LookupError, StopIteration, TypeError, ValueError):
        return []  # No address that this version has; a host can answer anything.
    return [(KINDS[unit], place)] if unit in KINDS and isinstance(place, int) else []


def _differing(wanted: str, found: str) -> list[int]:
    """Return the CPUs that are in one of two lists only; none where one of them is no list."""
    try:
        one, other = ("" if text in NONE else text for text in (wanted, found))
        return sorted(set(parse_cpulist(one)) ^ set(parse_cpulist(other)))
    except ValueError:
        return []
