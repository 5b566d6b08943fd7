# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sends requests at a mean rate, whether earlier requests were answered or not, as independent users do.

The pauses between requests are exponential (a Poisson process), and drawn from a seed. Source: queueing theory; the
same load is called "server scenario" by MLPerf.
"""

from __future__ import annotations

import hashlib
import math
import random
import threading
from itertools import cycle, islice

from ..._errors import TuningError
from .answer import SLOW_CLIENT_REASON, combine_answers_to_sample, fetch_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .answer import Answer, Sample, Server, Slo
    from .prompts import Prompt

#: Requests of a round, and the kind of a sample whose prompts have several kinds.
REQUESTS = 24
MIXED_KIND = "mixed"
#: The mean delay of requests must be at most this share of the mean pause between requests.
MOST_LATENESS = 0.05


class Arrivals:
    """The answers to requests that were sent at a rate, and the largest number of requests that were pending at once.

    TuningError where the requests were sent much later than planned, because then the rate was another one.
    """

    def __init__(self, rate: float, planned: Sequence[float], answers: Sequence[Answer]) -> None:
        self.rate = rate
        self.answers = answers
        lateness = sum(answer.begun - moment for answer, moment in zip(answers, planned)) / len(answers)
        if lateness * rate > MOST_LATENESS:
            raise TuningError(
                f"Requests at {rate:g} per second were sent {1000 * lateness:.0f} ms late on average: "
                f"{SLOW_CLIENT_REASON}"
            )
        changes = sorted([(answer.begun, 1) for answer in answers] + [(answer.ended, -1) for answer in answers])
        self.most_pending = pending = 0
        for dummy, change in changes:
            pending += change
            self.most_pending = max(self.most_pending, pending)

    def to_sample(
        self,
        place: Mapping[str, Any],
        witness: Mapping[str, Any],
        discard_reason: str | None = None,
        slo: Slo | None = None,
    ) -> Sample:
        """Return the record of all answers for the run document; its streams are the most requests pending at once."""
        kinds = {answer.prompt.kind for answer in self.answers}
        begin, end = min(answer.begun for answer in self.answers), max(answer.ended for answer in self.answers)
        return combine_answers_to_sample(
            self.answers,
            place,
            witness,
            discard_reason,
            slo,
            kind=kinds.pop() if len(kinds) == 1 else MIXED_KIND,
            streams=self.most_pending,
            rate=self.rate,
            output_n=sum(answer.generated_tokens for answer in self.answers),
            output_ms=1000 * (end - begin),
        )


def draw_arrival_times(rate: float, requests: int, seed: str) -> list[float]:
    """Return the seconds after the begin at which requests are sent; equal seeds give equal times."""
    # The digest is a number, for which Python promises the same random numbers in every version.
    draw = random.Random(int.from_bytes(hashlib.sha256(seed.encode()).digest(), "big"))
    moments, moment = [], 0.0
    for dummy in range(requests):
        moments.append(moment)
        moment -= math.log(1 - draw.random()) / rate
    return moments


def fetch_answers_at_rate(
    server: Server, prompts: Sequence[Prompt], rate: float, seed: str, requests: int = REQUESTS
) -> tuple[list[float], list[Answer]]:
    """Send requests at a mean rate per second, and return the planned moments and the answers, in this order.

    The first error ends the sending, and is raised after the last answer.
    """
    answers: dict[int, Answer] = {}
    errors: list[Exception] = []

    def fetch(number: int, prompt: Prompt) -> None:
        try:
            answers[number] = fetch_answer(server, prompt)
        # The thread that started all requests raises the exception; raised here it would be lost.
        except Exception as error:
            errors.append(error)

    begin = server.clock.monotonic()
    planned = [begin + moment for moment in draw_arrival_times(rate, requests, seed)]
    threads = []
    for number, (moment, prompt) in enumerate(zip(planned, islice(cycle(prompts), requests))):
        server.clock.sleep(max(0.0, moment - server.clock.monotonic()))
        if errors:
            break
        threads.append(threading.Thread(target=fetch, args=(number, prompt), daemon=True))
        threads[-1].start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return planned, [answers[number] for number in range(requests)]
