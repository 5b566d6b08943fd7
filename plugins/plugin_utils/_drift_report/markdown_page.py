# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as Markdown, for a ticket or a wiki."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import wording
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.cells import build_finding_cells
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import (
    CLEAN,
    FAILED,
    UNREACHABLE,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.escaping import escape_unprintable_in_texts
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import format_host_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.cells import FindingCells
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import Document

#: Characters that Markdown, or the HTML in it, would read as markup.
SPECIAL_CHARACTERS = "\\`*_{}[]<>()#+!|~&"


def render_markdown(document: Document) -> str:
    """Return the page, with a newline at its end."""
    return "\n".join(_render_markdown_lines(escape_unprintable_in_texts(document))) + "\n"


def escape_markdown(text: object) -> str:
    """Return a text that Markdown shows unchanged."""
    return "".join(f"\\{char}" if char in SPECIAL_CHARACTERS else char for char in " ".join(str(text).split()))


def format_code(text: str) -> str:
    """Return a text as Markdown code, with enough backticks around it for the backticks in the text."""
    ticks = "`"
    while ticks in text:
        ticks += "`"
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _render_markdown_lines(document: Document) -> Iterator[str]:
    cells = build_finding_cells(document)
    yield f"# {wording.report_kind_word(document)} report"
    yield ""
    summary, comparison = (
        wording.format_host_counts_by_state(document),
        wording.format_new_and_resolved_counts(document),
    )
    yield f"**{escape_markdown(summary)}** {escape_markdown(comparison)}".rstrip()
    yield ""
    yield escape_markdown(wording.format_setting_counts_by_status(document))
    for group in document["groups"]:
        if group["state"] == CLEAN:
            continue
        yield ""
        state = wording.group_state_words(group, document).capitalize()
        yield f"## {state}: {escape_markdown(format_host_group(group))}"
        yield ""
        if group["state"] in (UNREACHABLE, FAILED):
            yield f"{escape_markdown(group['error']['task'])}: {escape_markdown(group['error']['message'])}"
            yield ""
        if group["findings"]:
            yield "| | Layer | Setting | Found | Now | At boot | Reboot | Asked by | |"
            yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
        for number in group["findings"]:
            yield _render_finding_row(cells[number])
    yield from _render_repair_items(document, cells.values())
    if document["gone"]:
        titles = {layer["name"]: layer["title"] for layer in document["layers"]}
        yield ""
        yield "## Gone since the last report"
        yield ""
        for finding in document["gone"]:
            setting = f"{wording.format_setting_and_place(finding)} ({titles[finding['layer']]})"
            yield f"- {escape_markdown(finding['label'])}: {escape_markdown(setting)}"
    for group in [group for group in document["groups"] if group["state"] == CLEAN]:
        yield ""
        yield f"## Clean: {escape_markdown(format_host_group(group))}"


def _render_repair_items(document: Document, cells: Iterable[FindingCells]) -> Iterator[str]:
    """Yield the repair of each finding; for a check, the one command that makes all the changes of the report."""
    if document["check"] and document["next"]:
        more = ", with the same \\-e" if document["next"]["extra_variables"] else ""
        yield from ("", f"## Next{more}", "", format_code(document["next"]["command"]))
    elif document["findings"]:
        yield from ("", "## Repair", "")
        for row in cells:
            step = format_code(row.command) if row.command else escape_markdown(row.instruction)
            yield f"- {row.number}: {step}"


def _render_finding_row(cells: FindingCells) -> str:
    change = cells.change + (f" ({cells.reason})" if cells.reason else "")
    texts = (
        *(cells.number, cells.layer, cells.setting, change),
        *(cells.live, cells.at_boot, cells.reboot, cells.origin, cells.age),
    )
    return f"| {' | '.join(map(escape_markdown, texts))} |"
