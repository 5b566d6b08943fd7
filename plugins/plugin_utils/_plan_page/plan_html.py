# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plans of a fleet as one HTML page, which needs no network, and can be read without its script."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.words import natural_sort_key
from ansible_collections.sovereign.epyc.plugins.module_utils._host.map_data import LETTERS
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import frame, map_drawing, map_style
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.hostnames import fold_host_names
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element, join_html_lines
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.style import STATUS_MARKS, STYLE
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import (
    count_with_noun,
    format_host_group,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.map_drawing import Map
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._plan_page.fleet_plans import Document

#: A browser lays out a plan only when the plan comes into view, so that a page of many plans opens fast.
PLAN_STYLE = """
section { margin: 1.5rem 0; padding-top: .8rem; border-top: 1px solid var(--line); content-visibility: auto;
  contain-intrinsic-size: auto 50rem; }
section h3 { margin: 1rem 0 .3rem; font-size: 1rem; }
section h2 { margin: 0; overflow-wrap: anywhere; } article h2 { margin: 0; font-size: 1rem; }
.instances { display: block; } .instances dt { margin-top: .5rem; color: var(--text); font-weight: 600; }
.instances dd { margin-left: 1rem; }
pre { font: .85rem/1.35 ui-monospace, monospace; }
@media print { section { content-visibility: visible; } }
"""
SCRIPT = """
const cards = [...document.querySelectorAll('[data-hosts]')];
const form = document.querySelector('form');
function filter() {
  const name = form.host.value.trim().toLowerCase();
  let shown = 0;
  for (const card of cards) {
    const matching = card.dataset.hosts.split(' ').filter(host => host.includes(name)).length;
    card.hidden = !matching;
    if (!card.matches('section *')) shown += matching;
  }
  document.querySelector('output').textContent = `${shown} of ${form.dataset.all} hosts`;
}
form.addEventListener('input', filter);
form.addEventListener('submit', event => event.preventDefault());
form.hidden = false;
filter();
"""
#: Field of an instance -> the line about it.
INSTANCE_LINES = {"cpus": "CPUs {}", "draft_cpus": "draft on CPUs {}", "nodes": "memory of nodes {}", "url": "{}"}
#: Fields of a map in which hosts with the same plan may differ.
BESIDE_PLAN = ("kernel", "instances", "notes", "faults")


def render_plan_page(document: Document) -> str:
    """Return the HTML page of the document of a PlanCollector."""
    style = STYLE + map_style.MAP_STYLE + PLAN_STYLE
    return frame.render_page(f"Plans: {format_plan_counts(document)}", style, SCRIPT, _render_body(document))


def format_plan_counts(document: Document) -> str:
    """Return the line that counts hosts, different plans and hosts without a plan."""
    without = sum(len(error["hosts"]) for error in document["errors"])
    different = len(_group_by_plan(document["plans"]))
    plans = "1 plan" if different == 1 else count_with_noun(different, "different plan")
    return f"{count_with_noun(document['hosts'], 'host')}: {plans}{f', {without} without a plan' if without else ''}."


def _render_body(document: Document) -> Iterator[Html]:
    yield element("h1", "Plans")
    yield element("p", format_plan_counts(document), class_="headline")
    generated = element("time", document["generated"])
    yield element(
        "p", generated, ". Hosts with the same plan are drawn once; their instances may differ.", class_="faint"
    )
    yield map_style.render_legend(
        any(domain["ways"] for plan in document["plans"] for domain in plan["map"]["domains"])
    )
    host = element("label", "Host ", element("input", name="host", type="search", autocomplete="off"))
    yield element("form", host, element("output"), hidden=True, data_all=document["hosts"])
    for error in document["errors"]:
        yield element(
            "article",
            element("h2", f"{STATUS_MARKS['drift']} {error['state']}: {format_host_group(error)}"),
            element("p", f"{error['task']}: {error['message']}"),
            class_=error["state"],
            data_hosts=frame.searchable_host_names(error),
        )
    for plans in _group_by_plan(document["plans"]):
        yield _render_hosts_of_plan(plans)


def _group_by_plan(rows: Sequence[Document]) -> list[list[Document]]:
    """Return the rows of hosts grouped by the same CPUs, caches and memory; the rest of the hosts may differ."""
    groups: dict[str, list[Document]] = {}
    for row in rows:
        planned = {key: value for key, value in row["map"].items() if key not in BESIDE_PLAN}
        groups.setdefault(json.dumps(planned, sort_keys=True), []).append(row)
    return list(groups.values())


def _render_hosts_of_plan(plans: Sequence[Document]) -> Html:
    data = plans[0]["map"]
    names = sorted((name for plan in plans for name in plan["hosts"]), key=natural_sort_key)
    group = {"hosts": names, "label": fold_host_names(names)}
    kernels = sorted({plan["map"]["kernel"] for plan in plans}, key=natural_sort_key)
    words = [
        _render_cpus_by_role(data),
        *(_render_plan(plan, _format_plan_title(plan, kernels) if len(plans) > 1 else "") for plan in plans),
    ]
    return element(
        "section",
        element("h2", format_host_group(group)),
        element("p", f"{data['model']}, Linux {', '.join(kernels)}"),
        element("p", data["parts"], class_="faint"),
        *(fault for plan in plans for fault in _render_faults(plan, len(plans) > 1)),
        element("div", map_drawing.render_scrolling_map(data), element("div", *words), class_="columns"),
        data_hosts=frame.searchable_host_names(group),
    )


def _format_plan_title(plan: Document, kernels: Sequence[str]) -> str:
    """Return the hosts of a plan, with their kernel where the hosts of the section have several."""
    kernel = f", Linux {plan['map']['kernel']}" if len(kernels) > 1 else ""
    return f"{format_host_group(plan)}{kernel}"


def _render_faults(plan: Document, names_hosts: bool) -> list[Html]:
    """Return a paragraph for each fault of the hosts of a plan, with the hosts where other plans are in the section."""
    hosts = f"{format_host_group(plan)}: " if names_hosts else ""
    return [
        element(
            "p", f"{STATUS_MARKS['drift']} {hosts}{fault}", class_="drift", data_hosts=frame.searchable_host_names(plan)
        )
        for fault in plan["map"]["faults"]
    ]


def _render_plan(plan: Document, title: str) -> Html:
    """Return the instances, notes and text of a plan. ``title`` names its hosts, and may be ""."""
    notes = [element("li", note) for note in plan["map"]["notes"]]
    text = join_html_lines(plan["lines"])
    parts = [
        *([element("h3", title)] if title else []),
        *_render_instances(plan["map"]),
        *([element("ul", *notes)] if notes else []),
        element(
            "details",
            element("summary", "The plan as text"),
            frame.scrolling_box(element("pre", text), "The plan as text"),
        ),
    ]
    return element("div", *parts, data_hosts=frame.searchable_host_names(plan))


def _render_cpus_by_role(data: Map) -> Html:
    rows = [
        part
        for role, letter in LETTERS.items()
        if role in data["roles"]
        for part in (
            element("dt", element("b", letter, class_=letter), role, class_="roles"),
            element("dd", f"CPUs {data['roles'][role]}"),
        )
    ]
    return element("dl", *rows)


def _render_instances(data: Map) -> Iterator[Html]:
    if data["instances"]:
        rows: list[Html] = []
        for instance in data["instances"]:
            lines = [line.format(instance[key]) for key, line in INSTANCE_LINES.items() if instance[key]]
            rows += [element("dt", instance["name"]), *(element("dd", line) for line in lines)]
        yield element("dl", *rows, class_="instances")
