# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clients of the gateway for gateway.py, in its container: reads conversations as JSON, prints their answers as JSON.

``conversations`` is a list of what users say, a list for each, and ``order`` tells whose turn is next. Each turn sends
all that was said before. With ``apart`` each request names a conversation of its own, so that the gateway sends it to
the server with the fewest requests. Without ``order`` each conversation has one turn; where ``until`` names a file,
they begin again until it is there. ``watched`` are numbers of /metrics, and the largest of each comes back. With
``up`` alone they wait until so many servers are up at the gateway.
"""

from __future__ import annotations

import http.client
import itertools
import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ASKED: dict[str, Any] = json.loads(sys.stdin.read())
METRICS = "http://127.0.0.1:8405/metrics"
NUMBERS = itertools.count()


def ask(messages: list[dict[str, str]]) -> dict[str, Any]:
    """Send a turn; return its status and whether its answer was complete."""
    headers = {"Authorization": f"Bearer {ASKED['key']}", "Content-Type": "application/json"}
    if ASKED.get("apart"):
        headers["X-Conversation-Id"] = f"apart-{time.monotonic_ns()}-{next(NUMBERS)}"
    body = {"model": "chat", "messages": messages, "max_tokens": ASKED["tokens"], "temperature": 0, "stream": True}
    told: dict[str, Any] = {"status": 0, "whole": False, "text": "", "computed": 0, "cached": 0}
    connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=300)
    with suppress(OSError, http.client.HTTPException):
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        told["status"] = answer.status
        for line in answer:
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                for choice in event.get("choices", ()):
                    told["text"] += choice["delta"].get("content") or ""
                if timings := event.get("timings"):
                    told |= {"computed": timings["prompt_n"], "cached": timings.get("cache_n", 0)}
            told["whole"] |= line.startswith(b"data: [DONE]")
    connection.close()
    return told


class Conversation:
    """A conversation, whose turns are sent one after the other."""

    def __init__(self, says: list[str]) -> None:
        self._says = iter(says)
        self._said = [{"role": "system", "content": ASKED["system"]}] if "system" in ASKED else []
        self._lock = threading.Lock()

    def go_on(self) -> dict[str, Any]:
        with self._lock:
            self._said.append({"role": "user", "content": next(self._says)})
            told = ask(self._said)
            self._said.append({"role": "assistant", "content": told["text"]})
            return told


def talk() -> list[dict[str, Any]]:
    """Send all turns once, in their order."""
    conversations = [Conversation(says) for says in ASKED["conversations"]]
    order = ASKED.get("order", range(len(conversations)))
    with ThreadPoolExecutor(ASKED["clients"]) as pool:
        return list(pool.map(lambda one: conversations[one].go_on(), order))


def number(url: str, start: str) -> float:
    """Return the sum of the metrics in lines that begin so."""
    with suppress(OSError), urlopen(url, timeout=2) as answer:
        lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(start))
    return 0


@contextmanager
def watch() -> Iterator[dict[str, float]]:
    """Sample the metrics until the block ends; yield the largest value of each."""
    largest: dict[str, float] = dict.fromkeys(ASKED.get("watched", ()), 0)
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.1):
            for name, (url, start) in ASKED["watched"].items():
                largest[name] = max(largest[name], number(url, start))

    thread = threading.Thread(target=look)
    if largest:
        thread.start()
    try:
        yield largest
    finally:
        ended.set()
        if largest:
            thread.join()


def up() -> int:
    """Return how many servers are up at the gateway."""
    with suppress(OSError), urlopen(METRICS, timeout=2) as answer:
        lines = answer.read().decode().splitlines()
        return sum(line.startswith("haproxy_server_status{") and line.endswith('state="UP"} 1') for line in lines)
    return 0


def main() -> None:
    if "up" in ASKED:
        deadline = time.monotonic() + 60
        while up() != ASKED["up"] and time.monotonic() < deadline:
            time.sleep(0.2)
        print(json.dumps(up()))
        return
    with watch() as largest:
        answers = talk()
        while "until" in ASKED and not Path(ASKED["until"]).exists():
            answers += talk()
    print(json.dumps({"answers": answers, "largest": largest}))


main()
