# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as one HTML page, which needs no network, and can be read without its script."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import wording
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.cells import build_finding_cells
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import (
    CLEAN,
    FAILED,
    NOT_CHECKED,
    STATES,
    UNREACHABLE,
    worst_layer_status,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.map_marks import find_map_marks
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import frame, map_drawing, map_style
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.copying import copied_element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.style import STATUS_MARKS, STYLE
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import format_host_group

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.cells import FindingCells
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import Document

#: The mark of each status that a layer can have on a host, the empty status included.
LAYER_MARKS = {**STATUS_MARKS, "": "\u00b7", NOT_CHECKED: "\u25a1"}
#: The script that filters hosts and findings. Everything else on the page works without a script.
SCRIPT = """
const rows = [...document.querySelectorAll('tbody tr')];
const cards = [...document.querySelectorAll('article')];
const form = document.querySelector('form');
function filter() {
  const name = form.host.value.trim().toLowerCase(), layer = form.layer.value, wrong = form.wrong.checked;
  let shown = 0;
  for (const row of rows) {
    const layers = row.dataset.wrong.split(' ');
    row.hidden = !row.dataset.host.includes(name) || (layer && !layers.includes(layer))
      || (wrong && row.dataset.state === 'clean');
    shown += !row.hidden;
  }
  for (const card of cards) {
    card.hidden = (layer && card.dataset.layer !== layer)
      || (name && !card.dataset.hosts.split(' ').some(host => host.includes(name)));
  }
  document.querySelector('output').textContent = `${shown} of ${rows.length} hosts`;
}
form.addEventListener('input', filter);
form.addEventListener('submit', event => event.preventDefault());
form.hidden = false;
filter();
"""
LEGEND = {**wording.STATUS_WORDS, **wording.NO_STATUS_WORDS}


def render_drift_html_page(document: Document) -> str:
    """Return the page."""
    title = f"{wording.report_kind_word(document)}: {wording.format_host_counts_by_state(document)}"
    return frame.render_page(title, STYLE + map_style.MAP_STYLE, SCRIPT + map_style.MAP_SCRIPT, _render_body(document))


def _render_body(document: Document) -> Iterator[Html]:
    yield element("h1", f"{wording.report_kind_word(document)} report")
    yield element("p", wording.format_host_counts_by_state(document), class_="headline")
    generated = element("time", document["generated"])
    facts = f". {wording.format_setting_counts_by_status(document)} {wording.format_new_and_resolved_counts(document)}"
    yield element("p", generated, facts, class_="faint")
    yield from _render_failed_hosts(document)
    cells = build_finding_cells(document)
    yield from _render_findings(document, cells)
    yield from _render_resolved_findings(document)
    yield from _render_fleet_table(document, cells)
    for number, data in enumerate(document["maps"]):
        legend = map_style.render_legend(any(domain["ways"] for domain in data["domains"]), has_marks=True)
        columns = element("div", map_drawing.render_scrolling_map(data), class_="columns")
        yield element("template", legend, columns, id=f"map{number}")


def _render_failed_hosts(document: Document) -> Iterator[Html]:
    groups = [group for group in document["groups"] if group["state"] in (UNREACHABLE, FAILED)]
    if groups:
        yield element("h2", "Could not be looked at")
    for group in groups:
        state, error = group["state"], group["error"]
        yield element(
            "article",
            element("h3", f"{LAYER_MARKS['drift']} {state}: {format_host_group(group)}"),
            element("p", f"{error['task']}: {error['message']}"),
            class_=state,
            data_layer="",
            data_hosts=frame.searchable_host_names(group),
        )


def _render_findings(document: Document, cells: Mapping[int, FindingCells]) -> Iterator[Html]:
    check = document["check"]
    if document["findings"]:
        yield element("h2", "What would change" if check else "What is not as configured")
    for finding in document["findings"]:
        status, row = finding["status"], cells[finding["id"]]
        texts = {
            "Hosts": row.hosts,
            "Change" if check else "Value": row.change,
            "Verdicts": row.verdicts,
            "Why": row.reason,
            "Asked by": row.origin,
            "Seen": row.age,
            "Next" if check else "Repair": copied_element("code", row.command) if row.command else row.instruction,
        }
        pairs = [part for name, text in texts.items() if text for part in (element("dt", name), element("dd", text))]
        mark = element("span", LAYER_MARKS[status], class_=status)
        yield element(
            "article",
            element("h3", mark, f" {row.layer}: {row.setting}"),
            element("dl", *pairs),
            class_=status,
            id=f"f{row.number}",
            data_layer=finding["layer"],
            data_hosts=frame.searchable_host_names(finding),
        )


def _render_resolved_findings(document: Document) -> Iterator[Html]:
    if document["gone"]:
        lines = [
            f"{finding['label']}: {wording.format_setting_and_place(finding)}, was there since {finding['since']}"
            for finding in document["gone"]
        ]
        yield element("h2", "Gone since the last report")
        yield element("ul", *(element("li", line) for line in lines))


def _render_fleet_table(document: Document, cells: Mapping[int, FindingCells]) -> Iterator[Html]:
    # Columns of layers that no host is configured for are left out, to save width.
    layers = wording.list_configured_layers(document)
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
    marks = [(element("b", LAYER_MARKS[status], class_=status or "unasked"), name) for status, name in LEGEND.items()]
    yield element("p", *(element("span", mark, f" {name}") for mark, name in marks), class_="legend")
    findings = {finding["id"]: finding for finding in document["findings"]}
    # Hosts with the same findings share one list and one set of map marks.
    shared: dict[tuple[int, ...], tuple[list[Html], str]] = {}
    rows = []
    # Hosts that could not be checked come first; the sort keeps the order of names within a state.
    for row in sorted(document["hosts"], key=lambda row: STATES.index(row["state"])):
        numbers = tuple(row["findings"])
        if numbers not in shared:
            marks_of_map = find_map_marks(findings[number] for number in numbers)
            lines = [_render_linked_finding_item(cells[number]) for number in numbers]
            shared[numbers] = lines, json.dumps(marks_of_map, separators=(",", ":"))
        rows.append(_render_host_row(row, *shared[numbers], [layer["name"] for layer in layers]))
    titles = ["Host", *(layer["title"] for layer in layers)]
    head = element("tr", *(element("th", title, scope="col") for title in titles))
    table = element("table", element("thead", head), element("tbody", *rows))
    yield frame.scrolling_box(table, "The fleet", "narrow")
    yield element("p", wording.unconfigured_layers_message(document), class_="faint")


def _render_host_row(row: Document, finding_items: list[Html], map_marks: str, layers: list[str]) -> Html:
    statuses = {layer: worst_layer_status(row, layer) for layer in layers}
    wrong = " ".join(layer for layer, status in statuses.items() if status not in ("", NOT_CHECKED, "ok"))
    name, state = row["name"], row["state"]
    if "error" in row:
        known = [
            element("li", f"last known: {wording.format_setting_and_place(finding)}")
            for finding in row.get("last_known", [])
        ]
        finding_items = [element("li", f"{row['error']['task']}: {row['error']['message']}"), *finding_items, *known]
    label = [name] if state == CLEAN else [f"{name} ", element("span", wording.STATE_WORDS[state], class_=state)]
    if finding_items:
        map_data = {"data_map": f"map{row['map']}", "data_marks": map_marks} if "map" in row else {}
        label = [
            element("details", element("summary", *label), element("ul", *finding_items, class_="findings"), **map_data)
        ]
    cells = map(_render_status_cell, statuses.values())
    return element(
        "tr", element("th", *label, scope="row"), *cells, data_host=name.lower(), data_state=state, data_wrong=wrong
    )


@cache
def _render_status_cell(status: str) -> Html:
    # A screen reader says the name of the status, and not that of its mark.
    mark = element("span", LAYER_MARKS[status], role="img", aria_label=LEGEND[status])
    return element("td", mark, class_=status or "unasked", title=LEGEND[status])


def _render_linked_finding_item(cells: FindingCells) -> Html:
    """Return the entry of a finding in the list of a host, with a link to the finding."""
    texts = [text for text in (cells.change, cells.verdicts) if text]
    link = element("a", cells.setting, href=f"#f{cells.number}")
    return element("li", link, f": {'; '.join(texts)}")
