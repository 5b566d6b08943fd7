# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as Markdown, for a ticket or a wiki."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import wording as words
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import (
    CLEAN,
    FAILED,
    UNREACHABLE,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import escaping
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import format_host_group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import Document

#: What Markdown or the HTML in it would take for its own.
SPECIAL = "\\`*_{}[]<>()#+!|~&"


def render(document: Document) -> str:
    """Return the page, with a newline at its end."""
    return "\n".join(_lines(escaping.document(document))) + "\n"


def escaped(text: object) -> str:
    """Return a text that Markdown shows as it is."""
    return "".join(f"\\{char}" if char in SPECIAL else char for char in " ".join(str(text).split()))


def code(text: str) -> str:
    """Return a text as code, whatever ticks are in it."""
    ticks = "`"
    while ticks in text:
        ticks += "`"
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _lines(document: Document) -> Iterator[str]:
    findings = {finding["id"]: finding for finding in document["findings"]}
    titles = {layer["name"]: layer["title"] for layer in document["layers"]}
    yield f"# {words.heading(document)} report"
    yield ""
    yield f"**{escaped(words.summary(document))}** {escaped(words.comparison(document))}".rstrip()
    yield ""
    yield escaped(words.covered(document))
    for group in document["groups"]:
        if group["state"] == CLEAN:
            continue
        yield ""
        yield f"## {words.state(group, document).capitalize()}: {escaped(format_host_group(group))}"
        yield ""
        if group["state"] in (UNREACHABLE, FAILED):
            yield f"{escaped(group['error']['task'])}: {escaped(group['error']['message'])}"
            yield ""
        if group["findings"]:
            yield "| | Layer | Setting | Found | Now | At boot | Reboot | Asked by | |"
            yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
        for number in group["findings"]:
            yield _row(findings[number], titles, document["check"])
    if document["next"]:
        more = ", with the same \\-e" if document["next"]["extra_variables"] else ""
        yield ""
        yield f"## Next{more}"
        yield ""
        yield code(document["next"]["command"])
    elif document["findings"]:
        yield ""
        yield "## Repair"
        yield ""
        for finding in document["findings"]:
            how = words.repair(finding)
            yield f"- {finding['id']}: {code(how) if finding['command'] else escaped(how)}"
    if document["gone"]:
        yield ""
        yield "## Gone since the last report"
        yield ""
        for one in document["gone"]:
            yield f"- {escaped(one['label'])}: {escaped(words.title(one))} ({escaped(titles[one['layer']])})"
    clean = [group for group in document["groups"] if group["state"] == CLEAN]
    for group in clean:
        yield ""
        yield f"## Clean: {escaped(format_host_group(group))}"


def _row(finding: Document, titles: dict[str, str], check: bool) -> str:
    pending = "pending" if finding["pending_reboot"] else "no"
    reason = f" ({finding['reason']})" if finding["reason"] and finding["status"] == "drift" else ""
    cells = (
        finding["id"],
        titles[finding["layer"]],
        words.title(finding),
        words.values(finding, check) + reason,
        finding["live"],
        finding["persistent"],
        pending,
        words.asked_by(finding),
        words.age(finding),
    )
    return f"| {' | '.join(escaped(text) for text in cells)} |"
