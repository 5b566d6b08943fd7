# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The load: prompts one after the other, or N streams at once in a closed loop, each asking as soon as it is answered.

Of N streams only the window counts in which all N have a request: from the moment the last stream has begun to the
moment the first one finds nothing more to ask. A request that waits while the server reads the prompt of another one is
under way too, as that is a part of what several streams cost. Only a client that asks too slowly spoils a window.
"""

from __future__ import annotations

import threading
from itertools import cycle, islice
from statistics import median

from ..._errors import BadRequest, TuningError
from .answer import WHERE, ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from .answer import Answer, Sample, Server
    from .prompts import Prompt

#: Requests of each stream: the first and the last mostly lie across the edges of the window.
REQUESTS = 4
#: The share of N that must have been under way on average.
LEAST_SHARE = 0.9


class Window:
    """What N streams did while all were busy.

    ``answers`` are those that lie wholly within it, ``tokens`` counts all that came within it, and ``concurrency`` the
    requests that were under way on average. ``begin`` and ``end`` are seconds of the clock.
    """

    __slots__ = ("answers", "begin", "concurrency", "end", "streams", "tokens")

    def __init__(self, by_stream: Sequence[Sequence[Answer]]) -> None:
        """Cut the window out of what each stream was answered, in order. TuningError where too little was under way."""
        self.streams = len(by_stream)
        if not all(by_stream):
            raise BadRequest(f"A stream of {self.streams} had nothing to ask: give each at least {REQUESTS} requests.")
        self.begin = max(answers[0].begun for answers in by_stream)
        self.end = min(answers[-1].ended for answers in by_stream)
        seen = [answer for answers in by_stream for answer in answers]
        self.answers = [one for one in seen if one.begun >= self.begin and one.ended <= self.end]
        if not self.answers:
            raise BadRequest(
                f"No answer lies wholly in the time in which all {self.streams} streams were busy: ask more, at least "
                f"{REQUESTS} requests a stream."
            )
        seconds = self.end - self.begin
        self.tokens = sum(self._tokens(answer) for answer in seen)
        self.concurrency = sum(self._seconds(answer) for answer in seen) / seconds
        if self.concurrency < LEAST_SHARE * self.streams:
            raise TuningError(
                f"{self.streams} streams asked, but only {self.concurrency:.1f} requests were under way on average: "
                "the program that asks got too little time. Look for what else runs on the housekeeping CPUs.",
                concurrency=self.concurrency,
            )

    def sample(self, where: Mapping[str, Any], witness: Mapping[str, Any], void: str | None = None) -> Sample:
        """Return the record of the window for the run document, as ``answer.sample`` does for one stream.

        Its time is that of the window and its tokens are all that came in it, so that their ratio is what the server
        made for all streams together. The rest is of the answers that lie wholly within it.
        """
        ours = self.answers
        return {
            **{name: where[name] for name in WHERE},
            "kind": ours[0].prompt.kind,
            "streams": self.streams,
            "prompt_n": sum(round(answer.timings["prompt_n"]) for answer in ours),
            "prompt_ms": sum(answer.timings["prompt_ms"] for answer in ours),
            "predicted_n": round(self.tokens),
            "predicted_ms": 1000 * (self.end - self.begin),
            "drafted": sum(answer.drafted for answer in ours),
            "accepted": sum(answer.accepted for answer in ours),
            "ttft_ms": round(median(answer.ttft_ms for answer in ours), 3),
            "gaps_ms": [round(gap, 3) for answer in ours for gap in answer.gaps_ms],
            # Which answers fall into the window is chance, so their texts together say nothing.
            "text_sha256": None,
            "witness": dict(witness),
            "void": void,
        }

    def _tokens(self, answer: Answer) -> float:
        """Return the tokens of an answer that came within the window."""
        within = sum(self.begin < moment <= self.end for moment in answer.chunks)
        return answer.predicted * within / len(answer.chunks)

    def _seconds(self, answer: Answer) -> float:
        """Return the seconds of the window in which a request was under way."""
        return max(0.0, min(answer.ended, self.end) - max(answer.begun, self.begin))


def one_stream(server: Server, prompts: Iterable[Prompt]) -> list[Answer]:
    """Ask prompts one after the other."""
    return [ask(server, prompt) for prompt in prompts]


def counted(answers: Iterable[Answer]) -> tuple[int, int]:
    """Return the tokens that the server read and made for some answers."""
    read = made = 0
    for answer in answers:
        read += round(answer.timings["prompt_n"])
        made += answer.predicted
    return read, made


def many_streams(
    server: Server, prompts: Sequence[Prompt], streams: int, requests: int = REQUESTS
) -> list[list[Answer]]:
    """Ask with some streams at once, ``requests`` times as many prompts as streams, beginning anew after the last one.

    Each stream takes the next prompt that nobody has. Return the answers of each stream, in order. The first error ends
    all of them and is raised.
    """
    if streams < 2 or requests < 2:
        raise BadRequest(f"{streams} streams of {requests} requests are no load: take at least 2 of both.")
    crew = _Crew(server, islice(cycle(prompts), streams * requests), streams)
    threads = [threading.Thread(target=crew.work, args=(place,), daemon=True) for place in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if crew.errors:
        raise crew.errors[0]
    return crew.answers


class _Crew:
    """Streams that share what is to be asked; each keeps its own answers."""

    def __init__(self, server: Server, prompts: Iterator[Prompt], streams: int) -> None:
        self.answers: list[list[Answer]] = [[] for dummy in range(streams)]
        self.errors: list[Exception] = []
        self._server = server
        self._prompts = prompts
        self._lock = threading.Lock()

    def work(self, place: int) -> None:
        """Ask until nothing is left, or something went wrong anywhere."""
        try:
            while True:
                with self._lock:
                    prompt = None if self.errors else next(self._prompts, None)
                if prompt is None:
                    return
                self.answers[place].append(ask(self._server, prompt))
        # Whatever it is has to come out where the load was asked for, not in a thread that nobody looks at.
        except Exception as error:
            with self._lock:
                self.errors.append(error)
