# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plans of a fleet as one HTML page that needs nothing else: no network, and for reading not even its script."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.words import natural
from ansible_collections.sovereign.epyc.plugins.module_utils._host.map_data import LETTERS
from ansible_collections.sovereign.epyc.plugins.plugin_utils import _html_page, _map_assets, _map_svg, _plain
from ansible_collections.sovereign.epyc.plugins.plugin_utils import _report_words as words
from ansible_collections.sovereign.epyc.plugins.plugin_utils._hostnames import fold
from ansible_collections.sovereign.epyc.plugins.plugin_utils._report_html import SHAPES
from ansible_collections.sovereign.epyc.plugins.plugin_utils._report_html_assets import STYLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ansible_collections.sovereign.epyc.plugins.plugin_utils._map_svg import Map
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._plan_report import Document

#: What is not on the screen is laid out when it comes there, so that many plans cost no more than those that are seen.
PLAN_STYLE = """
section { margin: 1.5rem 0; padding-top: .8rem; border-top: 1px solid var(--line); content-visibility: auto;
  contain-intrinsic-size: auto 50rem; }
section h3 { margin: 1rem 0 .3rem; font-size: 1rem; }
section h2 { margin: 0; overflow-wrap: anywhere; }
section table { width: auto; margin: .5rem 0; } section td, section th { text-align: left; }
section th:first-child { width: auto; font-weight: 600; }
pre { overflow-x: auto; font: .85rem/1.35 ui-monospace, monospace; }
@media print { section { content-visibility: visible; } }
"""
SCRIPT = """
const cards = [...document.querySelectorAll('[data-hosts]')];
const form = document.querySelector('form');
function filter() {
  const name = form.host.value.trim().toLowerCase();
  let shown = 0;
  for (const card of cards) {
    const found = card.dataset.hosts.split(' ').filter(host => host.includes(name)).length;
    card.hidden = !found;
    if (!card.matches('section > *')) shown += found;
  }
  document.querySelector('output').textContent = `${shown} of ${form.dataset.all} hosts`;
}
form.addEventListener('input', filter);
form.addEventListener('submit', event => event.preventDefault());
form.hidden = false;
filter();
"""
COLUMNS = {"name": "Instance", "cpus": "CPUs", "draft_cpus": "CPUs of its draft", "nodes": "Nodes", "url": "Address"}


def render(document: Document) -> str:
    """Return the page."""
    document = _plain.document(document)
    return _html_page.page(
        f"Plans: {summary(document)}", STYLE + _map_assets.STYLE + PLAN_STYLE, SCRIPT, _body(document)
    )


def summary(document: Document) -> str:
    """Return the one line on the fleet."""
    without = sum(len(error["hosts"]) for error in document["errors"])
    plans = words.number(len(document["plans"]), "different plan")
    return f"{words.number(document['hosts'], 'host')}: {plans}{f', {without} without a plan' if without else ''}."


def _body(document: Document) -> Iterator[str]:
    yield f'<h1>Plans</h1><p class="headline">{escape(summary(document))}</p>'
    yield f'<p class="faint"><time>{escape(document["generated"])}</time>. Hosts with the same map are drawn once.</p>'
    if not document["hosts"]:
        yield "<p>No host was asked, so nothing is known.</p>"
    yield _map_assets.legend(any(domain["ways"] for plan in document["plans"] for domain in plan["map"]["domains"]))
    yield f'<form hidden data-all="{document["hosts"]}">'
    yield '<label>Host <input name="host" type="search" autocomplete="off"></label><output></output></form>'
    for error in document["errors"]:
        yield f'<article class="{error["state"]}" data-hosts="{_html_page.hosts(error)}">'
        yield f"<h3>{SHAPES['drift']} {error['state']}: {escape(words.named(error))}</h3>"
        yield f"<p>{escape(error['task'])}: {escape(error['message'])}</p></article>"
    for svg, plans in _drawings(document["plans"]):
        yield from _drawing(svg, plans)


def _drawings(plans: Sequence[Document]) -> list[tuple[str, list[Document]]]:
    """Return each drawing with the plans that have it: instances and notes that differ need no map of their own."""
    drawings: dict[tuple[str, str], list[Document]] = {}
    for plan in plans:
        drawings.setdefault((_map_svg.render(plan["map"]), plan["map"]["kernel"]), []).append(plan)
    return [(svg, members) for (svg, dummy), members in drawings.items()]


def _drawing(svg: str, plans: Sequence[Document]) -> Iterator[str]:
    data = plans[0]["map"]
    names = sorted((name for plan in plans for name in plan["hosts"]), key=natural)
    group = {"hosts": names, "label": fold(names)}
    yield f'<section data-hosts="{_html_page.hosts(group)}"><h2>{escape(words.named(group))}</h2>'
    yield f"<p>{escape(data['model'])}, Linux {escape(data['kernel'])}<br>"
    yield f'<span class="faint">{escape(data["parts"])}</span></p>'
    yield _roles(data)
    yield svg
    for plan in plans:
        yield f'<div data-hosts="{_html_page.hosts(plan)}">'
        if len(plans) > 1:
            yield f"<h3>{escape(words.named(plan))}</h3>"
        yield from _instances(plan["map"])
        if plan["map"]["notes"]:
            yield f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in plan['map']['notes'])}</ul>"
        text = "\n".join(plan["lines"])
        yield f"<details><summary>The plan as text</summary><pre>{escape(text)}</pre></details></div>"
    yield "</section>"


def _roles(data: Map) -> str:
    rows = (
        f'<dt class="roles"><b class="{letter}">{letter}</b>{role}</dt><dd>CPUs {escape(data["roles"][role])}</dd>'
        for role, letter in LETTERS.items()
        if role in data["roles"]
    )
    return f"<dl>{''.join(rows)}</dl>"


def _instances(data: Map) -> Iterator[str]:
    if data["instances"]:
        used = {key: title for key, title in COLUMNS.items() if any(row[key] for row in data["instances"])}
        yield f"<table><thead><tr>{''.join(f'<th>{title}</th>' for title in used.values())}</tr></thead><tbody>"
        for row in data["instances"]:
            yield f"<tr>{''.join(f'<td>{escape(row[key])}</td>' for key in used)}</tr>"
        yield "</tbody></table>"
