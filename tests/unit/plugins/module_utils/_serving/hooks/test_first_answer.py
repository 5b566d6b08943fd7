# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first answer of a new server: real requests to a server on the loopback that answers as engines do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.catalogue import LLAMA, VLLM
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import first_answer
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import Server, say, serving

KEY = "secret"
HALF_FILE = -10.802672386169434


def completion(*logprobs: float | None) -> dict[str, Any]:
    """Return what llama-server answers about tokens with these log-probabilities, each beside an equal token."""
    tokens = [
        {"token": "6", "logprob": number, "top_logprobs": [{"token": "", "logprob": number}]} for number in logprobs
    ]
    return {"content": "6" * len(tokens), "tokens_predicted": len(tokens), "completion_probabilities": tokens}


def vllm_completion(*logprobs: float | None) -> dict[str, Any]:
    choice = {"text": "6", "logprobs": {"token_logprobs": list(logprobs), "top_logprobs": [{"6": -9.0}]}}
    return {"choices": [choice], "usage": {"completion_tokens": len(logprobs)}}


class NewServer:
    """Answers each request with ``status`` and ``answer``, and counts ``busy`` requests in progress."""

    def __init__(self) -> None:
        self.status = 200
        self.answer: Any = completion(-0.4, -0.1)
        self.seconds = 0.0
        self.busy = 1
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        if request.path == "/health":
            return say(request, 200, b'{"status":"ok"}')
        if request.path == "/metrics":
            return say(request, 200, f"{LLAMA.active_request_metrics[0]} {self.busy}\n".encode())
        self.bodies.append(json.loads(request.rfile.read(int(request.headers["Content-Length"]))))
        self.keys.append(request.headers.get("Authorization"))
        time.sleep(self.seconds)
        if self.answer is None:
            return request.connection.close()
        return say(request, self.status, json.dumps(self.answer).encode())


@pytest.fixture
def new() -> NewServer:
    return NewServer()


@pytest.fixture
def server(new: NewServer) -> Iterator[Server]:
    with serving(new) as server:
        yield server


def refusal(server: Server, task: str = "completion", row: Any = LLAMA) -> str:
    with pytest.raises(TuningError) as caught:
        first_answer.require_first_answer(server.url, 30, task=task, row=row)
    said = str(caught.value)
    assert said.startswith(f"{server.url} does not serve: ")
    return said.partition(": ")[2]


def test_a_probable_token(new: NewServer, server: Server) -> None:
    said = first_answer.require_first_answer(server.url, 30, KEY)
    assert said == f"{server.url} has answered; its first token has a probability of 67 %."
    assert [path for dummy, path, dummy2 in server.requests] == ["/completion"]
    assert new.bodies[0]["n_predict"] <= 4 and new.bodies[0]["cache_prompt"] is False
    assert new.keys == [f"Bearer {KEY}"] and "model" not in new.bodies[0]


def test_each_model_of_a_router(new: NewServer, server: Server) -> None:
    said = first_answer.require_first_answer(server.url, 30, models=["a", "b/c"])
    assert [body["model"] for body in new.bodies] == ["a", "b/c"]
    assert [line.partition(" has answered")[0] for line in said.splitlines()] == [
        f"{server.url}, model a,",
        f"{server.url}, model b/c,",
    ]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            completion(HALF_FILE, HALF_FILE),
            "3 tokens were requested of it, and all tokens of its vocabulary are equally",
        ),
        (completion(None, None), "the probabilities of its tokens are no numbers: the file of the model is damaged"),
        ({"content": "", "tokens_predicted": 0}, "and the answer has no token."),
        ([], "and the answer is no JSON object."),
    ],
)
def test_a_completion_of_no_use(new: NewServer, server: Server, answer: Any, words: str) -> None:
    new.answer = answer
    assert words in refusal(server)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        # A model whose weights are all zero has a small vocabulary in tests, and serves.
        (completion(-5.556828, -5.556828), "has a probability of only 0.4 %, as with an untrained or a damaged model"),
        (completion(-10.2132, -10.2132), "has a probability of only 0.004 %"),
        (completion(-11.0, -10.8), "has a probability of only 0.002 %"),
        (completion(-0.4, None), "has a probability of 67 %."),
        # Builds of ik_llama.cpp answer with probabilities, others with none.
        ({"completion_probabilities": [{"content": "6", "probs": [{"tok_str": "6", "prob": 0.9}]}]}, "has answered."),
        ({"content": "6"}, "has answered."),
    ],
)
def test_what_is_not_certain_is_a_remark(new: NewServer, server: Server, answer: Any, words: str) -> None:
    new.answer = answer
    assert words in first_answer.require_first_answer(server.url, 30)


@pytest.mark.parametrize(
    ("task", "path", "right", "wrong"),
    [
        (
            "embedding",
            "/v1/embeddings",
            {"data": [{"index": 0, "embedding": [0.1, -0.9]}]},
            [
                ({"data": [{"embedding": [0.0, 0.0]}]}, "all numbers of the vector are zero"),
                ({"data": [{"embedding": [0.1, None]}]}, "the vector has a number that is none"),
                ({"data": []}, "the answer has no vector."),
            ],
        ),
        (
            "rerank",
            "/v1/rerank",
            {"results": [{"index": 0, "relevance_score": -1.78}]},
            [
                ({"results": [{"index": 0, "relevance_score": None}]}, "the score is no number"),
                ({"results": []}, "the answer has no score."),
            ],
        ),
    ],
)
def test_the_other_tasks(
    new: NewServer, server: Server, task: str, path: str, right: Any, wrong: list[tuple[Any, str]]
) -> None:
    new.answer = right
    assert first_answer.require_first_answer(server.url, 30, task=task) == f"{server.url} has answered."
    assert [where for dummy, where, dummy2 in server.requests] == [path]
    for answer, words in wrong:
        new.answer = answer
        assert words in refusal(server, task)


def test_an_error_and_its_message(new: NewServer, server: Server) -> None:
    new.status, new.answer = 400, {"error": {"message": "Pooling type 'none' is not OAI compatible."}}
    assert refusal(server, "embedding") == (
        "the vector of a text was requested of it, and /v1/embeddings answers 400: Pooling type 'none' is not OAI "
        "compatible."
    )


def test_a_server_that_ends_at_the_first_request(new: NewServer, server: Server) -> None:
    new.answer = None
    said = refusal(server)
    assert "/completion broke off (" in said and said.endswith("ended or hung up at its first request.")


@pytest.mark.parametrize("status", [401, 403, 429])
def test_a_server_that_turns_the_hook_away_may_well_serve(new: NewServer, server: Server, status: int) -> None:
    new.status, new.answer = status, {"error": {"message": "Invalid API Key"}}
    said = first_answer.require_first_answer(server.url, 30)
    assert f"was not asked for a first answer: /completion answers {status}: Invalid API Key." in said


def test_a_busy_or_slow_server_serves_and_a_silent_one_does_not(
    new: NewServer, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    new.seconds, new.busy = 1.0, 0
    with pytest.raises(TuningError, match=r"3 tokens were requested of it, and no answer came in time\."):
        first_answer.require_first_answer(server.url, 0.2)
    for new.busy, words in ((1, "has 1 request in progress"), (4, "has 4 requests in progress")):
        assert words in first_answer.require_first_answer(server.url, 0.2)


def test_vllm_needs_the_name_of_its_model(new: NewServer, server: Server) -> None:
    new.answer = vllm_completion(-0.2, -0.1)
    said = first_answer.require_first_answer(server.url, 30, models=["small"], row=VLLM)
    assert said == f"{server.url} has answered; its first token has a probability of 82 %."
    assert [path for dummy, path, dummy2 in server.requests] == ["/v1/completions"]
    assert new.bodies[0]["model"] == "small" and new.bodies[0]["max_tokens"] <= 4
    new.answer = vllm_completion(HALF_FILE, HALF_FILE)
    assert "all tokens of its vocabulary are equally probable" in refusal(server, row=VLLM)


def test_the_hook_of_a_unit(new: NewServer, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wait = ["llama", "answer", server.url, "--timeout", "5"]
    assert _cli.main([*wait, "--task", "completion"]) == 0 and len(new.bodies) == 1
    assert "has answered; its first token" in capsys.readouterr().out
    new.answer = completion(None)
    assert _cli.main([*wait, "--task", "completion"]) == 1
    assert "does not serve: 3 tokens were requested of it" in capsys.readouterr().err
    assert _cli.main([*wait, "--task", "poems"]) == 1
    assert "--task: 'poems' is unknown; use completion, embedding, rerank." in capsys.readouterr().err
    assert _cli.main([*wait, "--task", "completion", "--alias", "small", "--engine", "vllm"]) == 1
    assert new.bodies[-1]["model"] == "small"


def test_of_a_server_that_has_ended_only_the_wait_before_speaks(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INVOCATION_ID", "a")
    with pytest.raises(SystemExit):
        _cli.main(["llama", "answer", server.url, "--timeout", "5", "--task", "completion"])
    assert server.requests == [] and capsys.readouterr().err == ""
