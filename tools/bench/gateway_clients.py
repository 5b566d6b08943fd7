# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clients of the gateway for gateway.py, in its container: reads options as JSON, prints answers as JSON.

- ``conversations`` has a list of user texts for each conversation. Each turn sends all earlier turns of its
  conversation.
- ``order`` has the numbers of conversations in the order of their turns. Without ``order`` each has one turn.
- With ``apart`` each request has a conversation id of its own, so that the gateway sends the request to the server with
  the fewest requests.
- With ``until`` all turns are repeated until that file exists.
- ``watched`` are metrics to sample; the largest value of each is printed.
- With ``up`` the clients send nothing, and wait until that number of servers is up at the gateway.
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

OPTIONS: dict[str, Any] = json.loads(sys.stdin.read())
METRICS = "http://127.0.0.1:8405/metrics"
NUMBERS = itertools.count()


def send_chat_turn(messages: list[dict[str, str]]) -> dict[str, Any]:
    """Send the messages of a turn; return status, text, token counts, seconds, and whether the answer is whole."""
    headers = {"Authorization": f"Bearer {OPTIONS['key']}", "Content-Type": "application/json"}
    if OPTIONS.get("apart"):
        headers["X-Conversation-Id"] = f"apart-{time.monotonic_ns()}-{next(NUMBERS)}"
    body = {"model": "chat", "messages": messages, "max_tokens": OPTIONS["tokens"], "temperature": 0, "stream": True}
    result: dict[str, Any] = {"status": 0, "whole": False, "text": "", "computed": 0, "cached": 0}
    connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=300)
    begun = time.monotonic()
    with suppress(OSError, http.client.HTTPException):
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        result["status"] = response.status
        for line in response:
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                for choice in event.get("choices", ()):
                    result["text"] += choice["delta"].get("content") or ""
                if timings := event.get("timings"):
                    result |= {"computed": timings["prompt_n"], "cached": timings.get("cache_n", 0)}
            result["whole"] |= line.startswith(b"data: [DONE]")
    connection.close()
    return {**result, "seconds": time.monotonic() - begun}


class Conversation:
    """A conversation, whose turns are sent one after the other."""

    def __init__(self, user_texts: list[str]) -> None:
        self._user_texts = iter(user_texts)
        self._messages = [{"role": "system", "content": OPTIONS["system"]}] if "system" in OPTIONS else []
        self._lock = threading.Lock()

    def send_next_turn(self) -> dict[str, Any]:
        with self._lock:
            self._messages.append({"role": "user", "content": next(self._user_texts)})
            answer = send_chat_turn(self._messages)
            self._messages.append({"role": "assistant", "content": answer["text"]})
            return answer


def send_all_turns() -> list[dict[str, Any]]:
    """Send all turns once, in their order."""
    conversations = [Conversation(user_texts) for user_texts in OPTIONS["conversations"]]
    order = OPTIONS.get("order", range(len(conversations)))
    with ThreadPoolExecutor(OPTIONS["clients"]) as pool:
        return list(pool.map(lambda number: conversations[number].send_next_turn(), order))


def sum_metric_lines(url: str, start: str) -> float:
    """Return the sum of the metrics in lines that begin with ``start``."""
    with suppress(OSError), urlopen(url, timeout=2) as answer:
        lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(start))
    return 0


@contextmanager
def track_largest_metrics() -> Iterator[dict[str, float]]:
    """Sample the watched metrics during the block; yield the largest value of each."""
    largest: dict[str, float] = dict.fromkeys(OPTIONS.get("watched", ()), 0)
    ended = threading.Event()

    def sample_metrics() -> None:
        while not ended.wait(0.1):
            for name, (url, start) in OPTIONS["watched"].items():
                largest[name] = max(largest[name], sum_metric_lines(url, start))

    thread = threading.Thread(target=sample_metrics)
    if largest:
        thread.start()
    try:
        yield largest
    finally:
        ended.set()
        if largest:
            thread.join()


def count_servers_up() -> int:
    """Return the number of servers that are up at the gateway."""
    with suppress(OSError), urlopen(METRICS, timeout=2) as answer:
        lines = answer.read().decode().splitlines()
        return sum(line.startswith("haproxy_server_status{") and line.endswith('state="UP"} 1') for line in lines)
    return 0


def main() -> None:
    if "up" in OPTIONS:
        deadline = time.monotonic() + 60
        while count_servers_up() != OPTIONS["up"] and time.monotonic() < deadline:
            time.sleep(0.2)
        print(json.dumps(count_servers_up()))
        return
    with track_largest_metrics() as largest:
        answers = send_all_turns()
        while "until" in OPTIONS and not Path(OPTIONS["until"]).exists():
            answers += send_all_turns()
    print(json.dumps({"answers": answers, "largest": largest}))


main()
