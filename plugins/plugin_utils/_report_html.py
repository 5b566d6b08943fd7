# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as one HTML page that needs nothing else: no network, and for reading not even its script."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.plugin_utils import (
    _html_page,
    _map_assets,
    _map_marks,
    _map_svg,
    _plain,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils import _report_words as words
from ansible_collections.sovereign.epyc.plugins.plugin_utils._report import (
    CLEAN,
    FAILED,
    STATES,
    UNREACHABLE,
    UNSEEN,
    cell,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._report_html_assets import SCRIPT, STYLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.sovereign.epyc.plugins.plugin_utils._report import Document

#: Each status has a shape of its own, so that it is recognised without its colour.
SHAPES = {"ok": "\u25cf", "drift": "\u25b2", "unknown": "?", "unsupported": "\u25c7", "": "\u00b7", UNSEEN: "\u25a1"}
LEGEND = {**words.STATUS_WORDS, **words.OTHER_WORDS}


def render(document: Document) -> str:
    """Return the page."""
    document = _plain.document(document)
    title = f"Drift: {words.summary(document)}"
    return _html_page.page(title, STYLE + _map_assets.STYLE, SCRIPT + _map_assets.SCRIPT, _body(document))


def _body(document: Document) -> Iterator[str]:
    yield f'<h1>Drift report</h1><p class="headline">{escape(words.summary(document))}</p>'
    generated = f"<time>{escape(document['generated'])}</time>"
    yield f'<p class="faint">{generated}. {escape(words.covered(document))} {escape(words.comparison(document))}</p>'
    yield from _errors(document)
    yield from _findings(document)
    yield from _gone(document)
    yield from _matrix(document)
    for number, data in enumerate(document["maps"]):
        legend = _map_assets.legend(any(domain["ways"] for domain in data["domains"]), wrong=True)
        yield f'<template id="map{number}">{legend}{_map_svg.render(data)}</template>'


def _errors(document: Document) -> Iterator[str]:
    groups = [group for group in document["groups"] if group["state"] in (UNREACHABLE, FAILED)]
    if groups:
        yield "<h2>Could not be looked at</h2>"
    for group in groups:
        error = group["error"]
        yield f'<article class="{group["state"]}" data-layer="" data-hosts="{_html_page.hosts(group)}"><h3>'
        yield f"{SHAPES['drift']} {group['state']}: {escape(words.named(group))}</h3>"
        yield f"<p>{escape(error['task'])}: {escape(error['message'])}</p></article>"


def _findings(document: Document) -> Iterator[str]:
    titles = {layer["name"]: layer["title"] for layer in document["layers"]}
    if document["findings"]:
        yield "<h2>What is not as configured</h2>"
    for finding in document["findings"]:
        status = finding["status"]
        yield (
            f'<article class="{status}" id="f{finding["id"]}" data-layer="{finding["layer"]}" '
            f'data-hosts="{_html_page.hosts(finding)}"><h3><span class="{status}">{SHAPES[status]}</span> '
            f"{escape(titles[finding['layer']])}: {escape(words.title(finding))}</h3><dl>"
        )
        rows = {
            "Hosts": escape(words.named(finding)),
            "Found": escape(words.values(finding)),
            "Verdicts": escape(words.verdicts(finding)),
            "Why": escape(finding["reason"]) if status == "drift" else "",
            "Asked by": escape(words.asked_by(finding)),
            "Known": escape(words.age(finding)),
            "Repair": f"<code>{escape(words.repair(finding))}</code>" if finding["command"] else words.repair(finding),
        }
        yield "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows.items() if text)
        yield "</dl></article>"


def _gone(document: Document) -> Iterator[str]:
    if document["gone"]:
        yield "<h2>Gone since the last report</h2><ul>"
        for one in document["gone"]:
            yield f"<li>{escape(one['label'])}: {escape(words.title(one))}, was there since {escape(one['since'])}</li>"
        yield "</ul>"


def _matrix(document: Document) -> Iterator[str]:
    # A column of nothing would take room from the others.
    layers = words.asked(document)
    yield "<h2>The fleet</h2>"
    yield '<form hidden><label>Host <input name="host" type="search" autocomplete="off"></label>'
    yield '<label>Wrong in <select name="layer"><option value="">any layer</option>'
    for layer in layers:
        yield f'<option value="{layer["name"]}">{escape(layer["title"])}</option>'
    yield '</select></label><label><input name="wrong" type="checkbox"> only what is not clean</label>'
    yield '<output class="faint"></output></form><p class="legend">'
    for status, word in LEGEND.items():
        yield f'<span><b class="{status or "unasked"}">{SHAPES[status]}</b> {escape(word)}</span>'
    yield "</p><table><thead><tr><th>Host</th>"
    yield "".join(f"<th>{escape(layer['title'])}</th>" for layer in layers)
    yield "</tr></thead><tbody>"
    findings = {finding["id"]: finding for finding in document["findings"]}
    # Hosts with the same drift have the same list and marks, which are made once.
    lists: dict[tuple[int, ...], tuple[str, str]] = {}
    # Trouble comes first here too; the sort keeps the order of names.
    for row in sorted(document["hosts"], key=lambda row: STATES.index(row["state"])):
        numbers = tuple(row["findings"])
        if numbers not in lists:
            found = [findings[number] for number in numbers]
            marks = json.dumps(_map_marks.of(found), separators=(",", ":"))
            lists[numbers] = ("".join(map(_line, found)), escape(marks))
        yield _row(row, *lists[numbers], [layer["name"] for layer in layers])
    yield f'</tbody></table><p class="faint">{escape(words.unasked(document))}</p>'


def _row(row: Document, lines: str, places: str, layers: list[str]) -> str:
    cells = {layer: cell(row, layer) for layer in layers}
    wrong = " ".join(layer for layer, status in cells.items() if status not in ("", UNSEEN, "ok"))
    marks = "".join(
        f'<td class="{status or "unasked"}" title="{LEGEND[status]}">{SHAPES[status]}</td>' for status in cells.values()
    )
    name, state = escape(row["name"]), row["state"]
    if "error" in row:
        lines = f"<li>{escape(row['error']['task'])}: {escape(row['error']['message'])}</li>{lines}"
        known = "".join(f"<li>last known: {escape(words.title(one))}</li>" for one in row.get("last_known", []))
        lines += known
    label = name if state == CLEAN else f'{name} <span class="{state}">{words.STATE_WORDS[state]}</span>'
    drawn = f' data-map="map{row["map"]}" data-marks="{places}"' if "map" in row else ""
    what = f"<details{drawn}><summary>{label}</summary><ul>{lines}</ul></details>" if lines else label
    return f'<tr data-host="{name.lower()}" data-state="{state}" data-wrong="{wrong}"><th>{what}</th>{marks}</tr>'


def _line(finding: Document) -> str:
    where = f'<a href="#f{finding["id"]}">{escape(words.title(finding))}</a>'
    return f"<li>{where}: {escape(words.values(finding))}; {escape(words.verdicts(finding))}</li>"
