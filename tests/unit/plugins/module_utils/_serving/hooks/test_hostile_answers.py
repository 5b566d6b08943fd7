# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hooks of a unit, and the trial of verify, before a server whose answers are changed at random.

A server that somebody has taken over answers what he likes, and hooks run as root.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.catalogue import LLAMA, VLLM
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import (
    first_answer,
    server_http,
    slot_files,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import trial
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import say, serving

#: What stands in the place of a value, or of a whole answer.
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 0.5, 10**18, "", "7", "x" * 5000, "\x1b[31m\u202e", [], {}, [[]], [None], {"id": {}}),
    *({"": None}, [{"id": "x"}], -(10**300), "../../etc/passwd", "\x00"),
)
TEXTS = (
    *(b"", b"NaN", b"[NaN]", b'{"a": 1e999}', b"[" * 50_000, b'{"a":' * 50_000, b"\xff\xfe\x00", b"9" * 5000),
    *(b"llamacpp:requests_processing NaN", b"llamacpp:requests_processing +Inf", b"llamacpp:requests_processing 1e400"),
    *(b'llamacpp:requests_processing{a="}"} -1e308\n' * 3, b"\r\n\r\n", b"{" * 3 + b"}" * 3),
)
TOKEN = {"token": "6", "logprob": -0.4, "top_logprobs": [{"token": "", "logprob": -0.5}]}
SLOTS = [
    {"id": number, "id_task": 3, "n_ctx": 512, "n_prompt_tokens": 40, "is_processing": False, "speculative": True}
    for number in range(2)
]
#: An answer of each path that a hook asks.
ANSWERS: dict[str, Any] = {
    "/health": {"status": "ok"},
    "/models": {"data": [{"id": "a", "status": {"value": "loaded"}}]},
    "/slots": SLOTS,
    "/completion": {"content": "66", "tokens_predicted": 2, "completion_probabilities": [TOKEN, TOKEN]},
    "/embedding": [{"index": 0, "embedding": [[0.5, -0.5]]}],
    "/v1/embeddings": {"data": [{"index": 0, "embedding": [0.5, -0.5]}]},
    "/v1/rerank": {"results": [{"index": 0, "relevance_score": 0.5}]},
    "/v1/completions": {"choices": [{"text": "6", "logprobs": {"token_logprobs": [-0.4]}}], "usage": {"a": 1}},
}


def change_at_random(value: Any, draw: random.Random) -> Any:
    """Return a copy of a value in which one part has another value, is missing, or is there twice."""
    value = copy.deepcopy(value)
    place, key = value, None
    while isinstance(place, (dict, list)) and place:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw.choice(keys)
        if not isinstance(place[key], (dict, list)) or not place[key] or draw.random() < 0.3:
            break
        place = place[key]
    if key is None:
        return draw.choice(VALUES)
    way = draw.randrange(4)
    if way == 0:
        del place[key]
    elif way == 1 and isinstance(place, list):
        place.append(draw.choice(VALUES))
    else:
        place[key] = draw.choice(VALUES)
    return value


class ChangedServer:
    """Answers most requests as an engine does, and the path ``changed`` with a changed answer."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.changed = draw.choice([*ANSWERS, "/metrics"])

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        request.rfile.read(int(request.headers.get("Content-Length") or 0))
        path = request.path.partition("?")[0]
        if path == self.changed and self.draw.random() < 0.3:
            return say(request, self.draw.choice((200, 200, 200, 404, 503)), self.draw.choice(TEXTS))
        if path == "/metrics":
            return say(request, 200, f"{LLAMA.active_request_metrics[0]} 0\n".encode())
        answer = ANSWERS.get(path, {"n_saved": 1, "n_written": 2, "n_restored": 1, "timings": {"save_ms": 1}})
        if path == self.changed:
            answer = change_at_random(answer, self.draw)
        text = json.dumps(answer)
        if path == "/completion" and self.draw.random() < 0.5:
            text = (
                f"data: {text}\n\ndata: {json.dumps({**ANSWERS['/completion'], 'stop': True, 'timings': answer})}\n\n"
            )
        return say(request, 200, text.encode())


def try_hooks(url: str, folder: str) -> None:
    """Call each hook once. A TuningError is an answer too; every other error ends the test."""
    question = trial.Question(limit=0.5)
    calls: list[Callable[[], object]] = [
        lambda: server_http.wait_for_health(url, 0.05, models=("a",)),
        lambda: server_http.wait_until_idle(url, 0.05),
        lambda: server_http.wait_until_idle(url, 0.05, models=("a",)),
        lambda: slot_files.save_slots(
            slot_files.Server(url, None, 0.5), folder, 1 << 30, (1024, 64), None, lambda text: None
        ),
        lambda: trial.run_trial_of_task(url, None, question=question),
        lambda: trial.run_trial_of_task(url, None, task="embedding", question=question),
        lambda: trial.run_openai_trial(url, None, trial.time, question, "a", VLLM),
    ]
    for task in ("completion", "embedding", "rerank"):
        for row in (LLAMA, VLLM):
            calls.append(lambda task=task, row=row: first_answer.require_first_answer(url, 0.5, task=task, row=row))
    for call in calls:
        with suppress(TuningError):
            call()


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 60))])
def test_hooks_end_with_a_sentence_whatever_a_server_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(server_http, "PAUSE_SECONDS", 0.01)
    draw = random.Random(seed)
    (tmp_path / slot_files.RUNNING_SERVER).write_text(json.dumps({"files": {}}))
    for dummy in range(6):
        with serving(ChangedServer(draw)) as server:
            try_hooks(server.url, str(tmp_path))
