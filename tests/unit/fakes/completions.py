# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers of a llama-server to be measured: whole ones with chosen times, events of a stream, and a server of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.answer import Answer
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.prompts import Prompt
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import say

#: A record's place in a run, and a witness who saw nothing.
WHERE = {"round": 3, "arm": "tuned", "start": 2}
WITNESS = {"others": 0.0, "steal": 0.0}


def timings(tokens: int, **more: float) -> dict[str, float]:
    """What a server tells of an answer that took 10 ms a token."""
    return {
        "cache_n": 0,
        "prompt_n": 20,
        "prompt_ms": 100.0,
        "predicted_n": tokens,
        "predicted_ms": 10.0 * tokens,
        **more,
    }


def answer(begun: float, chunks: Sequence[float], *, ended: float | None = None, **more: float) -> Answer:
    """A whole answer, each piece of text a token unless ``predicted_n`` says another number."""
    tokens = int(more.get("predicted_n", len(chunks)))
    last = chunks[-1] if ended is None else ended
    return Answer(Prompt("prose", "Once", tokens), begun, chunks, last, timings(tokens, **more), "text")


def events(tokens: int, **more: float) -> list[dict[str, Any]]:
    """The events of a whole answer."""
    pieces: list[dict[str, Any]] = [{"content": f"{number} ", "stop": False} for number in range(tokens)]
    final = {"content": "", "stop": True, "tokens_evaluated": 20, "timings": timings(tokens, **more)}
    return [*pieces, final]


class Clock:
    """Time that passes only while a stream is read, by chosen delays."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def playing(self, script: Sequence[tuple[float, dict[str, Any]]]) -> Callable[..., Iterator[dict[str, Any]]]:
        """Return what stands in for the reading of a stream: each event after its delay in seconds."""

        def stream(url: str, body: Mapping[str, Any], *rest: object) -> Iterator[dict[str, Any]]:
            for delay, event in script:
                self.now += delay
                yield event

        return stream


class Completions:
    """Answers requests with the same events, and remembers what it was asked and how many it had at once.

    Where it is told to, it waits for so many requests before it answers the first of each.
    """

    def __init__(self, script: Sequence[Any], status: int = 200, together: int = 1) -> None:
        self.script = script
        self.status = status
        self.asked: list[dict[str, Any]] = []
        self.hangs = threading.Event()
        self.hangs.set()
        self._together = threading.Barrier(together)

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        self.asked.append(json.loads(request.rfile.read(int(request.headers["Content-Length"]))))
        if self.status != 200:
            say(request, self.status, json.dumps(self.script[0]).encode())
            return
        self._together.wait(30)
        request.send_response(200)
        request.end_headers()
        for event in self.script:
            request.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.hangs.wait(30)
