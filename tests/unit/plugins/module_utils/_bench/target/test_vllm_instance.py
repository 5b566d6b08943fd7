# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances of vLLM that are measured: how one is found and asked, and every answer that does not count."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench import benchmark
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load import answer as answers
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.completion_api import VllmCompletions
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.prompts import Prompt
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import MeasuringRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.sampling import discard_reasons
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.target import vllm_instance
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.tests.unit.fakes.completions import Clock, Completions
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured, measured
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import say, serving

FIVE = Prompt("prose", "Once", 5)


def events(tokens: int = 5, made: int | None = None, **usage: Any) -> list[dict[str, Any]]:
    """The events of an answer, with what it says of itself at the end."""
    pieces: list[dict[str, Any]] = [{"choices": [{"text": f"{number} "}], "usage": None} for number in range(tokens)]
    told = {"prompt_tokens": 20, "completion_tokens": tokens if made is None else made, **usage}
    return [*pieces, {"choices": [], "usage": told}]


def test_times_are_those_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    script = list(zip([0.25, 0.01, 0.02, 0.01, 0.02, 0.5], events()))
    monkeypatch.setattr(answers.event_stream, "stream_events", clock.playing(script))
    found = answers.fetch_answer(answers.Server("http://127.0.0.1:1", clock=clock, api=VllmCompletions("m")), FIVE)
    assert (found.timings["prompt_n"], found.generated_tokens, found.drafted_tokens, found.text) == (
        20,
        5,
        0,
        "0 1 2 3 4 ",
    )
    assert found.timings["prompt_ms"] == found.ttft_ms == pytest.approx(250)
    assert found.tpot_ms == pytest.approx(15) and found.tokens_per_second == pytest.approx(1000 / 15)


def test_the_request_body() -> None:
    """What is found in a cache is found by its salt too, so each request has one that nobody had."""
    server = Completions(events())
    with serving(server) as http:
        for dummy in range(2):
            answers.fetch_answer(answers.Server(http.url, "key", api=VllmCompletions("m")), FIVE)
    assert [request[1] for request in http.requests] == ["/v1/completions"] * 2
    one, two = server.asked
    wanted = {"model": "m", "prompt": "Once", "max_tokens": 5, "ignore_eos": True, "temperature": 0, "stream": True}
    assert wanted.items() <= one.items() and one["stream_options"] == {"include_usage": True}
    assert one["cache_salt"] and one["cache_salt"] != two["cache_salt"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (events(prompt_tokens_details={"cached_tokens": 16}), "took 16 tokens of the prompt from its cache"),
        (events(4), "made 4 tokens where 5 were asked for: give it more context (--max-model-len), or ask for less"),
        (events(prompt_tokens=None), "tells no prompt_n: it is no vLLM"),
        (events(1, made=5), "sent its text in one piece, so that the time of its tokens is not known"),
        (events()[:-1], "closed the connection in the middle of its answer: 5 pieces of text for 5 tokens came"),
        ([{"error": {"message": "No memory."}}], "broke off: No memory."),
    ],
)
def test_an_answer_that_is_not_what_was_asked_for(script: list[dict[str, Any]], words: str) -> None:
    with serving(Completions(script)) as http, pytest.raises(TuningError) as error:
        answers.fetch_answer(answers.Server(http.url, api=VllmCompletions("m")), FIVE)
    assert str(error.value).startswith(f"{http.url}/v1/completions {words}")


class Batch:
    """A host with an instance of vLLM beside one of llama-server; its metrics are late by some readings."""

    def __init__(self, here: Measured, folder: Path) -> None:
        self.here = here
        self.tokens = 500
        self.late: list[int] = []
        self.health = 200
        self.model = folder / "model"
        self.model.mkdir()
        (self.model / "config.json").write_text("{}")
        (self.model / "model.safetensors").write_bytes(b"weights")
        here.states["vllm-batch.service"] = "active"
        here.runs("vllm-batch.service")
        here.service.tree.put("/sys/fs/cgroup/system.slice/vllm-batch.service/cpu.stat", "usage_usec 5")

    def planned(self, name: str = "batch", **changes: Any) -> None:
        expect = {"cpus": "0-5", "busy_cpus": "4-5", "nodes": "0-1", "interleaved": False}
        details = {"alias": "m", "hosts": 1, "slots": 4, "model": str(self.model)}
        details.update({key: changes.pop(key) for key in list(changes) if key in details})
        files = {str(path): [path.stat().st_size, path.stat().st_mtime_ns] for path in self.model.iterdir()}
        engine = {"engine": "vllm", "name": name, "speculation": [], "files": files, "details": details}
        self.here.planned(f"vllm-{name}.service", **{**engine, "expect": expect, "key_file": "", **changes})

    def serve(self, request: BaseHTTPRequestHandler) -> None:
        running = self.late.pop(0) if self.late and request.path == "/metrics" else 0
        self.tokens += 12 if self.late == [] and running else 0
        told = {"prompt_tokens": 1000, "generation_tokens": self.tokens}
        metrics = "".join(f'vllm:{name}_total{{engine="0"}} {value}.0\n' for name, value in told.items())
        metrics += f'vllm:num_requests_running{{engine="0"}} {running}.0\n'
        said = {"/health": "", "/version": '{"version": "0.32.0"}', "/metrics": metrics}
        say(request, self.health if request.path == "/health" else 200, said[request.path].encode())


@pytest.fixture
def batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Batch]:
    with measured(tmp_path, monkeypatch) as here:
        batch = Batch(here, tmp_path)
        with serving(batch.serve) as http:
            here.url = http.url
            batch.planned()
            yield batch


def found(batch: Batch, name: str | None = "batch") -> Any:
    return vllm_instance.find_instance_of_any_engine(batch.here.host(), name)


def test_an_instance_is_found_with_what_it_says_of_itself(batch: Batch) -> None:
    one = found(batch)
    assert (one.name, one.units, one.slots, one.build) == ("batch", ["vllm-batch.service"], 4, "vLLM 0.32.0")
    assert one.files == [str(batch.model / name) for name in ("config.json", "model.safetensors")]
    assert (one.cpus, one.nodes, one.gguf_model_path(), one.server.key) == ((4, 5), (0, 1), None, None)
    assert len(one.remarks) == 1
    batch.planned(hosts=2)
    assert found(batch).remarks[1] == "It is divided over 2 hosts, of which only this one was watched."


def test_the_instance_is_chosen_by_name(batch: Batch) -> None:
    with pytest.raises(BadRequest, match="Say which instance: this host has chat, batch"):
        found(batch, None)
    with pytest.raises(BadRequest, match="There is no instance other on this host, which has chat, batch"):
        found(batch, "other")
    batch.planned("chat")
    with pytest.raises(BadRequest, match="llama-server and vLLM both have an instance chat on this host"):
        found(batch, "chat")


def test_the_only_instance_needs_no_name(batch: Batch) -> None:
    batch.here.service.tree.drop("etc/systemd/system/llama-chat.service")
    assert found(batch, None).name == "batch"
    # A unit of somebody else, and one of ours from before it carried a plan.
    batch.here.unit("vllm-theirs.service", "[Install]\n")
    assert found(batch, None).name == "batch"


def test_an_instance_that_does_not_serve_is_refused(batch: Batch) -> None:
    batch.health = 500
    with pytest.raises(TuningError, match=r"vllm-batch\.service is active, and .*/health answers 500"):
        found(batch)


def test_an_instance_without_a_process_is_refused(batch: Batch) -> None:
    batch.here.service.tree.put("/sys/fs/cgroup/system.slice/vllm-batch.service/cgroup.procs", "")
    with pytest.raises(TuningError, match=r"vllm-batch\.service has no process any more"):
        found(batch)


def test_the_api_key_is_accepted(batch: Batch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret\n")
    batch.planned(key_file=str(tmp_path / "key"))
    assert found(batch).server.key == "secret"


def test_counters_that_come_late_are_waited_for(batch: Batch) -> None:
    batch.late = [0, 1, 1]
    meter = benchmark.Meter(batch.here.host(), found(batch), MeasuringRequest({"streams": []}), answers.time)
    before, after = meter._read_host_activity(), meter._read_host_activity()
    assert after.pending_requests == 0 and before.tokens == (1000, 500) and after.tokens == (1000, 512)


def test_a_server_without_counters(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VllmCompletions, "counters", ("vllm:other", "vllm:others"))
    meter = benchmark.Meter(batch.here.host(), found(batch), MeasuringRequest({"streams": []}), answers.time)
    before, after = meter._read_host_activity(), meter._read_host_activity()
    said = " ".join(discard_reasons.discard_reasons(before, after, (0, 0), {"others": 0.0, "steal": 0.0}))
    assert "the server reports no counters; start it without --disable-log-stats." in said
