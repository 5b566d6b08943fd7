# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The texts of a finding in cells. The terminal page, Markdown, HTML and JUnit all show texts of these cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import DRIFT
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import wording
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import format_host_group

if TYPE_CHECKING:
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import Document


class FindingCells(NamedTuple):
    """The texts that a report shows for a finding; "" for a cell without a text."""

    number: str
    layer: str
    setting: str
    status: str
    hosts: str
    #: The found and the wanted value; in a check, the value before a run and the value that the run would set.
    change: str
    live: str
    at_boot: str
    reboot: str
    #: The three verdicts in one text. A check has none.
    verdicts: str
    #: Why a setting differs. Where no values were compared, the reason is a part of ``change``.
    reason: str
    origin: str
    age: str
    #: The command line of the repair, or ""; and the same command line, or a sentence where there is no command line.
    command: str
    instruction: str


def build_finding_cells(document: Document) -> dict[int, FindingCells]:
    """Return the cells of all findings by their ids."""
    titles = {layer["name"]: layer["title"] for layer in document["layers"]}
    return {
        finding["id"]: _build_cells_of_finding(finding, titles[finding["layer"]], document)
        for finding in document["findings"]
    }


def _build_cells_of_finding(finding: Document, layer: str, document: Document) -> FindingCells:
    check = document["check"]
    return FindingCells(
        number=str(finding["id"]),
        layer=layer,
        setting=wording.format_setting_and_place(finding),
        status=wording.finding_status_words(finding, document),
        hosts=format_host_group(finding),
        change=wording.format_finding_values_or_reason(finding, check),
        live=finding["live"],
        at_boot=finding["persistent"],
        reboot="pending" if finding["pending_reboot"] else "no",
        verdicts="" if check else wording.format_verdicts_and_reboot(finding),
        reason=finding["reason"] if finding["status"] == DRIFT else "",
        origin=wording.format_requesting_role_and_variables(finding),
        age=wording.format_first_date_and_new_hosts(finding),
        command=finding["command"],
        instruction=wording.repair_command_or_sentence(finding),
    )
