# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The slots, and the threads that stand for those that compute: they let time pass, a share of it on their CPUs.

A step makes one token for each request that has a slot, and with speculation those that were guessed right. The prompt
of one request is read while the others wait, as in the real server. The threads take the steps in turns. The times that
an answer tells are those of the truth: a machine that is late catches up as soon as it can.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Collection

from .pace import Pace

#: Tokens that a step guesses where the server speculates.
DRAFT = 4


class Request:
    """A request and how far it is. ``events`` gets the number of tokens of each step, and None when all are there."""

    def __init__(self, prompt_n: int, tokens: int) -> None:
        self.prompt_n, self.tokens = prompt_n, tokens
        self.prompt_ms = self.step_ms = self.predicted_ms = self.luck = 0.0
        self.predicted_n = self.drafts = self.drafted = self.accepted = 0
        self.gone = False
        self.events: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def step(self, milliseconds: float, accepted: float | None) -> int:
        """Take a step and return its tokens; ``accepted`` is the share of right guesses, None without speculation."""
        drafted = hits = 0
        if accepted is not None:
            drafted = min(DRAFT, self.tokens - self.predicted_n - 1)
            self.luck += drafted * accepted
            hits = int(self.luck + 1e-9)
            self.luck -= hits
        self.predicted_ms += milliseconds
        self.predicted_n += 1 + hits
        self.drafts += drafted > 0
        self.drafted += drafted
        self.accepted += hits
        return 1 + hits

    def timings(self) -> dict[str, float]:
        """Return what the server tells of it."""
        told = {"cache_n": 0.0, "prompt_n": self.prompt_n, "prompt_ms": self.prompt_ms}
        told.update(predicted_n=self.predicted_n, predicted_ms=self.predicted_ms)
        for name in ("prompt", "predicted"):
            number, spent = told[f"{name}_n"], told[f"{name}_ms"]
            told[f"{name}_per_token_ms"] = spent / number if number else 0.0
            told[f"{name}_per_second"] = 1000 * number / spent if spent else 0.0
        if self.drafted:
            told.update(draft_n=self.drafted, draft_n_accepted=self.accepted)
        return told


class Engine:
    """Requests that wait, requests in slots, and counters of those that have ended."""

    def __init__(self, pace: Pace, slots: int, threads: int, cpus: Collection[int], speculates: bool) -> None:
        self.slots, self.speculates = slots, speculates
        self.ended: dict[str, float] = dict.fromkeys(
            ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "drafts", "drafted", "accepted"), 0
        )
        self.waiting: deque[Request] = deque()
        self.seated: list[Request] = []
        self._pace = pace
        self._asked = 0
        self._due = 0.0
        self._changed = threading.Condition()
        self._batons = [threading.Semaphore(0) for dummy in range(threads)]
        allowed = sorted(cpus)
        for place in range(threads):
            mine = {allowed[place % len(allowed)]} if allowed else None
            threading.Thread(target=self._work, args=(place, mine), name="compute", daemon=True).start()
        self._batons[0].release()

    def submit(self, request: Request) -> None:
        """Have a request worked on, as soon as there is a slot for it."""
        with self._changed:
            self._asked += 1
            if self._pace.truth.dies_after is not None and self._asked > self._pace.truth.dies_after:
                os._exit(1)
            self.waiting.append(request)
            self._changed.notify()

    def _work(self, place: int, cpus: set[int] | None) -> None:
        if cpus:
            os.sched_setaffinity(0, cpus)
        while True:
            self._batons[place].acquire()
            self._step()
            self._batons[(place + 1) % len(self._batons)].release()

    def _step(self) -> None:
        for request in self._seat():
            request.step_ms, per_token = self._pace.next()
            request.prompt_ms = request.prompt_n * per_token
            self._pass(request.prompt_ms)
        milliseconds = max(request.step_ms for request in self.seated)
        self._pass(milliseconds)
        accepted = self._pace.truth.accepted if self.speculates else None
        for request in list(self.seated):
            came = request.step(milliseconds, accepted)
            if request.predicted_n == request.tokens or request.gone:
                self._end(request)
                request.events.put(came)
                request.events.put(None)
            else:
                request.events.put(came)

    def _seat(self) -> list[Request]:
        """Give slots to those who wait; wait for somebody where there is nobody at all."""
        with self._changed:
            if not self.seated:
                self._changed.wait_for(lambda: self.waiting)
                self._due = time.monotonic()
            fresh = [self.waiting.popleft() for dummy in range(min(len(self.waiting), self.slots - len(self.seated)))]
            self.seated += fresh
            return fresh

    def _end(self, request: Request) -> None:
        """Count a request before its last token is told, so that whoever got that finds it counted."""
        with self._changed:
            self.seated.remove(request)
            for name in self.ended:
                self.ended[name] += getattr(request, name)

    def _pass(self, milliseconds: float) -> None:
        self._due += milliseconds / 1000
        end = time.monotonic() + self._pace.truth.busy * milliseconds / 1000
        while time.monotonic() < end:
            pass
        time.sleep(max(0.0, self._due - time.monotonic()))
