# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A whole benchmark of an instance, whose server moves the counters of the kernel as it answers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench import benchmark, progress
from ansible_collections.sovereign.epyc.plugins.module_utils._bench import run as runs
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load import closed_loop
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import MeasuringRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports import run_report
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.benchmark_report import BenchmarkResult
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import measuring_run
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import (
    GBPS,
    PROMPT,
    TOKEN_MS,
    WEIGHTS,
    Measured,
    measured,
)

TOKENS = 8
QUICK = {"rounds": 2, "tokens": TOKENS, "kinds": ["prose"], "streams": []}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measured]:
    with measured(tmp_path, monkeypatch) as host:
        yield host


def run(here: Measured, **options: Any) -> tuple[str, dict[str, Any], list[str]]:
    """The file of a run, what is in it, and what was told meanwhile."""
    told: list[str] = []
    path, document = benchmark.run_benchmark(here.host(), MeasuringRequest({**QUICK, **options}), told.append)
    assert json.loads(Path(path).read_text()) == document
    return path, document, told


def test_a_run_of_two_rounds(here: Measured) -> None:
    path, document, told = run(here)
    assert path.startswith(f"{runs.FOLDER}/chat-2")
    assert {one["void"] for one in document["samples"]} == {None}
    assert [one["round"] for one in document["plan"]["order"]] == [1, 2]
    assert (document["instance"], document["restored"], document["remarks"]) == ("chat", True, [])
    assert document["fingerprint"]["engine_build"] == "b11434"
    assert document["fingerprint"]["arguments"][0] == "/opt/llama-server"
    assert told[2].startswith("warm-up, answer 1 of at most 8: 100.0 tokens per second")
    steps = [line for line in told if line.startswith("round")]
    assert len(steps) == 6 and steps[-1].startswith(
        "round 2, 1 of 2 count; answer 3 of 3: 100.0 tokens per second; about "
    )
    assert told[-7].startswith("2 rounds of 3 requests take about ")
    assert all(not one["cache_prompt"] and one["ignore_eos"] for one in here.asked)
    # The instance computes on CPUs 4 and 5.
    assert here.set_aside and not here.set_aside[0] & {4, 5}


def test_the_figures_of_a_benchmark(here: Measured) -> None:
    document = run(here)[1]
    (row,) = BenchmarkResult(document).figure_rows()
    assert (row["kind"], row["streams"]) == ("prose", 1)
    assert [row[name] for name in ("decode", "low", "high")] == pytest.approx([1000 / TOKEN_MS] * 3)
    assert row["prefill"] == pytest.approx(PROMPT / 0.1)
    # Of eight tokens three were guessed right, so that there were five steps.
    assert row["tokens_per_step"] == pytest.approx(8 / 5) and row["ms_per_step"] == pytest.approx(16)
    (step,) = document["steps"]
    assert step["guessed"] == pytest.approx(4 / 5) and step["context"] == PROMPT + TOKENS // 2
    read = sum(step["parts"].values())
    assert read == pytest.approx(WEIGHTS, rel=0.05)
    assert row["memory"] == pytest.approx(read / GBPS / 1e6 / 16)
    report = run_report.render_run_report(document)
    assert report.startswith("Benchmark of chat: decodes 100.0 tokens per second; end to end ")
    assert "2 rounds, 0 of them discarded" in report


def test_the_ceiling_of_the_last_run_that_counts_is_kept(here: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    row = BenchmarkResult(run(here)[1]).figure_rows()[0]
    kept = Path(benchmark.metrics.BENCHMARK_SHARES)
    assert json.loads(kept.read_text()) == {"chat": {"prose": pytest.approx(row["memory"], abs=1e-4)}}
    before = kept.read_text()

    def busy(number: int) -> None:
        here.others += 1_000

    here.before_answer = busy
    run(here, output=f"{runs.FOLDER}/other.json")
    assert kept.read_text() == before


def test_several_streams(here: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as slots where none are named."""
    monkeypatch.setattr(closed_loop, "LEAST_SHARE", 0.0)  # This server answers so fast that asking takes longer.
    dummy, document, told = run(here, streams=None, rounds=1)
    assert [(one["streams"], one["void"]) for one in document["samples"]] == [(1, None)] * 3 + [(2, None)]
    # To warm up, one at a time, and two streams of four requests.
    assert len(here.asked) == 3 + 3 + 8
    assert [row["streams"] for row in BenchmarkResult(document).figure_rows()] == [1, 2]
    assert " with 1 stream, " in run_report.render_run_report(document).splitlines()[0]
    assert told


def test_streams_that_asked_too_slowly_spoil_the_round(here: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_loop, "LEAST_SHARE", 1e9)
    document = run(here, streams=None, rounds=1)[1]
    assert {one["streams"] for one in document["samples"]} == {1} and not BenchmarkResult(document).counts
    assert "round 3 2 streams asked, but only" in run_report.render_run_report(document)


def test_a_round_with_requests_of_others_is_kept_and_repeated(here: Measured) -> None:
    def other(number: int) -> None:
        # The warm-up takes three requests, and the first round the next three.
        if number == 5:
            here.counters["tokens_predicted_total"] += 7

    here.before_answer = other
    document = run(here)[1]
    void = {one["round"]: one["void"] for one in document["samples"]}
    disturbed = "Other clients sent requests too: the server read 0 and generated 7 tokens for them."
    assert void == {1: disturbed, 2: None, 3: None}
    assert BenchmarkResult(document).counts
    report = run_report.render_run_report(document)
    assert "Discarded rounds:\n  round   reason\n  round 1 Other clients sent requests too" in report


def test_a_run_of_which_no_round_counts_says_so(here: Measured) -> None:
    def busy(number: int) -> None:
        here.others += 1_000

    here.before_answer = busy
    document = run(here)[1]
    assert len(document["plan"]["order"]) == 6
    assert not BenchmarkResult(document).counts
    report = run_report.render_run_report(document)
    assert report.startswith("No round counts, and this proves nothing. Every figure below is of discarded")
    assert "Benchmark of chat: decodes 100.0 tokens per second" in report and "Figures, discarded" in report
    assert "round 6 Other programs took " in report


def test_a_server_that_fails_leaves_what_was_measured(here: Measured) -> None:
    def end(number: int) -> None:
        here.cut_off = number == 8

    here.before_answer = end
    with pytest.raises(TuningError, match="completion"):
        run(here)
    (file,) = Path(runs.FOLDER).iterdir()
    assert {one["round"] for one in json.loads(file.read_text())["samples"]} == {1}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"instance": "other"}, "There is no instance other on this host, which has chat."),
        ({"streams": [1, 3]}, "chat takes 2 streams at once, and 3 are asked for"),
        ({"streams": [0]}, "streams is 0; give a whole number from 1 to 256"),
        ({"rounds": 0}, "rounds is 0; give a whole number from 1 to 1000"),
        ({"rounds": "many"}, "rounds is many"),
        ({"tokens": 1}, "tokens is 1; give a whole number from 2"),
        ({"kinds": ["verse"]}, "There are no prompts of the kind verse; the kinds are prose, code_edit, summary."),
        ({"prompts": "/absent"}, "The prompts /absent cannot be read"),
        ({"output": __file__}, "is there already, and is left as it is"),
    ],
)
def test_what_cannot_be_measured(here: Measured, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        run(here, **options)
    assert here.asked == [] and not Path(runs.FOLDER).exists()


def test_an_instance_that_makes_no_text(here: Measured) -> None:
    here.planned(task="embedding")
    with pytest.raises(BadRequest, match="chat is for the task embedding, and makes no text"):
        run(here)
    here.ready()
    here.states["llama-chat.service"] = "failed"
    with pytest.raises(TuningError, match=r"llama-chat\.service is failed"):
        run(here)


def test_a_second_run_on_the_host_is_refused(here: Measured) -> None:
    with (
        progress.hold_run_lock("the tuning of chat"),
        pytest.raises(BadRequest, match="Another run measures on this host"),
    ):
        run(here)
    assert here.asked == []
    run(here)


def test_a_run_that_is_ended_has_its_samples_and_says_so(here: Measured) -> None:
    def end(number: int) -> None:
        if len(here.asked) > 3 * 3:
            os.kill(os.getpid(), signal.SIGTERM)

    here.before_answer = end
    with pytest.raises(TuningError, match=r"^the benchmark of chat ended early: somebody ended it\."):
        run(here, instance="chat", rounds=5)
    (file,) = Path(runs.FOLDER).iterdir()
    document = json.loads(file.read_text())
    assert document["samples"] and "It ended early: somebody ended it." in document["remarks"]
    assert document["ended"] and document["restored"] is True


def test_the_progress_file_has_the_present_step(here: Measured) -> None:
    file = Path(measuring_run.STEP)
    seen: list[str] = []
    here.before_answer = lambda number: seen.append(file.read_text())
    with progress.progress_file_writer() as tell:
        benchmark.run_benchmark(here.host(), MeasuringRequest(QUICK), tell)
    assert seen[0] == "it warms up\n" and seen[-1].startswith("round 2, 1 of 2 count; answer 2 of 3")
    assert not file.exists()


def test_a_benchmark_with_a_users_prompts(here: Measured, tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"text": "Once", "output_length": 5}\n{"text": "Twice"}\n')
    dummy, document, told = run(here, kinds=None, prompts=str(tmp_path / "own.jsonl"), rounds=1)
    assert [(one["kind"], one["predicted_n"]) for one in document["samples"]] == [("user", 5), ("user", TOKENS)]
    del told


def test_what_would_be_measured(here: Measured) -> None:
    asked = MeasuringRequest({**QUICK, "streams": None})
    assert benchmark.describe_planned_benchmark(here.host(), asked) == (
        "chat",
        "chat would be asked prompts in 2 rounds (3 of prose), with 1 and 2 streams. "
        "By the size of the model and the memory bandwidth, 2 rounds of 11 requests take about 3 s, and up to 3 times "
        "as long where rounds are disturbed.",
    )
    assert here.asked == []
