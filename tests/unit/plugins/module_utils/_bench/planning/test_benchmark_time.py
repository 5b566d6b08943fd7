# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a benchmark takes: predicted before it begins, and estimated anew after each answer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.prompts import Prompt
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import MeasuringRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.planning import token_times
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.planning.round_clock import RoundClock
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import Bench

#: 100 tokens of prompt, 50 of answer.
PROMPT = Prompt("prose", "x" * 400, 50)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_the_seconds_of_the_requests_of_a_round() -> None:
    """A prompt takes 0.2 s and an answer 5 s; with four streams four requests are half as long each as one alone."""
    times = token_times.TokenTimes(2.0, 100.0, "a test")
    request = MeasuringRequest({})
    request.prompts = {"prose": [PROMPT, PROMPT], "code": [PROMPT]}
    seconds = token_times.list_request_seconds(times, request, [4])
    assert seconds[:3] == [pytest.approx(5.2)] * 3
    assert seconds[3:] == [pytest.approx(2.7)] * (2 * 4 * 4)


def test_the_seconds_of_second_turns_and_of_requests_at_a_rate() -> None:
    """A second turn has 16 tokens, and two requests in a second are half a second each."""
    request = MeasuringRequest({"second_turn": True, "rate": 2.0})
    request.prompts = {"prose": [PROMPT, PROMPT], "code": [PROMPT]}
    seconds = token_times.list_request_seconds(token_times.TokenTimes(2.0, 100.0, "a test"), request, [])
    assert seconds[:5] == [pytest.approx(one) for one in (5.2, 5.2, 1.6, 5.2, 1.6)]
    assert seconds[5:] == [0.5] * 24


def test_the_times_of_a_warm_up() -> None:
    answers: list[Any] = [
        SimpleNamespace(timings={"prompt_n": 10, "prompt_ms": 30, "predicted_n": 8, "predicted_ms": 800}),
        SimpleNamespace(timings={"prompt_n": 10, "prompt_ms": 10, "predicted_n": 8, "predicted_ms": 640}),
    ]
    times = token_times.token_times_of_answers(answers)
    assert (times.prompt_ms, times.output_ms) == (2.0, 90.0)


def test_the_times_of_the_last_run(tmp_path: Path) -> None:
    """The newest document counts that can be read and is of the instance."""
    assert token_times.token_times_of_last_run(str(tmp_path / "absent"), "chat") is None
    bench = Bench(1, {"one": 0.0})
    bench.ablate(4)
    run_document.save_document(str(tmp_path / "chat-20261101T000000Z.json"), {**bench.data, "instance": "chat"})
    (tmp_path / "chat-20261201T000000Z.json").write_text("{}")
    run_document.save_document(str(tmp_path / "chat-b-20261202T000000Z.json"), {**bench.data, "instance": "chat-b"})
    times = token_times.token_times_of_last_run(str(tmp_path), "chat")
    assert times is not None and times.source == f"the run of {bench.data['started']}"
    # The host generates 20 tokens per second.
    assert times.output_ms == pytest.approx(50, rel=0.05)


def test_the_predicted_times() -> None:
    """A step of 10 GB takes 50 ms at half of 400 GB/s."""
    times = token_times.predict_token_times(10e9, 400.0)
    assert (times.output_ms, times.prompt_ms) == (pytest.approx(50), pytest.approx(10))


def test_the_time_that_is_left() -> None:
    """Two short requests and a long one are expected; the machine takes twice as long, and then half as long."""
    clock = Clock()
    watch = RoundClock([1.0, 1.0, 4.0], clock)
    assert (watch.requests_per_round, watch.round_seconds) == (3, 6.0)
    watch.begin_round()
    clock.now += 2
    assert watch.add_answer(1) == (1, pytest.approx(2 * (5 + 6)))
    clock.now += 2
    assert watch.add_answer(1) == (2, pytest.approx(2 * (4 + 6)))
    clock.now += 8
    assert watch.add_answer(1) == (3, pytest.approx(2 * 6))
    watch.end_round()
    assert watch.round_seconds == 12
    clock.now += 50
    watch.begin_round()
    clock.now += 1
    assert watch.add_answer(0) == (1, pytest.approx(2 + 8))
