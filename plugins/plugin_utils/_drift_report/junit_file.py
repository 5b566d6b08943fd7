# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as JUnit XML, for a pipeline: a suite for each host, a case for each layer that a request names."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import wording as words
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import UNSEEN, cell
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import escaping

if TYPE_CHECKING:
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import Document


def render(document: Document) -> str:
    """Return the file. What is unknown is an error, what a host cannot have is a failure like drift.

    XML 1.0 has no way to write control characters and the like, not even escaped; none of them is printable.
    """
    document = escaping.document(document)
    findings = {finding["id"]: finding for finding in document["findings"]}
    root = ElementTree.Element("testsuites", name="sovereign.epyc drift")
    for row in document["hosts"]:
        suite = ElementTree.SubElement(root, "testsuite", name=row["name"])
        if "error" in row or not row["coverage"]:
            case = _case(suite, row["name"], "reachable" if row["state"] == "unreachable" else "checked")
            error = row.get("error", {"task": "", "message": "No task reported on this host."})
            _note(case, "error", error["message"], error["task"])
        for layer in document["layers"]:
            if cell(row, layer["name"]) in ("", UNSEEN):
                continue
            case = _case(suite, row["name"], layer["title"])
            mine = [findings[number] for number in row["findings"] if findings[number]["layer"] == layer["name"]]
            unknown = [one for one in mine if one["status"] == "unknown"]
            if len(mine) > len(unknown):
                _note(case, "failure", _headline(mine), _body(mine))
            elif unknown:
                _note(case, "error", _headline(unknown), _body(unknown))
        suite.set("tests", str(len(suite)))
        suite.set("failures", str(len(suite.findall("*/failure"))))
        suite.set("errors", str(len(suite.findall("*/error"))))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, host: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=host, name=name)


def _note(case: ElementTree.Element, kind: str, message: str, text: str) -> None:
    note = ElementTree.SubElement(case, kind, message=message)
    note.text = text


def _headline(findings: list[Document]) -> str:
    return "; ".join(f"{words.title(one)}: {words.values(one)}" for one in findings)


def _body(findings: list[Document]) -> str:
    rows = [f"{words.title(one)}: {words.values(one)}; {words.verdicts(one)}; {words.repair(one)}" for one in findings]
    return "\n".join(rows)
