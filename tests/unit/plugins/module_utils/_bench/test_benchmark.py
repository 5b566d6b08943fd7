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
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load import closed_loop, open_loop
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import MeasuringRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.memory.compared_predictions import (
    compare_predictions,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports import run_report
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.benchmark_report import BenchmarkResult
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.target.measured_instance import MeasuredInstance
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


def test_a_run_keeps_what_was_predicted_when_it_began(here: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report has the prediction beside the measured steps, of which each has a guessed token too."""
    document = run(here)[1]
    assert [one["streams"] for one in document["predictions"]] == [1, here.slots]
    predicted = document["predictions"][0]
    assert predicted["low"] < predicted["tokens_per_second"] < predicted["high"] < predicted["ceiling"]
    assert predicted["source"] == "paper" and "GB/s (paper)" in predicted["arithmetic"]
    (compared,) = compare_predictions([document])
    assert compared.tokens == pytest.approx(1000 / TOKEN_MS) and compared.steps < compared.tokens
    assert compared.ratio == pytest.approx(compared.steps / predicted["tokens_per_second"])
    assert "Predicted against measured:" in run_report.render_run_report(document)
    # Of another format than GGUF nothing is predicted.
    monkeypatch.setattr(MeasuredInstance, "gguf_model_path", lambda self: None)
    document = run(here, output=str(here.service.tree.root / "again.json"))[1]
    assert document["predictions"] == []
    assert "Predicted against measured" not in run_report.render_run_report(document)


def test_the_figures_of_a_benchmark(here: Measured) -> None:
    document = run(here)[1]
    (row,) = BenchmarkResult(document).figure_rows()
    assert (row["kind"], row["streams"]) == ("prose", 1)
    # The server says that it took its time, and answers at once, as fast as this machine is.
    assert row["decode"] == pytest.approx(1000 / TOKEN_MS) and 0 < row["low"] <= row["high"]
    assert (row["depth"], row["turn"], row["rate"], row["within_slo"]) == (0, 1, None, None)
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
    rows = BenchmarkResult(document).figure_rows()
    assert [(row["streams"], row["decode"]) for row in rows] == [(1, pytest.approx(100)), (2, pytest.approx(200))]
    assert " with 1 stream, " in run_report.render_run_report(document).splitlines()[0]
    # A step of two streams reads the weights once, and twice as much of their context.
    one, two = document["steps"]
    assert (one["streams"], two["streams"]) == (1, 2) and one["context"] == two["context"]
    assert two["parts"]["layers"] == one["parts"]["layers"] and two["parts"]["kv"] == 2 * one["parts"]["kv"]
    assert rows[0]["memory"] < rows[1]["memory"] < 1.1 * rows[0]["memory"]
    assert told


def test_more_streams_than_slots_wait_for_a_slot(here: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_loop, "LEAST_SHARE", 0.0)
    document = run(here, streams=[5], rounds=1)[1]
    assert [row["streams"] for row in BenchmarkResult(document).figure_rows()] == [1, 5]
    # A step has at most as many streams as slots.
    one, five = document["steps"]
    assert five["streams"] == 5 and five["parts"]["kv"] == 2 * one["parts"]["kv"]


def test_depths_are_measured_once_in_a_run(here: Measured) -> None:
    here.slot_context = 5000
    dummy, document, told = run(here, depths=[0, 1000, 4000, 9000], rounds=2)
    assert any("to read contexts of up to 9000 tokens takes about 45 s more" in line for line in told)
    assert "it measures with 1000 tokens of context, which takes about 5 s" in told
    assert told[-1] == "4000 tokens of context: read at 200.0, decoded at 100.0 tokens per second"
    assert [(one["phase"], one["round"]) for one in document["plan"]["order"]] == [
        ("benchmark", 1),
        ("benchmark", 2),
        ("depth", 3),
        ("depth", 4),
    ]
    rows = BenchmarkResult(document).figure_rows()
    assert [(row["depth"], row["decode"]) for row in rows] == [
        (0, pytest.approx(100)),
        (1000, pytest.approx(100)),
        (4000, pytest.approx(100)),
    ]
    assert {one["void"] for one in document["samples"]} == {None}
    # A prompt is read alone: the context before it is in the prefix cache.
    assert [(one["depth"], one["prompt_n"]) for one in document["samples"][-2:]] == [(1000, PROMPT), (4000, PROMPT)]
    assert [(step["depth"], step["context"]) for step in document["steps"]] == [
        (0, PROMPT + 4),
        (1000, 1000 + PROMPT + 4),
        (4000, 4000 + PROMPT + 4),
    ]
    assert rows[0]["memory"] < rows[1]["memory"] < rows[2]["memory"]
    (remark,) = document["remarks"]
    assert remark == ("Depth 9000 was not measured: with prompt and answer it needs 9028 tokens, and a slot has 5000.")
    report = run_report.render_run_report(document)
    assert "Speed by depth of the context" in report and "4 rounds, 0 of them discarded" in report
    assert len([line for line in report.splitlines() if line.startswith("  prose ") and " 4024 " in line]) == 1


def test_by_default_depths_are_measured_that_take_little_time(here: Measured) -> None:
    """The server says that it reads 200 tokens a second, and the clock of the rounds goes faster than that."""
    here.slot_context = 40_000
    document = run(here, depths=None)[1]
    assert {one["depth"] for one in document["samples"]} == {0}
    (remark,) = document["remarks"]
    assert remark.startswith(
        "Contexts of 4096 tokens and more were not measured, because reading them takes about 3 min. "
    )
    assert run(here, depths=[], output=f"{runs.FOLDER}/other.json")[1]["remarks"] == []


def test_a_server_that_keeps_no_prefix_has_no_depths(here: Measured) -> None:
    here.slot_context, here.keeps_prefix = 5000, False
    document = run(here, depths=[1000, 2000], rounds=1)[1]
    assert len(document["plan"]["order"]) == 1 and BenchmarkResult(document).counts
    (remark,) = document["remarks"]
    assert remark.startswith("Of a context of 1000 tokens the server took 0 from its prefix cache")


def test_a_disturbed_depth_is_measured_once_more(here: Measured) -> None:
    """It costs the depth and not the round of the figures without it."""
    here.slot_context = 5000

    def other(number: int) -> None:
        if number == 7:
            here.counters["tokens_predicted_total"] += 7

    here.before_answer = other
    document = run(here, depths=[1000], rounds=1)[1]
    assert [bool(one["void"]) for one in document["samples"]] == [False] * 3 + [True, False]
    result = BenchmarkResult(document)
    assert result.counts and [row["depth"] for row in result.figure_rows()] == [0, 1000]


def test_the_second_turn_of_a_chat(here: Measured) -> None:
    document = run(here, second_turn=True)[1]
    second = [one for one in document["samples"] if one["turn"] == 2]
    assert [(one["round"], one["depth"], one["predicted_n"]) for one in second] == [(1, PROMPT, 16), (2, PROMPT, 16)]
    last = here.asked[-1]["prompt"]
    assert last.startswith(here.asked[-2]["prompt"] + "0 1 2 ") and last.endswith("in one sentence:")
    rows = BenchmarkResult(document).figure_rows()
    assert [(row["turn"], row["depth"]) for row in rows] == [(1, 0), (2, PROMPT)]
    assert "The second turn of a chat" in run_report.render_run_report(document)


def test_requests_at_a_rate_and_their_share_within_limits(here: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_loop, "MOST_LATENESS", 1e9)
    limits = {"first_ms": 60_000.0, "per_token_ms": 1e-6}
    document = run(here, rate=500, slo=limits, kinds=None, rounds=1)[1]
    assert document["plan"]["slo"] == limits
    sample = document["samples"][-1]
    assert (sample["kind"], sample["rate"], len(sample["ttfts_ms"])) == ("mixed", 500, open_loop.REQUESTS)
    assert sample["output_n"] == open_loop.REQUESTS * TOKENS and 1 <= sample["streams"] <= open_loop.REQUESTS
    row = BenchmarkResult(document).figure_rows()[-1]
    assert (row["rate"], row["decode"], row["memory"], row["within_slo"]) == (500, None, None, 0)
    assert "Requests that arrive at a rate" in run_report.render_run_report(document)
    again = run(here, rate=500, slo={**limits, "per_token_ms": 60_000.0}, output=f"{runs.FOLDER}/other.json")[1]
    assert {one["within_slo"] for one in again["samples"]} == {1.0}


def test_kinds_of_a_users_file(here: Measured, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    rows = [{"text": "a", "kind": "mail"}, {"text": "b"}, {"text": "c", "kind": "mail"}]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    document = run(here, prompts=str(file), kinds=["mail"], rounds=1)[1]
    assert [one["kind"] for one in document["samples"]] == ["mail", "mail"]
    with pytest.raises(BadRequest, match=r"no prompts of the kind prose; the kinds are mail, user\."):
        run(here, prompts=str(file))


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
        ({"streams": [0]}, "streams is 0; give a whole number from 1 to 256"),
        ({"rounds": 0}, "rounds is 0; give a whole number from 1 to 1000"),
        ({"rounds": "many"}, "rounds is many"),
        ({"depths": [-1]}, "depths is -1; give a whole number from 0 to"),
        ({"rate": 0}, "rate is 0; give a number above 0, and at most 1000"),
        ({"slo": {"first_ms": 500}}, "slo needs both first_ms and per_token_ms"),
        ({"slo": {"first_ms": "soon", "per_token_ms": 5}}, "first_ms is soon; give a number above 0"),
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
        "as long where rounds are disturbed; long contexts take at most 50% more.",
    )
    assert here.asked == []
