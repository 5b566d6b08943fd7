# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a result must look like to become part of a report, and a report to be compared with.

It is looked at once, where it comes in: one strange answer must not end the report of a whole fleet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import LAYERS, STATUSES, Finding
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import DRIFT, OK, UNKNOWN
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

#: No host has more settings, and a sum of such counts over any fleet can be written.
LARGEST_COUNT = 10**9
#: Field of a finding -> what it holds.
FINDING: dict[str, object] = {
    **dict.fromkeys(Finding.__slots__, str),
    "pending_reboot": bool,
    "variables": TEXTS,
    "addresses": TEXTS,
    "layer": LAYERS,
    "status": tuple(status for status in STATUSES if status != OK),
    "live": (OK, DRIFT, UNKNOWN),
    "persistent": (OK, DRIFT, UNKNOWN),
}
#: The same of what a report remembers of a finding. Its layer may be one that there was in an older version.
KNOWN: dict[str, object] = {
    "layer": str,
    "what": str,
    "where": str,
    "status": FINDING["status"],
    "addresses": TEXTS,
}


def answer(findings: object, coverage: object) -> None:
    """Check what a host answered. Raises Malformed."""
    for number, finding in enumerate(items(findings, "findings")):
        place = f"findings[{number}]"
        more = table(finding, place).keys() - FINDING.keys()
        if more:
            raise Malformed(f"{place} has {', '.join(sorted(map(str, more)))}, which no finding has")
        fields(finding, FINDING, place)
    for layer, counts in table(coverage, "coverage").items():
        if layer not in LAYERS:
            raise Malformed(f"coverage has {show_value(layer)}, which is no layer")
        for status, count in table(counts, f"coverage.{layer}").items():
            good = isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= LARGEST_COUNT
            if status not in STATUSES or not good:
                raise Malformed(
                    f"coverage.{layer} has {show_value(status)}: {show_value(count)}, which is no count of a status"
                )


def report(document: Mapping[str, Any]) -> None:
    """Check what a report is compared by. Raises Malformed."""
    fields(document, {"generated": str}, "the report")
    numbers = set()
    for number, finding in enumerate(items(document.get("findings"), "findings")):
        fields(table(finding, f"findings[{number}]"), {**KNOWN, "id": int}, f"findings[{number}]")
        numbers.add(finding["id"])
    for number, row in enumerate(items(document.get("hosts"), "hosts")):
        place = f"hosts[{number}]"
        fields(table(row, place), {"name": str, "since": TEXTS}, place)
        mine = items(row.get("findings"), f"{place}.findings")
        all_there = all(isinstance(one, int) and one in numbers for one in mine)
        if len(mine) != len(row["since"]) or not all_there:
            raise Malformed(f"{place}.findings is not about findings of the report, each with its date")
        for other, known in enumerate(items(row.get("last_known", []), f"{place}.last_known")):
            where = f"{place}.last_known[{other}]"
            fields(table(known, where), {**KNOWN, "since": str}, where)
