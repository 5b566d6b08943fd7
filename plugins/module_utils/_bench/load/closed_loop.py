# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sends prompts one after the other, or in N parallel streams; a stream sends its next prompt after an answer.

Only the time counts in which all N streams have a pending request. This window begins with the first request of the
last stream, and ends with the last answer of the first stream that has no more prompts. A request that waits while the
server reads another prompt is pending, because such waiting is a cost of several streams. A window is invalid if the
client was too slow to keep N requests pending.
"""

from __future__ import annotations

import threading
from itertools import cycle, islice

from ..._errors import BadRequest, TuningError
from .answer import SLOW_CLIENT_REASON, combine_answers_to_sample, fetch_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from .answer import Answer, Sample, Server, Slo
    from .prompts import Prompt

#: Requests of a stream. The first and the last one are mostly only partly in the window, so there must be more.
REQUESTS_PER_STREAM = 4
#: The mean number of pending requests of N streams must be at least this share of N.
LEAST_SHARE = 0.9


class BusyWindow:
    """The window in which all streams had a pending request.

    ``answers`` are the answers that lie wholly within the window, ``tokens`` is the number of all tokens that arrived
    in the window, and ``concurrency`` is the mean number of pending requests. ``begin`` and ``end`` are seconds of the
    clock.
    """

    def __init__(self, by_stream: Sequence[Sequence[Answer]]) -> None:
        """Compute the window from the answers of each stream; TuningError where too few requests were pending."""
        self.streams = len(by_stream)
        if not all(by_stream):
            raise BadRequest(
                f"A stream of {self.streams} had nothing to ask: give each at least {REQUESTS_PER_STREAM} requests."
            )
        self.begin = max(answers[0].begun for answers in by_stream)
        self.end = min(answers[-1].ended for answers in by_stream)
        all_answers = [answer for answers in by_stream for answer in answers]
        self.answers = [answer for answer in all_answers if answer.begun >= self.begin and answer.ended <= self.end]
        if not self.answers:
            raise BadRequest(
                f"No answer lies wholly in the time in which all {self.streams} streams were busy: ask more, at least "
                f"{REQUESTS_PER_STREAM} requests a stream."
            )
        seconds = self.end - self.begin
        self.tokens = sum(self._tokens_in_window(answer) for answer in all_answers)
        self.concurrency = sum(self._pending_seconds_in_window(answer) for answer in all_answers) / seconds
        if self.concurrency < LEAST_SHARE * self.streams:
            raise TuningError(
                f"{self.streams} streams asked, but only {self.concurrency:.1f} requests were under way on average: "
                f"{SLOW_CLIENT_REASON}",
                concurrency=self.concurrency,
            )

    def to_sample(
        self,
        place: Mapping[str, Any],
        witness: Mapping[str, Any],
        discard_reason: str | None = None,
        slo: Slo | None = None,
    ) -> Sample:
        """Return the record of the window for the run document, as ``build_one_stream_sample`` does for one stream.

        The output is of all streams together in the window. All other fields are of the answers that lie wholly within
        the window.
        """
        return combine_answers_to_sample(
            self.answers,
            place,
            witness,
            discard_reason,
            slo,
            streams=self.streams,
            output_n=round(self.tokens),
            output_ms=1000 * (self.end - self.begin),
        )

    def _tokens_in_window(self, answer: Answer) -> float:
        within = sum(self.begin < moment <= self.end for moment in answer.chunks)
        return answer.generated_tokens * within / len(answer.chunks)

    def _pending_seconds_in_window(self, answer: Answer) -> float:
        return max(0.0, min(answer.ended, self.end) - max(answer.begun, self.begin))


def fetch_answers_sequentially(server: Server, prompts: Iterable[Prompt]) -> list[Answer]:
    """Return the answers to prompts that are sent one after the other."""
    return [fetch_answer(server, prompt) for prompt in prompts]


def count_prompt_and_output_tokens(answers: Iterable[Answer]) -> tuple[int, int]:
    """Return the numbers of prompt tokens and of generated tokens of all answers."""
    read = generated = 0
    for answer in answers:
        read += round(answer.timings["prompt_n"])
        generated += answer.generated_tokens
    return read, generated


def fetch_answers_in_parallel(
    server: Server, prompts: Sequence[Prompt], streams: int, requests: int = REQUESTS_PER_STREAM
) -> list[list[Answer]]:
    """Return a list of answers for each of ``streams`` parallel streams.

    ``requests`` times ``streams`` prompts are sent; after the last prompt comes the first prompt again. A stream takes
    the next prompt that no other stream has taken. The first error stops all streams and is raised.
    """
    if streams < 2 or requests < 2:
        raise BadRequest(f"{streams} streams of {requests} requests are no load: take at least 2 of both.")
    group = _StreamGroup(server, islice(cycle(prompts), streams * requests), streams)
    threads = [threading.Thread(target=group.run_stream, args=(stream,), daemon=True) for stream in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if group.errors:
        raise group.errors[0]
    return group.answers


class _StreamGroup:
    """Streams that take prompts from one queue; ``answers`` has a list of answers for each stream."""

    def __init__(self, server: Server, prompts: Iterator[Prompt], streams: int) -> None:
        self.answers: list[list[Answer]] = [[] for dummy in range(streams)]
        self.errors: list[Exception] = []
        self._server = server
        self._prompts = prompts
        self._lock = threading.Lock()

    def run_stream(self, stream: int) -> None:
        """Run the stream of this number until the queue is empty or any stream has failed."""
        try:
            while True:
                with self._lock:
                    prompt = None if self.errors else next(self._prompts, None)
                if prompt is None:
                    return
                self.answers[stream].append(fetch_answer(self._server, prompt))
        # The thread that started all streams raises the exception; raised here it would be lost.
        except Exception as error:
            with self._lock:
                self.errors.append(error)
