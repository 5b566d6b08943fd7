# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No text of a document is markup on any page: texts go through one door, and each kind of page is tried."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import drift_html, fleet_report, schema
from ansible_collections.sovereign.epyc.plugins.plugin_utils._host_data import Malformed
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import frame, html, map_schema
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element, join_html_lines
from ansible_collections.sovereign.epyc.plugins.plugin_utils._plan_page import fleet_plans, plan_html
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import run_page
from ansible_collections.sovereign.epyc.plugins.plugin_utils._serving_page import serving_html
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents, fleets, plans
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils.hostile_texts import (
    HOSTILE,
    assert_only_texts_differ,
    spoil_texts,
)

PLUGINS = Path(html.__file__).parents[2]


def test_a_text_is_escaped_and_markup_is_not() -> None:
    inside = element("b", "<i>", class_="x")
    assert element("p", inside, " & ", 5, data_hosts='"\u202e') == (
        '<p data-hosts="&#34;\\u202e"><b class="x">&lt;i&gt;</b> &amp; 5</p>'
    )
    assert element("input", name="host", hidden=True, id=None, checked=False) == '<input name="host" hidden>'
    assert join_html_lines([inside, "<u>\x1b"]) == f"{inside}\n&lt;u&gt;\\x1b"


def test_an_f_string_of_markup_is_escaped_again() -> None:
    inside = element("b", "x")
    assert element("p", f"{inside}") == "<p>&lt;b&gt;x&lt;/b&gt;</p>"
    assert element("p", "<i>" + inside) == element("p", "<i>", inside)
    assert element("p", Markup("<i>")) == "<p>&lt;i&gt;</p>", "markup of others is none here"


def test_a_body_that_nobody_escaped_is_shown_as_a_text() -> None:
    page = frame.render_page("<title>", "", "", ["<b>", Html("<i>")])  # type: ignore[list-item]  # the fault that is tried
    assert "<title>&lt;title&gt;</title>" in page and "<main>&lt;b&gt;\n<i></main>" in page


def test_only_two_files_make_markup() -> None:
    """Everything else builds elements, so that nobody has to remember to escape."""
    makes = re.compile(r"\bHtml\(|\bmarkupsafe\b|\bfrom html\b")
    makers = [path for path in PLUGINS.rglob("*.py") if makes.search(path.read_text())]
    assert sorted(path.name for path in makers) == ["frame.py", "html.py"]


@pytest.mark.parametrize("connect", ["", "http://prometheus.example.com:9090"])
def test_the_policy_of_a_page_forbids_network_and_foreign_scripts(connect: str) -> None:
    page = frame.render_page("x", "", "", [], connect)
    policy = page.partition('Content-Security-Policy" content="')[2].partition('"')[0].replace("&#39;", "'")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.pop("script-src").startswith("'sha256-")
    assert rules == {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "base-uri": "'none'",
        "form-action": "'none'",
        **({"connect-src": connect} if connect else {}),
    }


def passes(check: Callable[[Any], Any], *errors: type[Exception]) -> Callable[[Any], bool]:
    """Return whether the reader of documents accepts one."""

    def accepted(data: Any) -> bool:
        try:
            check(data)
        except errors:
            return False
        return True

    return accepted


@pytest.mark.parametrize(
    ("make", "at_least"),
    [
        (bench_documents.ablation, 180),
        (bench_documents.unconfirmed, 165),
        (bench_documents.benchmark, 20),
        (bench_documents.tuning, 15),
    ],
)
def test_the_run_page_escapes_texts_of_documents(make: Callable[[], dict[str, Any]], at_least: int) -> None:
    honest = make()
    hostile = spoil_texts(honest, passes(run_document.validate_document, BadRequest))
    assert_only_texts_differ(run_page.render_run_page(honest), run_page.render_run_page(hostile), at_least)


def test_each_cell_of_a_tuning_is_a_text() -> None:
    honest = bench_documents.tuning()
    page = run_page.render_run_page(spoil_texts(honest, passes(run_document.validate_document, BadRequest)))
    rows = page.partition("<h2>Candidates</h2>")[2].partition("<tbody>")[2].partition("</table>")[0]
    assert rows.count('<tr><th scope="row">&lt;img') == 3, "the names of the candidates are hostile"


def test_the_drift_page_escapes_texts_of_hosts() -> None:
    def fleet(spoil: Callable[[Any, Callable[[Any], bool]], Any]) -> fleet_report.Document:
        document = None
        for generated, faults in ((fleets.BEFORE, ("mask", "pages")), (fleets.NOW, ("mask", "grub", "msr"))):
            gathering = fleets.gathered({"a": ()})
            findings, coverage = fleets.answer(*faults)
            findings = spoil(findings, passes(lambda data: schema.validate_findings_and_counts(data, {}), Malformed))
            host_map = spoil(plans.result("9354", 2)["map"], passes(map_schema.validate_host_map, Malformed))
            names = spoil(["failed-1", "task", "message", "host-1", "gone-1"], lambda data: True)
            gathering.record_host_failure(names[0], fleet_report.FAILED, names[1], names[2])
            gathering.add_findings_counts_and_map(names[3], findings, coverage, host_map)
            gathering.record_host_failure(names[4], fleet_report.UNREACHABLE, names[1], names[2])
            if generated == fleets.BEFORE:
                gathering.add_findings_counts_and_map(names[4], findings, coverage)
            document = gathering.build_document(generated=generated, previous=document, inventory=names[:1])
        assert document is not None
        return document

    honest, hostile = fleet(lambda data, accepts: data), fleet(spoil_texts)
    assert honest["gone"] and honest["maps"] and any("last_known" in row for row in honest["hosts"])
    assert_only_texts_differ(drift_html.render_drift_html_page(honest), drift_html.render_drift_html_page(hostile), 35)


def test_the_plan_page_escapes_texts_of_hosts() -> None:
    def fleet(spoil: Callable[[Any, Callable[[Any], bool]], Any]) -> fleet_plans.Document:
        gathering = fleet_plans.PlanCollector()
        names = spoil(["host-1", "host-2", "gone-1", "task", "message"], lambda data: True)
        for name, instances in zip(names, (1, 2)):
            answer = plans.result("9354", instances)
            answer["map"]["notes"] = ["a note"]
            host_map = spoil(answer["map"], passes(map_schema.validate_host_map, Malformed))
            gathering.add_plan(name, {"map": host_map, "text": f"{answer['text']}\n{HOSTILE}"})
        gathering.record_host_failure(names[2], fleet_plans.FAILED, names[3], names[4])
        return gathering.build_document(plans.NOW)

    honest, hostile = fleet(lambda data, accepts: data), fleet(spoil_texts)
    assert_only_texts_differ(plan_html.render_plan_page(honest), plan_html.render_plan_page(hostile), 30)


def test_the_serving_page_accepts_a_url_only() -> None:
    with pytest.raises(BadRequest):
        serving_html.render_serving_page(f"http://one/{HOSTILE}")
