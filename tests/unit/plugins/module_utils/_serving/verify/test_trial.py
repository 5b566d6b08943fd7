# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A short request to a server on the loopback that answers as llama-server does; the real one is in tests/service."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import trial as trials
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import Server, say, serving

COUNTERS = """\
llamacpp:requests_processing {}
llamacpp:requests_deferred 0
llamacpp:spec_decode_num_draft_tokens_total {}
llamacpp:spec_decode_num_accepted_tokens_total {}
llamacpp:spec_decode_num_drafts_total {}
"""


class Llama:
    """What it answers: counters before and after, slots, and the events of the stream."""

    def __init__(self) -> None:
        self.counters = [COUNTERS.format(0, 100, 50, 10), COUNTERS.format(0, 160, 100, 13)]
        self.slots: Any = [{"id": 0, "speculative": True}]
        self.events: list[Any] = [
            {"content": "a", "timings": {"predicted_n": 1, "predicted_per_second": 0.0}},
            {"content": "b", "timings": {"predicted_n": 2, "predicted_per_second": 9.0}},
            {"content": "", "stop": True, "timings": {"predicted_n": 64, "predicted_per_second": 12.5}},
        ]
        self.status = 200
        self.hangs = threading.Event()
        self.hangs.set()
        self.asked: dict[str, Any] = {}

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        if request.path == "/metrics":
            body = self.counters.pop(0) if len(self.counters) > 1 else (self.counters or [""])[0]
            say(request, 200 if body else 501, body.encode())
        elif request.path == "/slots":
            say(request, 200 if self.slots is not None else 501, json.dumps(self.slots).encode())
        elif self.status != 200:
            say(request, self.status, b'{"error":{"code":400,"message":"the request exceeds the context."}}')
        else:
            self.asked = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
            self.stream(request)

    def stream(self, request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        for event in self.events:
            text = event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n"
            request.wfile.write(text.encode())
            request.wfile.flush()
        self.hangs.wait()


@pytest.fixture
def llama() -> Llama:
    return Llama()


@pytest.fixture
def server(llama: Llama) -> Iterator[Server]:
    with serving(llama) as server:
        yield server
        llama.hangs.set()


def rows(count: int, name: str, **more: Any) -> bytes:
    return json.dumps({name: [{"index": number} for number in range(count)], **more}).encode()


@pytest.mark.parametrize(
    ("task", "path", "name", "texts"),
    [("embedding", "/v1/embeddings", "data", "input"), ("rerank", "/v1/rerank", "results", "documents")],
)
def test_a_server_of_another_task_is_asked_for_what_it_does(task: str, path: str, name: str, texts: str) -> None:
    """It may not go on with texts at all, as one whose model only compares them."""
    asked = {}

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked.update(json.loads(request.rfile.read(int(request.headers["Content-Length"]))))
        say(request, 200, rows(trials.ROW_COUNT, name, usage={"prompt_tokens": 700, "total_tokens": 720}))

    with serving(answer) as server:
        trial = trials.run_trial_of_task(server.url, "key", task=task)
    assert [(method, where) for method, where, dummy in server.requests] == [("POST", path)]
    assert server.requests[0][2]["Authorization"] == "Bearer key"
    assert len(asked[texts]) == trials.ROW_COUNT
    assert (trial.tokens, trial.is_complete, trial.reason) == (720, True, "") and trial.rate
    assert counts(trial) == (None, None, None)


@pytest.mark.parametrize(
    ("status", "body", "words", "refused"),
    [
        (501, b'{"error":{"message":"This server does not support embeddings."}}', "answers 501: This server", True),
        (400, b'{"error":{"message":"Pooling type"}}', "answers 400: Pooling type.", True),
        (401, b'{"error":{"message":"Invalid API Key"}}', "answers 401: Invalid API Key.", False),
        (429, b"", "answers 429.", False),
        (500, b"", "answers 500.", False),
        (200, rows(3, "data"), "was asked about 16 texts, and its answer is not about them.", False),
        (200, b"[]", "is not about them.", False),
        (200, b"no JSON", "is not about them.", False),
    ],
)
def test_a_server_that_does_not_do_it(status: int, body: bytes, words: str, refused: bool) -> None:
    with serving(lambda request: say(request, status, body)) as server:
        trial = trials.run_trial_of_task(server.url, None, task="embedding")
    assert trial.tokens == 0 and trial.rate is None and trial.is_refused is refused
    assert trial.reason.startswith("/v1/embeddings ") and words in trial.reason


def test_a_server_that_ends_meanwhile() -> None:
    with serving(lambda request: request.connection.close()) as server:
        assert "/v1/rerank broke off (" in trials.run_trial_of_task(server.url, None, task="rerank").reason
    assert "/v1/rerank broke off (" in trials.run_trial_of_task(server.url, None, task="rerank").reason


def counts(trial: trials.Trial) -> tuple[Any, ...]:
    return trial.drafts, trial.drafted, trial.accepted


def test_the_counters_tell_what_was_guessed(llama: Llama, server: Server) -> None:
    llama.events[-1]["timings"].update(draft_n=1, draft_n_accepted=1)
    trial = trials.run_trial_of_task(server.url, None)
    assert (
        counts(trial) == (3, 60, 50)
        and trial.has_guessed_tokens
        and trial.share_of_right_guesses == pytest.approx(5 / 6)
    )
    assert (trial.tokens, trial.rate, trial.is_complete, trial.speculative, trial.reason) == (64, 12.5, True, True, "")
    assert [path for dummy, path, dummy2 in server.requests] == ["/metrics", "/slots", "/completion", "/metrics"]
    assert llama.asked["temperature"] == 0 and llama.asked["cache_prompt"] is False and llama.asked["n_predict"] == 64


def test_the_key_goes_with_every_request(server: Server) -> None:
    trials.run_trial_of_task(server.url, "sécret")
    sent = {headers.get("Authorization", "").encode("latin-1").decode() for dummy, dummy2, headers in server.requests}
    assert sent == {"Bearer sécret"}


def test_an_older_build_tells_it_in_its_answer(llama: Llama, server: Server) -> None:
    llama.counters = ["llamacpp:requests_processing 0\n"]
    llama.events[-1]["timings"].update(draft_n=60, draft_n_accepted=50)
    assert counts(trials.run_trial_of_task(server.url, None)) == (None, 60, 50)
    del llama.events[-1]["timings"]["draft_n"]
    trial = trials.run_trial_of_task(server.url, None)
    assert (
        counts(trial) == (None, None, None)
        and trial.has_guessed_tokens is None
        and trial.share_of_right_guesses is None
    )


@pytest.mark.parametrize("after", [(0, 0, 0), (160, 100, 5)])
def test_counters_of_a_server_that_began_anew_tell_nothing(
    llama: Llama, server: Server, after: tuple[int, ...]
) -> None:
    llama.counters[1] = COUNTERS.format(0, *after)
    assert trials.run_trial_of_task(server.url, None).has_guessed_tokens is None


def test_nothing_guessed_is_known(llama: Llama, server: Server) -> None:
    llama.counters = llama.counters[:1]
    llama.slots = [{"speculative": False}, {"speculative": False}]
    trial = trials.run_trial_of_task(server.url, None)
    assert trial.has_guessed_tokens is False and trial.speculative is False and trial.share_of_right_guesses is None


@pytest.mark.parametrize("slots", [None, [], [{"id": 0}], {"error": 1}, "x"])
def test_slots_that_do_not_tell(llama: Llama, server: Server, slots: object) -> None:
    llama.slots = slots
    assert trials.run_trial_of_task(server.url, None).speculative is None


def test_what_came_before_the_end_of_the_time_counts(llama: Llama, server: Server) -> None:
    """The counters stand still until the server notices that nobody listens any more."""
    llama.counters = llama.counters[:1]
    del llama.events[-1]
    llama.events[-1]["timings"].update(draft_n=24, draft_n_accepted=20)
    llama.events.append({"content": "c"})
    llama.hangs.clear()
    trial = trials.run_trial_of_task(server.url, None, question=trials.Question(limit=0.3))
    assert (trial.tokens, trial.rate, trial.is_complete, trial.reason) == (2, 9.0, False, "")
    assert counts(trial) == (None, 24, 20)


@pytest.mark.parametrize(
    ("waiting", "reason"),
    [(0, "no token came in 1 s."), (2, "busy: 2 requests were in progress, and no token came in 1 s.")],
)
def test_a_server_that_gives_no_slot(llama: Llama, server: Server, waiting: int, reason: str) -> None:
    llama.counters = [COUNTERS.format(waiting, 0, 0, 0)]
    llama.events = []
    llama.hangs.clear()
    trial = trials.run_trial_of_task(server.url, None, question=trials.Question(limit=1.0))
    assert (trial.tokens, trial.rate, trial.reason) == (0, None, reason)


@pytest.mark.parametrize(
    ("status", "events", "reason"),
    [
        (400, [], "/completion answers 400: the request exceeds the context."),
        (200, [], "its answer has no token."),
        (200, [": ping\n\n", "data: [DONE]\n\n", "data: 5\n\n"], "its answer has no token."),
        (200, [{"error": {"message": "No memory."}}], "/completion broke off: No memory."),
        (200, ['error: {"message": "No memory"}\n\n'], "/completion broke off: No memory."),
        (200, ["error: none\n\n"], "/completion broke off."),
    ],
)
def test_no_answer_says_why(llama: Llama, server: Server, status: int, events: list[Any], reason: str) -> None:
    llama.status, llama.events = status, events
    trial = trials.run_trial_of_task(server.url, None)
    assert (trial.tokens, trial.reason) == (0, reason)


def test_a_server_that_is_gone_says_why() -> None:
    with serving(lambda request: None) as server:
        url = server.url
    assert trials.run_trial_of_task(url, None).reason == "/completion broke off ([Errno 111] Connection refused)."


def test_a_server_that_tells_no_times_is_timed(llama: Llama, server: Server) -> None:
    llama.events = [{"content": "a", "timings": "none"}, {"content": "b"}, {"content": "c"}]
    trial = trials.run_trial_of_task(server.url, None)
    assert trial.tokens == 3 and trial.rate and trial.rate > 0
