# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of the data that a host or an earlier report hands to a drift report.

Data is checked once, where it enters the report, so that a malformed answer of one host does not end the report of the
whole fleet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import LAYERS, STATUSES, Finding
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import DRIFT, OK, UNKNOWN
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

#: The largest count that is accepted: more than any host has, and small enough for sums over any fleet.
LARGEST_COUNT = 10**9
#: Field of a finding -> the kind of its value.
FINDING_FIELDS: dict[str, object] = {
    **dict.fromkeys(Finding.__slots__, str),
    "pending_reboot": bool,
    "variables": TEXTS,
    "addresses": TEXTS,
    "layer": LAYERS,
    "status": tuple(status for status in STATUSES if status != OK),
    "live": (OK, DRIFT, UNKNOWN),
    "persistent": (OK, DRIFT, UNKNOWN),
}
#: The fields that a report remembers of a finding. Any layer is accepted: an older version may have had others.
REMEMBERED_FIELDS: dict[str, object] = {
    "layer": str,
    "what": str,
    "where": str,
    "status": FINDING_FIELDS["status"],
    "addresses": TEXTS,
}


def validate_host_answer(findings: object, coverage: object) -> None:
    """Check the findings and the counts by layer that a host answered. Raises Malformed."""
    for number, finding in enumerate(require_json_list(findings, "findings")):
        place = f"findings[{number}]"
        more = require_json_table(finding, place).keys() - FINDING_FIELDS.keys()
        if more:
            raise Malformed(f"{place} has {', '.join(sorted(map(str, more)))}, which no finding has")
        require_fields(finding, FINDING_FIELDS, place)
    for layer, counts in require_json_table(coverage, "coverage").items():
        if layer not in LAYERS:
            raise Malformed(f"coverage has {show_value(layer)}, which is no layer")
        for status, count in require_json_table(counts, f"coverage.{layer}").items():
            is_count = isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= LARGEST_COUNT
            if status not in STATUSES or not is_count:
                raise Malformed(
                    f"coverage.{layer} has {show_value(status)}: {show_value(count)}, which is no count of a status"
                )


def validate_previous_report(document: Mapping[str, Any]) -> None:
    """Check the fields of an earlier report that a comparison needs. Raises Malformed."""
    require_fields(document, {"generated": str}, "the report")
    numbers = set()
    for number, finding in enumerate(require_json_list(document.get("findings"), "findings")):
        require_fields(
            require_json_table(finding, f"findings[{number}]"), {**REMEMBERED_FIELDS, "id": int}, f"findings[{number}]"
        )
        numbers.add(finding["id"])
    for number, row in enumerate(require_json_list(document.get("hosts"), "hosts")):
        place = f"hosts[{number}]"
        require_fields(require_json_table(row, place), {"name": str, "since": TEXTS}, place)
        numbers_of_host = require_json_list(row.get("findings"), f"{place}.findings")
        known_numbers = all(isinstance(number, int) and number in numbers for number in numbers_of_host)
        if len(numbers_of_host) != len(row["since"]) or not known_numbers:
            raise Malformed(f"{place}.findings is not about findings of the report, each with its date")
        for other, known in enumerate(require_json_list(row.get("last_known", []), f"{place}.last_known")):
            where = f"{place}.last_known[{other}]"
            require_fields(require_json_table(known, where), {**REMEMBERED_FIELDS, "since": str}, where)
