# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as JUnit XML, for a pipeline: a suite for each host, a case for each layer that a request names."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.cells import build_finding_cells
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import (
    NOT_CHECKED,
    worst_layer_status,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.escaping import escape_unprintable_in_texts

if TYPE_CHECKING:
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.cells import FindingCells
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import Document


def render_junit(document: Document) -> str:
    """Return the text of the file. An unknown setting is an error; drift and an unsupported setting are failures.

    XML 1.0 cannot have control characters, not even escaped, so the texts get other escapes first.
    """
    document = escape_unprintable_in_texts(document)
    # The file has the verdicts in a check too, because pipelines show no other format of the report.
    cells = build_finding_cells({**document, "check": False})
    findings = {finding["id"]: finding for finding in document["findings"]}
    root = ElementTree.Element("testsuites", name="sovereign.epyc drift")
    for row in document["hosts"]:
        suite = ElementTree.SubElement(root, "testsuite", name=row["name"])
        if "error" in row or not row["coverage"]:
            case = _add_test_case(suite, row["name"], "reachable" if row["state"] == "unreachable" else "checked")
            error = row.get("error", {"task": "", "message": "No task reported on this host."})
            _add_failure_or_error(case, "error", error["message"], error["task"])
        for layer in document["layers"]:
            if worst_layer_status(row, layer["name"]) in ("", NOT_CHECKED):
                continue
            case = _add_test_case(suite, row["name"], layer["title"])
            numbers = [number for number in row["findings"] if findings[number]["layer"] == layer["name"]]
            if numbers:
                unknown = all(findings[number]["status"] == "unknown" for number in numbers)
                rows = [cells[number] for number in numbers]
                _add_failure_or_error(
                    case,
                    "error" if unknown else "failure",
                    _format_settings_and_values(rows),
                    _format_finding_lines(rows),
                )
        suite.set("tests", str(len(suite)))
        suite.set("failures", str(len(suite.findall("*/failure"))))
        suite.set("errors", str(len(suite.findall("*/error"))))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_test_case(suite: ElementTree.Element, host: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=host, name=name)


def _add_failure_or_error(case: ElementTree.Element, tag: str, message: str, text: str) -> None:
    outcome = ElementTree.SubElement(case, tag, message=message)
    outcome.text = text


def _format_settings_and_values(rows: list[FindingCells]) -> str:
    return "; ".join(f"{row.setting}: {row.change}" for row in rows)


def _format_finding_lines(rows: list[FindingCells]) -> str:
    return "\n".join(f"{row.setting}: {row.change}; {row.verdicts}; {row.instruction}" for row in rows)
