# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which settings are raced next, and what a run says of its time before it begins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents.run_document import new_run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import MeasuringRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.planning.costs import Costs
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.planning.expected_costs import find_expected_costs
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.planning.objectives import RequestedObjectives
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.planning.precision import ASSUMED_NOISE
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.planning.race import Question, RaceRules
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.planning.time_plan import TimePlan
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import fingerprint, knob
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured, measured

PASSES = {schedule.LIVE: 1, schedule.RESTART: 1}
SETTINGS = {"speculation": schedule.RESTART, "memory policy": schedule.RESTART, "threads": schedule.RESTART} | {
    f"live {at}": schedule.LIVE for at in range(8)
}


def rules(start_s: float = 45, pass_s: float = 35) -> RaceRules:
    return RaceRules(Costs(start_s, pass_s), ASSUMED_NOISE, PASSES, 0.0013, 0.02)


def names(questions: list[Question]) -> list[str]:
    return [question.name for question in questions]


LARGE = Question("speculation", schedule.RESTART, 0.25)
MIDDLE = Question("threads", schedule.RESTART, -0.08)
SMALL = Question("boost", schedule.LIVE, 0.03)


def test_the_race_with_the_most_effect_per_second_is_next() -> None:
    assert names(rules().choose_questions_of_next_round([SMALL, MIDDLE, LARGE], 1e6)) == ["speculation", "threads"]
    assert names(rules().choose_questions_of_next_round([SMALL], 1e6)) == ["boost"]
    # A small effect of a setting that needs no start of its own is cheaper than one that needs many.
    assert names(
        rules(start_s=900).choose_questions_of_next_round([SMALL, Question("NUMA", schedule.RESTART, 0.03)], 1e6)
    ) == ["boost"]


def test_with_little_time_only_the_dearest_question_is_asked() -> None:
    both = rules().estimate_seconds_to_decide([LARGE, MIDDLE])
    assert names(rules().choose_questions_of_next_round([MIDDLE, LARGE], both - 1)) == ["speculation"]
    assert rules().choose_questions_of_next_round([MIDDLE, LARGE], 3 * 80 - 1) == []
    assert rules().choose_questions_of_next_round([], 1e6) == []


def test_smaller_effects_need_more_rounds_and_earlier_rounds_count() -> None:
    assert rules().estimate_rounds_to_decide(MIDDLE) < rules().estimate_rounds_to_decide(
        Question("x", schedule.RESTART, 0.03)
    )
    begun = Question("threads", schedule.RESTART, 0.08, rounds=5)
    assert rules().estimate_rounds_to_decide(begun) == rules().estimate_rounds_to_decide(MIDDLE) - 5
    assert rules().estimate_rounds_to_decide(Question("threads", schedule.RESTART, 0.08, rounds=99)) == 1


def plan(start_s: float = 45, pass_s: float = 35) -> TimePlan:
    return TimePlan(SETTINGS, rules(start_s, pass_s), schedule.RESTART)


def test_more_time_settles_more_settings_the_dearest_first() -> None:
    counts = [plan().count_settled_settings(60.0 * minutes) for minutes in (30, 100, 150, 240)]
    assert counts == sorted(counts) and counts[0] == 0 < counts[1] < len(SETTINGS) == counts[-1]
    said = plan().describe_settled_settings(100 * 60)
    assert said.startswith("A start takes 45 s and a pass 35 s. 100 min probably settle speculation")
    assert "settle the rest too: " in said and said.index("speculation") < said.index("live 0")
    assert "(as in the run of yesterday)" in plan().describe_settled_settings(100 * 60, "as in the run of yesterday")
    assert "probably settle all 11 settings (speculation, " in plan().describe_settled_settings(86400)
    alone = TimePlan({"threads": schedule.RESTART}, rules(45, 35), schedule.RESTART)
    assert "24 h 00 min probably settle threads, in about " in alone.describe_settled_settings(86400)


def test_a_time_that_cannot_confirm_is_refused_with_the_minutes_that_it_takes() -> None:
    large = plan(90, 203)
    assert large.shortage_message(240 * 60, 0) == ""
    said = large.shortage_message(60 * 60, 300)
    assert said.startswith("Not enough time: a start takes 90 s and a pass 3 min, so that 10 rounds of stock and tuned")
    assert "Give at least 113 minutes; " in said
    assert TimePlan(SETTINGS, rules(), None).shortage_message(1, 0) == ""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    with measured(tmp_path, monkeypatch) as host:
        yield host


def test_costs_are_those_of_the_last_run_or_predicted(here: Measured, tmp_path: Path) -> None:
    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.target.measured_instance import (
        find_llama_instance,
    )

    request, host = MeasuringRequest({"streams": []}), here.host()
    target = find_llama_instance(host, "chat", 9)
    expected = find_expected_costs(str(tmp_path), host, target, request, [])
    assert expected is not None and expected[1].startswith("predicted from ")
    assert expected[0].pass_s > 0 and expected[0].start_s > 5
    document = new_run_document(
        "r", "chat", "2026-11-30T00:00:00Z", 1, fingerprint(), schedule.build_ablation_arms([knob("boost")])
    )
    document["plan"]["costs"] = {"restart": {"pass_s": 35.0, "start_s": 45.0}}
    (tmp_path / "chat-20261130T000000Z.json").write_text(json.dumps(document))
    (tmp_path / "chat-20261130T000001Z.json").write_text("{")
    (found, source) = find_expected_costs(str(tmp_path), host, target, request, []) or (Costs(0, 0), "")
    assert (found.pass_s, found.start_s, source) == (35, 45, "as in the run of 2026-11-30T00:00:00Z")


def test_objectives_that_are_asked_for() -> None:
    assert RequestedObjectives({}).to_plan() == {
        "objective": "latency",
        "objectives": ["latency", "prompt"],
        "zone": 0.02,
    }
    assert RequestedObjectives({"objective": "energy", "streams": [4]}).objectives == [
        "energy",
        "latency",
        "prompt",
        "throughput",
    ]
    for wrong in ({"objective": "speed"}, {"smallest": 0.0}):
        with pytest.raises(BadRequest, match=r"no objective speed|smallest is 0"):
            RequestedObjectives(wrong)


def test_throughput_is_measured_with_as_many_streams_as_slots() -> None:
    asked = RequestedObjectives({"objective": "throughput"})
    request = MeasuringRequest({"streams": []})
    asked.set_streams_to_slots_for_throughput(request, 8)
    assert request.streams == [8]
    named = MeasuringRequest({"streams": [4]})
    asked.set_streams_to_slots_for_throughput(named, 8)
    assert named.streams == [4]
    with pytest.raises(BadRequest, match="has one slot"):
        asked.set_streams_to_slots_for_throughput(MeasuringRequest({"streams": []}), 1)
