# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as one HTML page that needs nothing else: no network, and for reading not even its script."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import map_marks
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import wording as words
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.filter_script import SCRIPT
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import (
    CLEAN,
    FAILED,
    STATES,
    UNREACHABLE,
    UNSEEN,
    cell,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import frame, map_drawing, map_style
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.style import STATUS_MARKS, STYLE
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import format_host_group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import Document

#: The mark of a status of a layer on a host, also where it has none.
SHAPES = {**STATUS_MARKS, "": "\u00b7", UNSEEN: "\u25a1"}
LEGEND = {**words.STATUS_WORDS, **words.OTHER_WORDS}


def render(document: Document) -> str:
    """Return the page."""
    title = f"{words.heading(document)}: {words.summary(document)}"
    return frame.page(title, STYLE + map_style.STYLE, SCRIPT + map_style.SCRIPT, _body(document))


def _body(document: Document) -> Iterator[Html]:
    yield element("h1", f"{words.heading(document)} report")
    yield element("p", words.summary(document), class_="headline")
    generated = element("time", document["generated"])
    yield element("p", generated, f". {words.covered(document)} {words.comparison(document)}", class_="faint")
    yield from _errors(document)
    yield from _findings(document)
    yield from _gone(document)
    yield from _matrix(document)
    for number, data in enumerate(document["maps"]):
        legend = map_style.legend(any(domain["ways"] for domain in data["domains"]), wrong=True)
        yield element("template", legend, map_drawing.render(data), id=f"map{number}")


def _errors(document: Document) -> Iterator[Html]:
    groups = [group for group in document["groups"] if group["state"] in (UNREACHABLE, FAILED)]
    if groups:
        yield element("h2", "Could not be looked at")
    for group in groups:
        state, error = group["state"], group["error"]
        yield element(
            "article",
            element("h3", f"{SHAPES['drift']} {state}: {format_host_group(group)}"),
            element("p", f"{error['task']}: {error['message']}"),
            class_=state,
            data_layer="",
            data_hosts=frame.join_host_names(group),
        )


def _findings(document: Document) -> Iterator[Html]:
    titles = {layer["name"]: layer["title"] for layer in document["layers"]}
    if document["findings"]:
        yield element("h2", "What would change" if document["check"] else "What is not as configured")
    for finding in document["findings"]:
        status, command = finding["status"], words.repair(finding)
        rows = {
            "Hosts": format_host_group(finding),
            "Change" if document["check"] else "Found": words.values(finding, document["check"]),
            "Verdicts": "" if document["check"] else words.verdicts(finding),
            "Why": finding["reason"] if status == "drift" else "",
            "Asked by": words.asked_by(finding),
            "Known": words.age(finding),
            "Next" if document["check"] else "Repair": element("code", command) if finding["command"] else command,
        }
        shape = element("span", SHAPES[status], class_=status)
        pairs = [part for name, text in rows.items() if text for part in (element("dt", name), element("dd", text))]
        yield element(
            "article",
            element("h3", shape, f" {titles[finding['layer']]}: {words.title(finding)}"),
            element("dl", *pairs),
            class_=status,
            id=f"f{finding['id']}",
            data_layer=finding["layer"],
            data_hosts=frame.join_host_names(finding),
        )


def _gone(document: Document) -> Iterator[Html]:
    if document["gone"]:
        lines = [f"{one['label']}: {words.title(one)}, was there since {one['since']}" for one in document["gone"]]
        yield element("h2", "Gone since the last report")
        yield element("ul", *(element("li", line) for line in lines))


def _matrix(document: Document) -> Iterator[Html]:
    # A column of nothing would take room from the others.
    layers = words.asked(document)
    yield element("h2", "The fleet")
    options = [element("option", layer["title"], value=layer["name"]) for layer in layers]
    yield element(
        "form",
        element("label", "Host ", element("input", name="host", type="search", autocomplete="off")),
        element(
            "label", "Wrong in ", element("select", element("option", "any layer", value=""), *options, name="layer")
        ),
        element("label", element("input", name="wrong", type="checkbox"), " only what is not clean"),
        element("output", class_="faint"),
        hidden=True,
    )
    shapes = [(element("b", SHAPES[status], class_=status or "unasked"), word) for status, word in LEGEND.items()]
    yield element("p", *(element("span", shape, f" {word}") for shape, word in shapes), class_="legend")
    findings = {finding["id"]: finding for finding in document["findings"]}
    # Hosts with the same drift have the same list and marks, which are made once.
    lists: dict[tuple[int, ...], tuple[list[Html], str]] = {}
    rows = []
    # Trouble comes first here too; the sort keeps the order of names.
    for row in sorted(document["hosts"], key=lambda row: STATES.index(row["state"])):
        numbers = tuple(row["findings"])
        if numbers not in lists:
            found = [findings[number] for number in numbers]
            marks = json.dumps(map_marks.of(found), separators=(",", ":"))
            lists[numbers] = ([_line(one, document["check"]) for one in found], marks)
        rows.append(_row(row, *lists[numbers], [layer["name"] for layer in layers]))
    head = element("tr", element("th", "Host"), *(element("th", layer["title"]) for layer in layers))
    yield element("table", element("thead", head), element("tbody", *rows))
    yield element("p", words.unasked(document), class_="faint")


def _row(row: Document, lines: list[Html], places: str, layers: list[str]) -> Html:
    cells = {layer: cell(row, layer) for layer in layers}
    wrong = " ".join(layer for layer, status in cells.items() if status not in ("", UNSEEN, "ok"))
    name, state = row["name"], row["state"]
    if "error" in row:
        known = [element("li", f"last known: {words.title(one)}") for one in row.get("last_known", [])]
        lines = [element("li", f"{row['error']['task']}: {row['error']['message']}"), *lines, *known]
    label = [name] if state == CLEAN else [f"{name} ", element("span", words.STATE_WORDS[state], class_=state)]
    if lines:
        drawn = {"data_map": f"map{row['map']}", "data_marks": places} if "map" in row else {}
        label = [element("details", element("summary", *label), element("ul", *lines), **drawn)]
    head = element("th", *label)
    marks = map(_draw_status, cells.values())
    return element("tr", head, *marks, data_host=name.lower(), data_state=state, data_wrong=wrong)


@cache
def _draw_status(status: str) -> Html:
    return element("td", SHAPES[status], class_=status or "unasked", title=LEGEND[status])


def _line(finding: Document, check: bool) -> Html:
    where = element("a", words.title(finding), href=f"#f{finding['id']}")
    told = words.values(finding, check) if check else f"{words.values(finding)}; {words.verdicts(finding)}"
    return element("li", where, f": {told}")
