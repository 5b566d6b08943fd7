# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The course of a tuning on a host with hidden effects: what it finds, proves, rejects, and how it ends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._ablation.arm_switch import InstanceVariant
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import MeasuringRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports import run_report
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import measured_rounds, schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.confidence_interval import (
    confidence_interval,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.tuning_result import TuningResult
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._tuning import tuning
from ansible_collections.sovereign.epyc.plugins.module_utils._tuning.search_space import SearchSpace
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured, measured
from ansible_collections.sovereign.epyc.tests.unit.fakes.simulated import Simulated

RAW = {"name": "chat", "model": "/srv/model.gguf", "port": 8080}


class Planner:
    """Stands for the planner. ``refused`` are values that cannot be."""

    refused: tuple[Any, ...] = ()

    def __init__(self, host: object, raw: Mapping[str, Any], target: Any) -> None:
        assert raw == RAW
        self.service = self.default = InstanceVariant(None, [])

    def build_variant(self, options: Mapping[str, Any], name: str) -> InstanceVariant:
        if set(self.refused) & set(options.values()):
            raise BadRequest("threads is 16, and there are 8 cores.")
        return InstanceVariant("[Service]", [])

    def capabilities_of(self, service: object) -> None:
        """No capability is asked for."""


def space(service: object, host: object, server: object) -> SearchSpace:
    found = SearchSpace()
    found.add_option_with_other_values("threads", 8, (4, 8, 16))
    found.add_option_with_other_values("ngram_max", 8, (4, 8, 16))
    return found


def level(arm: Mapping[str, Any]) -> float:
    """16 threads are better, 4 are worse, the rest does nothing."""
    return {4: -0.2, 8: 0.0, 16: 0.1}[arm["options"].get("threads", 8)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measured]:
    monkeypatch.setattr(tuning, "Candidates", Planner)
    monkeypatch.setattr(tuning, "build_search_space", space)
    monkeypatch.setattr(Planner, "refused", ())
    with measured(tmp_path, monkeypatch) as host:
        yield host


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Simulated:
    one = Simulated(level)
    one.take_over(monkeypatch)
    return one


def run(here: Measured, path: str | None = None, **options: Any) -> tuple[dict[str, Any], TuningResult]:
    told: list[str] = []
    wanted = tuning.TuningRequest({"instance": RAW, "seed": 1, **options})
    path, data = tuning.run_tuning(here.host(), MeasuringRequest({"streams": [], "output": path}), wanted, told.append)
    assert json.loads(Path(path).read_text()) == data == run_document.validate_document(data)
    assert told[-1] == "it puts all back"
    return data, TuningResult(data)


def test_it_finds_what_is_faster_and_proves_it_on_fresh_rounds(here: Measured, simulated: Simulated) -> None:
    data, found = run(here)
    tuned = found.to_tuned_options()
    assert tuned["options"]["threads"] == 16 and tuned["run"] == data["id"]
    # A request is also the time of its prompt, which no option changes here.
    assert 1.03 < tuned["low"] < tuned["ratio"] < tuned["high"] < 1.1
    assert tuned["measured_on"]["kernel"] == data["fingerprint"]["kernel"]
    assert simulated.put_back == 1 and simulated.begun == ["llama-chat.service"]
    text = run_report.render_run_report(data)
    first = r"Tuning of chat: [67]\.\d % faster than the default \([56]\.\d to [78]\.\d %\) with threads 16"
    assert re.match(first, text)
    assert all(len(line) <= 100 for line in text.splitlines())
    phases = [one["phase"] for one in data["plan"]["order"]]
    assert phases[:2] == [schedule.PROBE, schedule.SWEEP] and phases[-1] == schedule.CONFIRMATION
    assert found.median_prediction_error() is not None and found.median_prediction_error() < 0.05


def test_where_nothing_is_faster_the_default_stays(here: Measured, simulated: Simulated, tmp_path: Path) -> None:
    """No confirmation is worth its time where nothing seems 2 percent better."""
    simulated.level = lambda arm: 0.0
    claims = 0
    for seed in range(4):
        simulated.draw.seed(seed)
        data, found = run(here, seed=seed, path=str(tmp_path / f"run-{seed}.json"))
        claims += bool(found.to_tuned_options())
        text = run_report.render_run_report(data)
        assert found.to_tuned_options() or found.faults or "nothing that was tried seems more than 2 %" in text
    assert claims == 0


def test_a_gain_that_costs_another_metric_is_not_taken(here: Measured, simulated: Simulated) -> None:
    data, found = run(here)
    assert found.best
    for one in data["samples"]:
        if one["arm"] == found.best["name"]:
            one["prompt_ms"] *= 1.5
            one["predicted_ms"] /= 1.5
    altered = TuningResult(data)
    assert altered.best == found.best and altered.to_tuned_options() == {}
    first = run_report.render_run_report(data)
    assert re.match(r"Tuning of chat: mixed, so the default stays: [^$]* but\s+prefill loses 0\.67", first)


def test_the_gain_and_the_twin_share_the_error_level(here: Measured, simulated: Simulated) -> None:
    data, found = run(here)
    fresh = [one for one in found.rounds if one.phase == schedule.CONFIRMATION]
    for comparison, arm, anchor in (
        (found.gain, schedule.DEFAULT, found.best["name"] if found.best else ""),
        (found.twins[schedule.RESTART], schedule.AGAIN, schedule.DEFAULT),
    ):
        ratios = measured_rounds.log_ratios_of_counting_rounds(fresh, arm, measured_rounds.WHOLE_REQUEST, anchor)
        expected = confidence_interval(ratios, data["plan"]["alpha"] / 2)
        assert comparison and comparison.interval and expected
        assert comparison.interval.to_ratios() == expected.to_ratios()


def test_what_the_planner_refuses_is_rejected_and_costs_no_round(here: Measured, simulated: Simulated) -> None:
    Planner.refused = (16,)
    data, found = run(here)
    assert found.to_tuned_options() == {}
    assert "threads is 16" in data["plan"]["rejected"]["candidate 2"]
    assert not any(one["arm"] == "candidate 2" for one in data["samples"])
    assert "threads 16: threads is 16, and there are 8 cores." in run_report.render_run_report(data)


def test_a_candidate_that_does_not_start_is_rejected(here: Measured, simulated: Simulated) -> None:
    simulated.broken["candidate 2"] = TuningError("llama-chat.service failed")
    data, found = run(here)
    assert data["plan"]["rejected"]["candidate 2"] == "llama-chat.service failed"
    assert sum("candidate 2" in one["arms"] for one in data["plan"]["order"]) == 1
    assert [one.discard_reason for one in found.rounds if one.discard_reason] == [
        "candidate 2 has no sample of prose with 1 stream"
    ]


def test_void_rounds_end_it_and_all_is_put_back(here: Measured, simulated: Simulated) -> None:
    simulated.void = "somebody else computes"
    with pytest.raises(
        TuningError, match=r"10 rounds in a row do not count; .*somebody else computes\. All was put back"
    ):
        run(here)
    assert simulated.put_back == 1


def test_a_default_that_does_not_start_ends_it(here: Measured, simulated: Simulated) -> None:
    simulated.broken[schedule.DEFAULT] = TuningError("it died")
    with pytest.raises(TuningError, match="default cannot be measured: it died"):
        run(here)


def test_a_run_that_could_not_put_all_back_proves_nothing(here: Measured, simulated: Simulated) -> None:
    data = run(here)[0]
    data["restored"] = False
    assert TuningResult(data).to_tuned_options() == {} and "is not sound" in run_report.render_run_report(data)


def test_a_check_says_what_would_be_tried(here: Measured) -> None:
    name, text = tuning.describe_planned_tuning(
        here.host(), MeasuringRequest({}), tuning.TuningRequest({"instance": RAW})
    )
    assert name == "chat" and "threads 4, 8, 16 (it is 8); ngram_max 4, 8, 16 (it is 8)." in text


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"options": ["context"]}, "context cannot be tried for this instance; here are threads, ngram_max"),
        ({"minutes": 0}, r"minutes: 0 is out of range; give at least 0\.1"),
        ({"seed": -1}, "seed: -1 is out of range"),
        ({"options": []}, "has no option that may be tried"),
    ],
)
def test_invalid_requests_are_refused(here: Measured, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        run(here, **options)
