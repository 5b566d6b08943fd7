# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import random
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._host_data import make_report_despite_unreadable_hosts
from ansible_collections.sovereign.epyc.plugins.plugin_utils._plan_page import plan_html
from ansible_collections.sovereign.epyc.plugins.plugin_utils._plan_page.fleet_plans import (
    FAILED,
    UNREADABLE,
    Document,
    PlanCollector,
)
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import plans

FLEET: dict[str, Any] = {
    "b-10": plans.result("9654"),
    "b-2": plans.result("9654"),
    "a-1": plans.result("9354", 1),
    "b-3": plans.result("9654"),
    "gone": None,
}


def test_equal_plans_are_stored_once_in_any_order_of_answers() -> None:
    document = plans.gathered(FLEET)
    assert [(plan["label"], len(plan["hosts"])) for plan in document["plans"]] == [("b-[2-3,10]", 3), ("a-1", 1)]
    assert [(one["state"], one["hosts"]) for one in document["errors"]] == [("unreachable", ["gone"])]
    assert plan_html.format_plan_counts(document) == "5 hosts: 2 different plans, 1 without a plan."
    for seed in range(5):
        names = random.Random(seed).sample(list(FLEET), len(FLEET))
        assert plans.gathered({name: FLEET[name] for name in names}) == document


def test_a_further_instance_makes_a_different_plan() -> None:
    document = plans.gathered({"a": plans.result("9354"), "b": plans.result("9354", 2)})
    assert len(document["plans"]) == 2
    page = plan_html.render_plan_page(document)
    assert page.count("<dt>model-0</dt>") == 1 and page.count("<dt>model-1</dt>") == 1
    assert page.count("<svg ") == 1, "they have the same map"
    assert "<h2>a, b (2 hosts)</h2>" in page and "<h3>a</h3>" in page and "<h3>b</h3>" in page


def test_a_malformed_answer_is_an_error_of_its_host_only() -> None:
    strange: list[dict[str, Any]] = [
        {},
        {"map": None, "text": ""},
        {"map": plans.result("9354")["map"]},
        {"map": {**plans.result("9354")["map"], "model": 5}, "text": ""},
        {"map": plans.result("9354")["map"], "text": ["x"]},
    ]
    gathering = PlanCollector()
    for number, answer in enumerate(strange):
        gathering.add_plan(f"strange-{number}", answer)
    gathering.add_plan("good", FLEET["a-1"])
    document = gathering.build_document(plans.NOW)
    assert {(one["state"], one["task"]) for one in document["errors"]} == {(FAILED, UNREADABLE)}
    assert sum(len(one["hosts"]) for one in document["errors"]) == len(strange)
    assert [plan["hosts"] for plan in document["plans"]] == [["good"]]
    assert "<h2>good</h2>" in plan_html.render_plan_page(document)


def test_an_exception_for_one_host_is_an_error_of_that_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """No such fault is known, so the page is made to fail on what one host answers."""
    draw = plan_html.render_plan_page

    def render(document: Document) -> str:
        if any(plan["map"]["model"] == "bad" for plan in document["plans"]):
            raise ZeroDivisionError("bad")
        return draw(document)

    monkeypatch.setattr(plan_html, "render_plan_page", render)
    gathering = PlanCollector()
    good, bad = plans.result("9354"), plans.result("9354")
    bad["map"]["model"] = "bad"
    for name, answer in {"a": good, "b": bad, "c": bad, "d": good}.items():
        gathering.add_plan(name, answer)
    gathering.record_host_failure("e", "unreachable", "Plan", "No route")
    document, page = make_report_despite_unreadable_hosts(
        lambda answers: (made := answers.build_document(plans.NOW), render(made)), gathering
    )
    assert [plan["hosts"] for plan in document["plans"]] == [["a", "d"]]
    assert [(one["task"], one["hosts"]) for one in document["errors"]] == [(UNREADABLE, ["b", "c"]), ("Plan", ["e"])]
    assert document["errors"][0]["message"] == "ZeroDivisionError: bad"
    assert "<h2>a, d (2 hosts)</h2>" in page


def test_control_characters_are_escaped_on_the_page() -> None:
    answer = plans.result("9354", 1)
    answer["map"]["model"] = "EPYC\x1b[31m\u202e\udc80"
    answer["map"]["instances"][0]["name"] = "<i>\u200b"
    answer["map"]["notes"] = ["Note: a\nb"]
    answer["text"] = "first\u202e\nsecond"
    page = plan_html.render_plan_page(plans.gathered({"evil\u202e<b>": answer}))
    page.encode()
    assert "EPYC\\x1b[31m\\u202e\\udc80" in page and "&lt;i&gt;\\u200b" in page
    assert "evil\\u202e&lt;b&gt;" in page and "Note: a\\nb" in page
    assert "first\\u202e\nsecond</pre>" in page
    assert all(char.isprintable() or char == "\n" for char in page)


def test_faults_of_the_memory_stand_above_the_map() -> None:
    slow, good = plans.result("9354"), plans.result("9354")
    slow["map"]["faults"] = ["This host reads 153 of 461 GB/s from its memory, 33%."]
    page = plan_html.render_plan_page(plans.gathered({"slow": slow, "good": good}))
    # Both hosts have one map, so that the fault names its host.
    fault = page.index("slow: This host reads 153 of 461 GB/s")
    assert fault < page.index("<svg")
    assert page.count("This host reads") == 1
