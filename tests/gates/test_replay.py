# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The replay server: it passes for the recorded llama-server, and is as fast as its truth says, to our own driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load import closed_loop
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.answer import Server, fetch_answer
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.completion_api import LLAMA
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.prompts import Prompt
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import threads
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import json_request, server_http
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import probe
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import trial
from ansible_collections.sovereign.epyc.tests.replay import install
from ansible_collections.sovereign.epyc.tests.replay.program import arguments, pace, truth
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs, llama_servers

PROMPT = Prompt("prose", "Once upon a time", 8)
#: Nothing by chance, and next to no time.
PLAIN = {"noise": 0.0, "base_ms": 1.0, "prompt_ms": 0.5, "busy": 0.0}
COUNTED = 5  # the tokens of the prompt


class Replay:
    """A replay server that runs."""

    def __init__(self, process: subprocess.Popen[str], port: str) -> None:
        self.process = process
        self.server = Server(f"http://127.0.0.1:{port}")

    def times(self, tokens: int = 8) -> tuple[float, float]:
        """Return the milliseconds of a token of an answer, and those of one of its prompt."""
        told = fetch_answer(self.server, Prompt("prose", "Once upon a time", tokens)).timings
        assert told["prompt_n"] == COUNTED
        return round(told["predicted_ms"] / tokens, 6), round(told["prompt_ms"] / COUNTED, 6)

    def metrics(self) -> dict[str, float]:
        status, text = server_http.send_get_request(self.server.url, "/metrics", 5)
        assert status == 200
        return server_http.parse_prometheus_metrics(text)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program, as it lies on a guest."""
    folder = tmp_path_factory.mktemp("replay")
    install.in_folder(folder, {})
    (folder / "model.gguf").write_bytes(ggufs.WHOLE)
    return folder


def replay_command(home: Path, *words: str) -> list[str]:
    fixed = ["--model", f"{home}/model.gguf", "--port", "0", "--metrics", "--slots", "--ctx-size", "4096"]
    return [sys.executable, str(home / "llama-server"), *fixed, *words]


@contextmanager
def running_replay(home: Path, said: Mapping[str, Any], *words: str, **environment: str) -> Iterator[Replay]:
    (home / "this.json").write_text(json.dumps(said))
    variables = {**os.environ, **environment, "LLAMA_REPLAY_TRUTH": f"{home}/this.json"}
    with subprocess.Popen(replay_command(home, *words), stdout=subprocess.PIPE, text=True, env=variables) as process:
        try:
            assert process.stdout
            yield Replay(process, process.stdout.readline().split()[-1])
        finally:
            process.kill()


# The command line


@pytest.mark.parametrize(
    "run", llama_servers.recorded("b11434")["dry_runs"], ids=lambda run: " ".join(run["arguments"])
)
def test_it_takes_and_refuses_what_the_recorded_server_did(home: Path, run: dict[str, Any]) -> None:
    error = arguments.Refused if run["code"] else arguments.Ended
    with pytest.raises(error):
        arguments.Table(home).read([*run["arguments"], "--version"])


def test_it_passes_for_the_recorded_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_REPLAY_TRUTH", f"{home}/truth.json")
    binary = str(home / "llama-server")
    found = probe.probe_capabilities(binary, None)
    assert (
        found.build == 11434
        and found.can_pin_threads
        and found.options.keys() == llama_servers.server("b11434").options.keys()
    )
    probe.require_accepted_arguments(binary, ["--model", "/srv/m.gguf", "--threads", "8", "--metrics"], None)
    with pytest.raises(TuningError, match="invalid argument: --nonsense"):
        probe.require_accepted_arguments(binary, ["--nonsense"], None)
    assert probe.try_to_compute_one_token(binary, found, None) == []


def test_a_switch_and_its_opposite_are_two(home: Path) -> None:
    table = arguments.Table(home)
    assert table.read(["--no-repack", "-t", "8", "--threads=9", "-nkvo"]) == {
        "--no-repack": "",
        "--threads": "9",
        "--no-kv-offload": "",
    }


# Effects


def test_effects_are_in_force_where_their_conditions_hold(home: Path, tmp_path: Path) -> None:
    knob, other = tmp_path / "enabled", tmp_path / "boost"
    knob.write_text("always [madvise] never\n")
    other.write_text("0\n")
    effects = [
        {"file": str(knob), "contains": "[always]", "factor": 0.5, "prompt_factor": 3},
        {"argument": "-t", "equals": "2", "factor": 1.1},
        {"argument": "--threads", "equals": "3", "factor": 7},
        {"argument": "--cache-type-k", "present": False, "factor": 1.3},
        {"environment": "OMP_WAIT_POLICY", "equals": "passive", "factor": 1.7},
        {"all": [{"file": str(other), "equals": "1"}, {"argument": "--threads", "present": True}], "factor": 0.9},
    ]
    always = 1.1 * 1.3 * 1.7
    with running_replay(home, {**PLAIN, "effects": effects}, "--threads", "2", OMP_WAIT_POLICY="passive") as one:
        assert one.times() == pytest.approx((always, 0.5 * always))
        knob.write_text("[always] madvise never\n")
        assert one.times() == pytest.approx((0.5 * always, 1.5 * always))
        other.write_text("1\n")
        assert one.times() == pytest.approx((0.45 * always, 1.35 * always))


def test_it_can_ignore_an_argument_and_die(home: Path) -> None:
    said = {
        **PLAIN,
        "effects": [{"argument": "--threads", "present": True, "factor": 2}],
        "ignores": ["--threads"],
        "dies_after": 1,
    }
    with running_replay(home, said, "--threads", "1") as one:
        assert one.times() == (1.0, 0.5)
        with pytest.raises(TuningError, match="broke off"):
            one.times()
        assert one.process.wait(5) == 1


# Chance


def request_times(monkeypatch: pytest.MonkeyPatch, folder: Path, count: int, **said: Any) -> list[tuple[float, float]]:
    """Return the times of some requests after a start."""
    monkeypatch.setenv("STATE_DIRECTORY", str(folder))
    drawn = pace.Pace(truth.Truth(**{"base_ms": 1.0, "prompt_ms": 1.0, **said}), {}, pace.Start())
    return [drawn.next() for dummy in range(count)]


def test_the_seed_and_the_start_decide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    first = request_times(monkeypatch, one, 5, start_noise=0.1)
    second = request_times(monkeypatch, one, 5, start_noise=0.1)
    assert request_times(monkeypatch, other, 5, start_noise=0.1) == first != second
    assert request_times(monkeypatch, other, 5, start_noise=0.1) == second
    assert json.loads((other / "starts.json").read_text())["starts"] == 2
    assert request_times(monkeypatch, other, 5, seed=2) != request_times(monkeypatch, one, 5)


def test_noise_is_as_large_and_as_slow_as_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    steps = [step for step, dummy in request_times(monkeypatch, tmp_path, 4000, noise=0.05, autocorrelation=0.6)]
    assert mean(steps) == pytest.approx(1, abs=0.01) and pstdev(steps) == pytest.approx(0.05, rel=0.1)
    pairs = list(pairwise(steps))
    assert mean((a - 1) * (b - 1) for a, b in pairs) / 0.05**2 == pytest.approx(0.6, abs=0.1)
    spikes = request_times(monkeypatch, tmp_path, 2000, noise=0.0, spikes=truth.Spikes(0.1, 3.0))
    assert {round(step, 9) for step, dummy in spikes} == {1.0, 3.0}
    assert sum(step > 2 for step, dummy in spikes) == pytest.approx(200, abs=50)


def test_it_drifts_from_the_first_start_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    request_times(monkeypatch, tmp_path, 1)
    kept = json.loads((tmp_path / "starts.json").read_text())
    (tmp_path / "starts.json").write_text(json.dumps({**kept, "first": kept["first"] - 7200}))
    ((step, prompt),) = request_times(monkeypatch, tmp_path, 1, noise=0.0, drift_per_hour=0.1)
    assert (step, prompt) == pytest.approx((1.21, 1.21), abs=1e-3)


# HTTP


def test_our_driver_finds_all_that_it_reads(home: Path) -> None:
    with running_replay(home, PLAIN, "--parallel", "2", "--threads", "1") as one:
        whole = fetch_answer(one.server, PROMPT)
        assert whole.generated_tokens == len(whole.chunks) == 8 and whole.tokens_per_second == pytest.approx(1000)
        assert fetch_answer(one.server, PROMPT).text == whole.text
        closed_loop.fetch_answers_in_parallel(one.server, [PROMPT], 3)
        numbers = one.metrics()
        assert [numbers[name] for name in LLAMA.counters] == [14 * COUNTED, 14 * 8]
        assert (
            server_http.parse_unfinished_request_count(
                one.server.url, server_http.send_get_request(one.server.url, "/metrics", 5)[1]
            )
            == 0
        )
        slots = json.loads(server_http.send_get_request(one.server.url, "/slots", 5)[1])
        assert [slot["speculative"] for slot in slots] == [False, False]
        assert json.loads(server_http.send_get_request(one.server.url, "/props", 5)[1])["build_info"].startswith(
            "b11434-"
        )
        said = json_request.post_json(
            one.server.url, "/completion", {"prompt": "a", "n_predict": 3}, one.server.clock.monotonic() + 5, None
        )
        assert said["tokens_predicted"] == said["timings"]["predicted_n"] == 3 and len(said["content"].split()) == 3
        with pytest.raises(TuningError, match="exceeds the available context"):
            fetch_answer(one.server, Prompt("prose", "long" * 2048, 8))


def test_requests_wait_for_a_slot(home: Path) -> None:
    """With one slot, two streams are half as fast each; with two slots, a step serves both."""
    spans = {}
    for slots in ("1", "2"):
        with running_replay(home, {**PLAIN, "base_ms": 4.0}, "--parallel", slots, "--threads", "1") as one:
            begun = one.server.clock.monotonic()
            closed_loop.fetch_answers_in_parallel(one.server, [PROMPT], 2, 2)
            spans[slots] = one.server.clock.monotonic() - begun
    assert spans["1"] >= 4 * 8 * 0.004 and spans["2"] < 0.8 * spans["1"]


def test_guesses_come_together_and_a_step_costs_the_same(home: Path) -> None:
    with running_replay(home, {**PLAIN, "accepted": 0.5}, "--spec-type", "ngram-simple") as one:
        whole = fetch_answer(one.server, Prompt("prose", "Once", 31))
        assert whole.generated_tokens == 31 and whole.accepted_tokens / whole.drafted_tokens == pytest.approx(
            0.5, abs=0.05
        )
        assert whole.timings["predicted_ms"] == pytest.approx(31 - whole.accepted_tokens)
        seen = trial.run_trial_of_task(one.server.url, None)
        assert seen.speculative and seen.tokens == trial.TOKEN_COUNT and seen.drafts and seen.is_complete
        assert seen.share_of_right_guesses == pytest.approx(0.5, abs=0.05)


def test_its_threads_work_in_turns_where_they_are_pinned(home: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    pins = ("--cpu-mask", hex(1 << cpu), "--cpu-strict", "1")
    with running_replay(home, {**PLAIN, "base_ms": 5, "busy": 0.6}, "--threads", "2", *pins) as one:
        before = threads.sample_threads(KernelFS(), [one.process.pid])
        one.times(60)
        after = threads.sample_threads(KernelFS(), [one.process.pid])
    # 60 steps of 5 ms, 0.6 of them busy, on two threads; a machine that is shared gives less of it. Threads of requests
    # may be pinned, too, and work next to nothing.
    worked = [
        (thread.worked or 0) - (before[key].worked or 0 if key in before else 0)
        for key, thread in after.items()
        if thread.allowed == (cpu,)
    ]
    assert len([seconds for seconds in worked if seconds > 0.02]) == 2 and max(worked) < 0.12, worked


# What is refused


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([], "it should be an object"),
        ({"sped": 1}, "it has the unknown key 'sped'"),
        ({"busy": 2}, "busy is 2 and should be a number from 0 to 1"),
        ({"seed": 1.5}, "seed is 1.5 and should be a whole number from 0 up"),
        ({"noise": True}, "noise is true and should be a number from 0 to 1"),
        ({"spikes": {"size": 2}}, "spikes has the unknown key 'size'"),
        ({"spikes": {"share": -1}}, "spikes.share is -1 and should be a number from 0 to 1"),
        ({"ignores": ["--nonsense"]}, "ignores: the server has no argument '--nonsense'"),
        ({"effects": [{"argument": "--threads", "equals": "8"}]}, "effects[0] has no factor"),
        (
            {"effects": [{"argument": "--threads", "file": "/proc/cmdline", "equals": "8", "factor": 2}]},
            "effects[0] should have one of file, argument, environment, and one of equals, contains, present",
        ),
        (
            {"effects": [{"argument": "--threads", "equals": 8, "factor": 2}]},
            "effects[0].argument should be a text, and equals too",
        ),
        (
            {"effects": [{"argument": "--threads", "present": "yes", "factor": 2}]},
            "effects[0].argument should be a text, and present true or false",
        ),
        ({"effects": [{"file": "/nowhere", "equals": "8", "factor": 2}]}, "effects[0]: /nowhere cannot be read here"),
        (
            {"effects": [{"all": [], "factor": 2}]},
            "effects[0].all should be a list of conditions, and no condition should stand beside it",
        ),
        (
            {"effects": [{"all": [{"environment": "A", "present": True, "factor": 2}], "factor": 2}]},
            "effects[0].all[0] has the unknown key 'factor'",
        ),
    ],
)
def test_a_truth_that_is_not_understood_is_refused(home: Path, tmp_path: Path, said: Any, why: str) -> None:
    path = tmp_path / "truth.json"
    path.write_text(json.dumps(said))
    with pytest.raises(arguments.Refused) as caught:
        truth.read(str(path), arguments.Table(home))
    assert str(caught.value) == f"The truth {path}: {why}."


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("bad.json", "The truth {home}/bad.json: it has the unknown key 'a'.\n"),
        ("none.json", "The truth {home}/none.json cannot be read: No such file or directory.\n"),
    ],
)
def test_it_does_not_start_without_a_truth(home: Path, path: str, why: str) -> None:
    (home / "bad.json").write_text('{"a": 1}')
    variables = {**os.environ, "LLAMA_REPLAY_TRUTH": f"{home}/{path}"}
    done = subprocess.run(replay_command(home), capture_output=True, text=True, env=variables, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", why.format(home=home))


# How it comes to a machine


def test_it_comes_by_a_shell_and_to_a_guest(tmp_path: Path) -> None:
    wanted = {path: (text.encode(), mode) for path, (text, mode) in install.files({"seed": 3}).items()}
    sent: dict[str, tuple[bytes, int]] = {}
    install.on_guest(lambda path, data, mode: sent.update({path: (data, int(str(mode), 8))}), {"seed": 3})
    assert sent == wanted and wanted[install.BINARY][1] == 0o755

    def run(line: str, input: str) -> None:
        subprocess.run(["sh", "-c", line.replace(install.HOME, f"{tmp_path}")], input=input, text=True, check=True)

    install.by_shell(run, {"seed": 3})
    there = {f"{install.HOME}/{path.relative_to(tmp_path)}": path for path in tmp_path.rglob("*") if path.is_file()}
    assert {name: (path.read_bytes(), path.stat().st_mode & 0o777) for name, path in there.items()} == wanted
