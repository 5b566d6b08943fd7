# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long the requests of a round take, by the times of an instance for a token: measured, recorded, or predicted.

The best source is the warm-up of the run itself. Before a run these times come from the last run of the instance, or
from the bytes that a step reads and the bandwidth of the data sheet.
"""

from __future__ import annotations

import math
from itertools import cycle, islice

from ..load import open_loop
from ..load.closed_loop import REQUESTS_PER_STREAM
from ..load.prefix_reuse import SECOND_TURN_TOKENS
from ..statistics.figures import is_plain_sample
from .last_runs import load_newest_documents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..load.answer import Answer
    from ..load.prompts import Prompt
    from ..load.request import MeasuringRequest

#: The characters of a prompt that are one token, as a rule of thumb.
CHARACTERS_PER_TOKEN = 4
#: A prediction takes this share of the bandwidth of the data sheet, and so many tokens of a prompt in the time of one
#: generated token: usual values of one stream on one socket.
USUAL_BANDWIDTH_SHARE, PROMPT_TOKENS_PER_STEP = 0.5, 5
#: N streams together generate about N to this power times the tokens of one stream.
STREAM_EXPONENT = 0.5


class TokenTimes:
    """Milliseconds for a token of a prompt and for a generated token, with one stream; ``source`` says from where."""

    def __init__(self, prompt_ms: float, output_ms: float, source: str) -> None:
        self.prompt_ms = prompt_ms
        self.output_ms = output_ms
        self.source = source

    def request_seconds(self, prompt: Prompt, streams: int = 1) -> float:
        """Return the seconds by which a request makes a round longer, where ``streams`` requests run at once."""
        reading = len(prompt.text) / CHARACTERS_PER_TOKEN * self.prompt_ms
        writing = prompt.tokens * self.output_ms / math.pow(streams, STREAM_EXPONENT)
        return (reading + writing) / 1000


def list_request_seconds(times: TokenTimes, request: MeasuringRequest, streams: Iterable[int]) -> list[float]:
    """Return the seconds of each request of a pass, in the order in which a pass sends them."""
    prompts = request.prompts
    seconds: list[float] = []
    for of_kind in prompts.values():
        seconds += [times.request_seconds(prompt) for prompt in of_kind]
        if request.second_turn:
            seconds.append(SECOND_TURN_TOKENS * times.output_ms / 1000)
    for count in streams:
        for of_kind in prompts.values():
            sent = islice(cycle(of_kind), count * REQUESTS_PER_STREAM)
            seconds += [times.request_seconds(prompt, count) for prompt in sent]
    return seconds + ([1 / request.rate] * open_loop.REQUESTS if request.rate else [])


def token_times_of_answers(answers: Iterable[Answer]) -> TokenTimes:
    """Return the mean times of answers with one stream, such as those of a warm-up."""
    totals = {name: 0.0 for name in ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms")}
    for answer in answers:
        for name in totals:
            totals[name] += answer.timings[name]
    return TokenTimes(
        totals["prompt_ms"] / totals["prompt_n"], totals["predicted_ms"] / totals["predicted_n"], "the warm-up"
    )


def token_times_of_last_run(folder: str, instance: str) -> TokenTimes | None:
    """Return the times in the newest document of an instance in a folder; None without a document that can be read."""
    for dummy, document in load_newest_documents(folder, instance):
        samples = [sample for sample in document["samples"] if sample["streams"] == 1 and is_plain_sample(sample)]
        prompt_n, prompt_ms, predicted_n, predicted_ms = (
            sum(sample[field] for sample in samples)
            for field in ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms")
        )
        if prompt_n and predicted_n:
            return TokenTimes(prompt_ms / prompt_n, predicted_ms / predicted_n, f"the run of {document['started']}")
    return None


def predict_token_times(step_bytes: float, gbps: float) -> TokenTimes:
    """Return the times of an instance whose steps read so many bytes, at a bandwidth in GB/s of the data sheet."""
    output_ms = step_bytes / (USUAL_BANDWIDTH_SHARE * gbps) / 1e6
    return TokenTimes(output_ms / PROMPT_TOKENS_PER_STEP, output_ms, "the size of the model and the memory bandwidth")
