# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of the data that a host or an earlier report hands to a drift report.

Data is checked once, where it enters the report, so that a malformed answer of one host does not end the report of the
whole fleet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import LAYERS, STATUSES, Finding
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import DRIFT, OK, UNKNOWN
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.shape import (
    ANY,
    text_choice_shape,
    whole_number_shape,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._host_data import Malformed, require_shape

if TYPE_CHECKING:
    from collections.abc import Mapping

VERDICT, WRONG_STATUS = (
    text_choice_shape(OK, DRIFT, UNKNOWN),
    text_choice_shape(*(status for status in STATUSES if status != OK)),
)
FINDING: dict[str, Any] = {
    **dict.fromkeys(vars(Finding("", "", "")), str),
    "pending_reboot": bool,
    "variables": [str],
    "addresses": [str],
    "layer": text_choice_shape(*LAYERS),
    "status": WRONG_STATUS,
    "live": VERDICT,
    "persistent": VERDICT,
}
#: Layer -> status -> count. The bound is more than any host has, and small enough for sums over any fleet.
COVERAGE = {text_choice_shape(*LAYERS): {text_choice_shape(*STATUSES): whole_number_shape(0, 10**9)}}
#: The fields that a report remembers of a finding. Any layer is accepted: an older version may have had others.
REMEMBERED_FIELDS: dict[Any, Any] = {
    "layer": str,
    "what": str,
    "where": str,
    "status": WRONG_STATUS,
    "addresses": [str],
}
#: A report of an earlier run, as far as the comparison with it needs fields.
PREVIOUS_REPORT = {
    "generated": str,
    "findings": [{**REMEMBERED_FIELDS, "id": int, ANY: object}],
    "hosts": [{"name": str, "since": [str], "findings": [int], ANY: object}],
    ANY: object,
}


def validate_findings_and_counts(findings: object, coverage: object) -> None:
    """Raise Malformed for malformed findings or counts by layer in the answer of a host."""
    require_shape(findings, [FINDING], "findings")
    require_shape(coverage, COVERAGE, "coverage")


def validate_previous_report(document: Mapping[str, Any]) -> None:
    """Raise Malformed for an earlier report that cannot be compared with."""
    require_shape(document, PREVIOUS_REPORT, "")
    numbers = {finding["id"] for finding in document["findings"]}
    for at, row in enumerate(document["hosts"]):
        if len(row["findings"]) != len(row["since"]) or not numbers.issuperset(row["findings"]):
            raise Malformed(f"hosts[{at}].findings is not about findings of the report, each with its date")
        remembered = [{**REMEMBERED_FIELDS, "since": str, ANY: object}]
        require_shape(row.get("last_known", []), remembered, f"hosts[{at}].last_known")
