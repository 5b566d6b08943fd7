# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every kind of page that the collection writes, with a document as hosts, models and files of others make one.

The page of what is served has no document: its texts come from Prometheus while it is open.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity import host_facts, rendering
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.capacity_request import parse_capacity_request
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import drift_html, schema, task_results
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import ResultCollector
from ansible_collections.sovereign.epyc.plugins.plugin_utils._host_data import (
    Malformed,
    make_report_despite_unreadable_hosts,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import map_schema
from ansible_collections.sovereign.epyc.plugins.plugin_utils._plan_page import plan_html
from ansible_collections.sovereign.epyc.plugins.plugin_utils._plan_page.fleet_plans import FAILED, PlanCollector
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import comparison_page, run_page
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import (
    bench_documents,
    capacity_facts,
    fleets,
    plans,
)

#: What a page, or the filter that makes it, may end with instead of a page.
REFUSALS = (BadRequest, Malformed)
#: The page whose texts come from Prometheus.
LIVE = "_serving_page/serving_html.py"
TASK, MODULE = "Check the host", "sovereign.epyc.epyc_drift_info"


class PageCase(NamedTuple):
    """A kind of page: the file that writes it, its document, and the least number of texts of others that it shows."""

    file: str
    document: Callable[[], Any]
    require_valid: Callable[[Any], object]
    render: Callable[[Any], str]
    shown_texts: int


def _render_comparison(documents: list[Any]) -> str:
    return comparison_page.render_comparison_page(comparison_page.compare_runs(documents))


def _capacity_document() -> dict[str, Any]:
    facts = dict(capacity_facts.example_fleet())
    # A host that was measured, one with two tenants, and one with a mixture of experts.
    return {name: facts[f"{name}.example.com"] for name in ("epyc9754-01", "epyc9354-01", "epyc9655-01")}


def _require_valid_facts(document: dict[str, Any]) -> None:
    for facts in document.values():
        host_facts.require_host_facts(facts)


def _render_capacity(document: dict[str, Any]) -> str:
    hosts = {}
    for name, fresh in document.items():
        facts, reason = host_facts.choose_host_facts(fresh, "/no/file")
        hosts[name] = {"facts": facts, "reason": reason}
    fleet = rendering.compute_fleet_capacity(hosts, parse_capacity_request(7, None, {"interactive": 99}))
    return str(rendering.render_capacity(fleet, datetime(2026, 11, 30, 10, tzinfo=UTC))["page"])


def _drift_document() -> dict[str, Any]:
    previous = fleets.report({"host-1": ("mask", "pages"), "gone-1": ("msr",)}, generated=fleets.BEFORE)
    findings, coverage = fleets.answer("mask", "grub", "msr")
    answer = {"findings": findings, "coverage": coverage, "map": plans.result("9354", 2)["map"]}
    return {"previous": previous, "hosts": {"host-1": answer}, "failed": {"failed-1": "No route", "gone-1": "Lost"}}


def _require_keys(document: dict[str, Any], *keys: str) -> None:
    """Raise Malformed where a key of ours was replaced, which is no text of others."""
    if sorted(document) != sorted(keys):
        raise Malformed(f"the keys are {', '.join(map(ascii, document))}")


def _require_valid_answers(document: dict[str, Any]) -> None:
    _require_keys(document, "previous", "hosts", "failed")
    schema.validate_previous_report(document["previous"])
    for answer in document["hosts"].values():
        _require_keys(answer, "findings", "coverage", "map")
        schema.validate_findings_and_counts(answer["findings"], answer["coverage"])
        map_schema.validate_host_map(answer["map"])


def _render_drift(document: dict[str, Any]) -> str:
    schema.validate_previous_report(document["previous"])
    collector = ResultCollector()
    for name, answer in document["hosts"].items():
        try:
            seen: Any = task_results.drift_result_to_findings(answer)
            collector.add_findings_counts_and_map(name, *seen)
        except Exception as error:
            seen = task_results.unreadable_result_finding(TASK, "", MODULE, error)
            collector.add_findings_counts_and_map(name, *seen)
    for name, message in document["failed"].items():
        collector.record_host_failure(name, FAILED, TASK, str(message))

    def render(collector: ResultCollector) -> str:
        previous = document["previous"]
        report = collector.build_document(generated=fleets.NOW, previous=previous, inventory=["inventories/x"])
        return drift_html.render_drift_html_page(report)

    return make_report_despite_unreadable_hosts(render, collector)


def _plan_document() -> dict[str, Any]:
    answers = {name: plans.result("9354", number) for number, name in enumerate(("host-1", "host-2"), 1)}
    for answer in answers.values():
        answer["map"].update(notes=["a note"], faults=["a fault"])
    return {"hosts": answers, "failed": {"failed-1": "No route"}}


def _require_valid_plans(document: dict[str, Any]) -> None:
    _require_keys(document, "hosts", "failed")
    for answer in document["hosts"].values():
        _require_keys(answer, "map", "text")
        map_schema.validate_host_map(answer["map"])


def _render_plans(document: dict[str, Any]) -> str:
    collector = PlanCollector()
    for name, answer in document["hosts"].items():
        collector.add_plan(name, answer)
    for name, message in document["failed"].items():
        collector.record_host_failure(name, FAILED, TASK, str(message))

    def render(collector: PlanCollector) -> str:
        return plan_html.render_plan_page(collector.build_document(plans.NOW))

    return make_report_despite_unreadable_hosts(render, collector)


def _run_case(document: Callable[[], Any], shown_texts: int) -> PageCase:
    validate, render = run_document.validate_document, run_page.render_run_page
    return PageCase("_run_page/run_page.py", document, validate, render, shown_texts)


PAGES = {
    "ablation": _run_case(bench_documents.ablation, 20),
    "benchmark": _run_case(bench_documents.benchmark, 8),
    "loads": _run_case(bench_documents.loads, 8),
    "tuning": _run_case(bench_documents.tuning, 8),
    "comparison": PageCase(
        "_run_page/comparison_page.py",
        lambda: [bench_documents.benchmark(), bench_documents.ablation()],
        lambda documents: [run_document.validate_document(document) for document in documents],
        _render_comparison,
        8,
    ),
    "capacity": PageCase("_capacity/rendering.py", _capacity_document, _require_valid_facts, _render_capacity, 8),
    "drift": PageCase("_drift_report/drift_html.py", _drift_document, _require_valid_answers, _render_drift, 8),
    "plan": PageCase("_plan_page/plan_html.py", _plan_document, _require_valid_plans, _render_plans, 8),
}


def is_valid(case: PageCase, document: Any) -> bool:
    """Return whether the reader of documents takes this one."""
    try:
        case.require_valid(document)
    except REFUSALS:
        return False
    return True
