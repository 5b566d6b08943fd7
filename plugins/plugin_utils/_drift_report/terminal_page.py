# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as a page for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import STATUSES
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import wording
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.cells import build_finding_cells
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import (
    CLEAN,
    FAILED,
    UNREACHABLE,
    worst_layer_status,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.escaping import escape_unprintable_in_texts
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import format_host_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.cells import FindingCells
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import Document

COLOURS = {"ok": "32", "drift": "31", "failed": "31", "unreachable": "31", "unknown": "35", "unsupported": "33"}
COLOURS["clean"] = COLOURS["ok"]


class _Painter:
    """Puts escape sequences for colours around texts, or returns texts unchanged."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def colour_by_status(self, text: str, status: str) -> str:
        """Return a text in the colour of a status."""
        return f"\033[{COLOURS[status]}m{text}\033[0m" if self.colour and status in COLOURS else text

    def make_bold(self, text: str) -> str:
        return f"\033[1m{text}\033[0m" if self.colour else text


def render_terminal_page(document: Document, colour: bool = False) -> str:
    """Return the page, without a newline at its end."""
    return "\n".join(_render_page_lines(escape_unprintable_in_texts(document), _Painter(colour)))


def _render_page_lines(document: Document, painter: _Painter) -> Iterator[str]:
    yield painter.make_bold(f"{wording.report_kind_word(document)} of {wording.format_host_counts_by_state(document)}")
    if wording.format_new_and_resolved_counts(document):
        yield wording.format_new_and_resolved_counts(document)
    cells = build_finding_cells(document)
    findings = {finding["id"]: finding for finding in document["findings"]}
    for group in document["groups"]:
        if group["state"] == CLEAN:
            continue
        yield ""
        state = wording.group_state_words(group, document).upper()
        yield f"{painter.colour_by_status(state, group['state'])} {painter.make_bold(format_host_group(group))}"
        if group["state"] in (UNREACHABLE, FAILED):
            yield f"  {group['error']['task']}: {group['error']['message']}"
        elif not group["findings"]:
            yield "  No task reported on its settings."
        for number in group["findings"]:
            yield from _render_finding(cells[number], findings[number]["status"], painter, document["check"])
    if not document["check"]:
        yield from _render_repair_lines(document, cells.values())
    if document["gone"]:
        titles = {layer["name"]: layer["title"] for layer in document["layers"]}
        yield ""
        yield "Gone since the last report:"
        for finding in document["gone"]:
            setting = f"{wording.format_setting_and_place(finding)} ({titles[finding['layer']]})"
            yield f"  {finding['label']}: {setting}, was there since {finding['since']}"
    yield ""
    yield wording.format_setting_counts_by_status(document)
    yield from _render_host_counts_by_layer(document)
    for group in [group for group in document["groups"] if group["state"] == CLEAN]:
        clean = wording.CHECK_WORDS[CLEAN].upper() if document["check"] else "CLEAN"
        yield f"{painter.colour_by_status(clean, CLEAN)} {format_host_group(group)}"
    yield from _render_last_lines(document, painter)


def _render_finding(cells: FindingCells, status: str, painter: _Painter, check: bool) -> Iterator[str]:
    setting, mark = painter.make_bold(cells.setting), painter.colour_by_status(cells.status, status)
    yield f"  [{cells.number}] {cells.layer}: {setting}: {mark}"
    lines = [cells.change]
    if status == "drift":
        lines.append("; ".join(text for text in (cells.verdicts, cells.reason) if text))
    lines.append(", ".join(text for text in (cells.origin, "" if check else cells.age) if text))
    yield from (f"      {line}" for line in lines if line)


def _render_repair_lines(document: Document, cells: Iterable[FindingCells]) -> Iterator[str]:
    """Yield the repairs by command."""
    if not document["findings"]:
        return
    yield ""
    yield "Repair:"
    by_instruction: dict[str, list[str]] = {}
    for row in cells:
        by_instruction.setdefault(row.instruction, []).append(row.number)
    yield from (f"  [{', '.join(numbers)}] {instruction}" for instruction, numbers in by_instruction.items())


def _render_last_lines(document: Document, painter: _Painter) -> Iterator[str]:
    """Yield a line for each group of hosts that is not clean, and the command that comes next."""
    findings = {finding["id"]: finding for finding in document["findings"]}
    for group in document["groups"]:
        if group["state"] == CLEAN:
            continue
        state = painter.colour_by_status(wording.group_state_words(group, document).upper(), group["state"])
        yield f"{state} {format_host_group(group)}: {wording.last_line_of_group(group, findings, document)}"
    if document["next"]:
        yield f"Next{', with the same -e' if document['next']['extra_variables'] else ''}:"
        yield f"  {document['next']['command']}"


def _render_host_counts_by_layer(document: Document) -> Iterator[str]:
    width = max(len(layer["title"]) for layer in document["layers"])
    names = wording.layer_status_words(document)
    for layer in wording.list_configured_layers(document):
        statuses = [worst_layer_status(row, layer["name"]) for row in document["hosts"]]
        counts = [
            f"{statuses.count(status)} {names[status]}"
            for status in (*STATUSES, *wording.NO_STATUS_WORDS)
            if status in statuses
        ]
        yield f"  {layer['title']:<{width}}  hosts: {', '.join(counts)}"
    if wording.unconfigured_layers_message(document):
        yield f"  {wording.unconfigured_layers_message(document)}"
