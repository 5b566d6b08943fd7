# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as a page for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import STATUSES
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import wording as words
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import (
    CLEAN,
    FAILED,
    UNREACHABLE,
    cell,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import escaping
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import format_host_group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import Document

COLOURS = {"ok": "32", "drift": "31", "failed": "31", "unreachable": "31", "unknown": "35", "unsupported": "33"}
COLOURS["clean"] = COLOURS["ok"]


class _Painter:
    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, text: str, word: str) -> str:
        return f"\033[{COLOURS[word]}m{text}\033[0m" if self.colour and word in COLOURS else text

    def strong(self, text: str) -> str:
        return f"\033[1m{text}\033[0m" if self.colour else text


def render(document: Document, colour: bool = False) -> str:
    """Return the page, without a newline at its end."""
    return "\n".join(_lines(escaping.document(document), _Painter(colour)))


def _lines(document: Document, paint: _Painter) -> Iterator[str]:
    yield paint.strong(f"{words.heading(document)} of {words.summary(document)}")
    if words.comparison(document):
        yield words.comparison(document)
    findings = {finding["id"]: finding for finding in document["findings"]}
    titles = {layer["name"]: layer["title"] for layer in document["layers"]}
    for group in document["groups"]:
        if group["state"] == CLEAN:
            continue
        yield ""
        state = words.state(group, document).upper()
        yield f"{paint(state, group['state'])} {paint.strong(format_host_group(group))}"
        if group["state"] in (UNREACHABLE, FAILED):
            yield f"  {group['error']['task']}: {group['error']['message']}"
        if not group["findings"] and group["state"] not in (UNREACHABLE, FAILED):
            yield "  No task reported on its settings."
        for number in group["findings"]:
            yield from _finding(findings[number], titles, paint, document)
    yield from _what_to_do(document)
    if document["gone"]:
        yield ""
        yield "Gone since the last report:"
        for one in document["gone"]:
            yield f"  {one['label']}: {words.title(one)} ({titles[one['layer']]}), was there since {one['since']}"
    yield ""
    yield words.covered(document)
    yield from _layers(document)
    for group in [group for group in document["groups"] if group["state"] == CLEAN]:
        clean = words.CHECK_WORDS[CLEAN].upper() if document["check"] else "CLEAN"
        yield f"{paint(clean, 'clean')} {format_host_group(group)}"


def _what_to_do(document: Document) -> Iterator[str]:
    """Yield the repairs by command; of a check the one command that makes all that it tells of."""
    if not document["findings"]:
        return
    yield ""
    if document["check"] and document["next"]:
        yield f"Next{', with the same -e' if document['next']['extra_variables'] else ''}:"
        yield f"  {document['next']['command']}"
    else:
        yield "Repair:"
        yield from _repairs(document)


def _finding(finding: Document, titles: dict[str, str], paint: _Painter, document: Document) -> Iterator[str]:
    check = document["check"]
    mark = paint(words.status(finding, document), finding["status"])
    yield f"  [{finding['id']}] {titles[finding['layer']]}: {paint.strong(words.title(finding))}: {mark}"
    if words.values(finding, check):
        yield f"      {words.values(finding, check)}"
    if finding["status"] == "drift" and check:
        if finding["reason"]:
            yield f"      {finding['reason']}"
    elif finding["status"] == "drift":
        reason = f"; {finding['reason']}" if finding["reason"] else ""
        yield f"      {words.verdicts(finding)}{reason}"
    known = [part for part in (words.asked_by(finding), "" if check else words.age(finding)) if part]
    if known:
        yield f"      {', '.join(known)}"


def _repairs(document: Document) -> Iterator[str]:
    """Findings with the same command are repaired together."""
    by_command: dict[str, list[str]] = {}
    for finding in document["findings"]:
        by_command.setdefault(words.repair(finding), []).append(str(finding["id"]))
    for command, numbers in by_command.items():
        yield f"  [{', '.join(numbers)}] {command}"


def _layers(document: Document) -> Iterator[str]:
    width = max(len(layer["title"]) for layer in document["layers"])
    for layer in words.asked(document):
        hosts = [cell(row, layer["name"]) for row in document["hosts"]]
        kinds = words.cell_words(document)
        counts = [f"{hosts.count(one)} {kinds[one]}" for one in (*STATUSES, *words.OTHER_WORDS) if one in hosts]
        yield f"  {layer['title']:<{width}}  hosts: {', '.join(counts)}"
    if words.unasked(document):
        yield f"  {words.unasked(document)}"
