# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""One pass of load: all requests between two readings of the host, and the samples that their answers become."""

from __future__ import annotations

from functools import partial

from ..._errors import TuningError
from . import closed_loop, open_loop, prefix_reuse
from .answer import build_one_stream_sample, fetch_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from .answer import Answer, Sample, Server
    from .request import MeasuringRequest


class LoadPass:
    """Sends the requests of a pass, and remembers their answers.

    ``reasons`` are sentences why the pass is discarded. ``read`` and ``generated`` are the tokens that the server read
    and generated for all requests.
    """

    def __init__(self, server: Server, request: MeasuringRequest) -> None:
        self.reasons: list[str] = []
        self.read = self.generated = 0
        self._server = server
        self._request = request
        self._sample_builders: list[Callable[..., Sample]] = []

    def send_all_prompts(self, times: int, streams: Iterable[int], seed: str) -> None:
        """Send all prompts with one stream ``times`` times, then with each number of streams, then at a rate.

        ``seed`` decides the moments of requests at a rate.
        """
        for dummy in range(times):
            for prompts in self._request.prompts.values():
                answers = closed_loop.fetch_answers_sequentially(self._server, prompts)
                for answer in answers:
                    self._add_answer(answer)
                if self._request.second_turn:
                    second = fetch_answer(self._server, prefix_reuse.build_second_turn(answers[-1]))
                    self._add_answer(second, turn=2, depth=second.cached_tokens)
        for count in streams:
            for prompts in self._request.prompts.values():
                self._send_in_parallel(prompts, count)
        if self._request.rate:
            self._send_at_rate(self._request.rate, seed)

    def send_at_depth(self, context: Sequence[int]) -> None:
        """Send the first prompt of each kind after a context that the server takes from its prefix cache."""
        prompts = [prompts[0] for prompts in self._request.prompts.values()]
        reading, *answers = prefix_reuse.fetch_answers_at_depth(self._server, prompts, context)
        self._add_to_token_totals([reading])
        for answer in answers:
            self._add_answer(answer, depth=len(context))

    def build_samples(
        self, place: Mapping[str, Any], witness: Mapping[str, Any], discard_reason: str | None
    ) -> list[Sample]:
        """Return the samples of all answers for the run document."""
        return [build(place, witness, discard_reason, self._request.slo) for build in self._sample_builders]

    def _add_answer(self, answer: Answer, **fields: Any) -> None:
        self._add_to_token_totals([answer])
        self._sample_builders.append(partial(build_one_stream_sample, answer, **fields))

    def _send_in_parallel(self, prompts: Sequence[Any], streams: int) -> None:
        by_stream = closed_loop.fetch_answers_in_parallel(self._server, prompts, streams)
        self._add_to_token_totals(answer for answers in by_stream for answer in answers)
        try:
            self._sample_builders.append(closed_loop.BusyWindow(by_stream).to_sample)
        except TuningError as error:
            self.reasons.append(str(error))

    def _send_at_rate(self, rate: float, seed: str) -> None:
        planned, answers = open_loop.fetch_answers_at_rate(self._server, self._request.all_prompts, rate, seed)
        self._add_to_token_totals(answers)
        try:
            self._sample_builders.append(open_loop.Arrivals(rate, planned, answers).to_sample)
        except TuningError as error:
            self.reasons.append(str(error))

    def _add_to_token_totals(self, answers: Iterable[Answer]) -> None:
        read, generated = closed_loop.count_prompt_and_output_tokens(answers)
        self.read += read
        self.generated += generated
