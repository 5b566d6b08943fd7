# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sends one prompt to a server, and measures its answer: token counts of the server, arrival times of the text.

The server reports token counts and its computing time; only the client sees when text arrives. A speculating server
sends several tokens at once, so the time per token and the gaps between pieces of text are different figures. A request
is never repeated: an incomplete or wrong answer is an error.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import closing
from statistics import median

from ..._errors import TuningError
from ..._notation.numbers import format_utc_time
from ..._serving.hooks import event_stream
from .completion_api import LLAMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Union

    from .completion_api import LlamaCompletions, VllmCompletions
    from .prompts import Prompt

    Api = Union[LlamaCompletions, VllmCompletions]
    #: A record of the run document.
    Sample = dict[str, Any]
    #: The limits ``first_ms`` and ``per_token_ms`` of a request that counts as good.
    Slo = Mapping[str, float]

#: Why requests are not sent as planned, and what to do.
SLOW_CLIENT_REASON = "the program that asks got too little time. Look for what else runs on the housekeeping CPUs."
#: Default timeout of an answer in seconds.
ANSWER_TIMEOUT = 600.0
#: Fields of a sample that say to which round, arm and start of the server it belongs.
SAMPLE_PLACE_KEYS = ("round", "arm", "start")


class Server:
    """A server: URL, API key, completion API, timeout of an answer in seconds, and the clock that measures.

    ``report_answer`` is called after each answer, by the thread that received it.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        answer_timeout: float = ANSWER_TIMEOUT,
        clock: Any = time,
        api: Api = LLAMA,
    ) -> None:
        self.api = api
        self.url = url.rstrip("/")
        self.key = key
        self.answer_timeout = answer_timeout
        self.clock = clock
        self.report_answer: Callable[[Answer], None] = lambda answer: None


class Answer:
    """A complete answer.

    ``begun``, ``chunks`` and ``ended`` are seconds of the clock: when the request was sent, when each piece of text
    arrived, and when the answer ended. ``timings`` has token counts (``_n``) and milliseconds (``_ms``), measured by
    the server, or by the client where the server reports no times. ``time`` is the UTC time at which the request was
    sent, as text.
    """

    def __init__(
        self,
        prompt: Prompt,
        begun: float,
        chunks: Sequence[float],
        ended: float,
        timings: Mapping[str, float],
        text: str = "",
        time: str | None = None,
    ) -> None:
        self.prompt = prompt
        self.time = time
        self.begun = begun
        self.chunks = chunks
        self.ended = ended
        self.timings = timings
        self.text = text

    @property
    def generated_tokens(self) -> int:
        """The number of generated tokens."""
        return round(self.timings["predicted_n"])

    @property
    def drafted_tokens(self) -> int:
        """The number of tokens that speculation drafted; 0 for a server without speculation."""
        return round(self.timings.get("draft_n", 0))

    @property
    def accepted_tokens(self) -> int:
        """The number of drafted tokens that the model accepted."""
        return round(self.timings.get("draft_n_accepted", 0))

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens per second of generation time."""
        return 1000 * self.timings["predicted_n"] / self.timings["predicted_ms"]

    @property
    def ttft_ms(self) -> float:
        """Time to first token in milliseconds, including the time to connect."""
        return 1000 * (self.chunks[0] - self.begun)

    @property
    def gaps_ms(self) -> list[float]:
        """Milliseconds between consecutive pieces of text."""
        return [1000 * (after - before) for before, after in zip(self.chunks, self.chunks[1:])]

    @property
    def cached_tokens(self) -> int:
        """The number of tokens of the prompt that the server took from its prefix cache."""
        return round(self.timings.get("cache_n", 0))

    @property
    def tpot_ms(self) -> float:
        """Time per output token in milliseconds: the mean over all tokens after the first."""
        return 1000 * (self.chunks[-1] - self.chunks[0]) / (self.generated_tokens - 1)


def fetch_answer(server: Server, prompt: Prompt) -> Answer:
    """Send a prompt and return its answer; TuningError for an answer that is incomplete or not as requested."""
    clock, api = server.clock, server.api
    body = api.request_body(prompt)
    chunks: list[float] = []
    texts: list[str] = []
    final: Mapping[str, Any] = {}
    sent = format_utc_time()
    begun = clock.monotonic()
    end = begun + server.answer_timeout
    try:
        with closing(event_stream.stream_events(server.url, body, end, server.key, clock, api.path)) as events:
            for event in events:
                now = clock.monotonic()
                text = api.event_text(event)
                if text:
                    chunks.append(now)
                    texts.append(text)
                if api.is_final_event(event):
                    final = event
                    break
    except TuningError as error:
        raise TuningError(f"{server.url}{error}") from None
    ended = clock.monotonic()
    if not final:
        raise TuningError(_incomplete_answer_message(server, prompt, begun, chunks, ended >= end))
    timings = api.answer_timings(final, begun, chunks)
    reason = _unmeasurable_answer_reason(api, prompt, timings, chunks)
    if reason:
        raise TuningError(f"{server.url}{api.path} {reason}.")
    answer = Answer(prompt, begun, chunks, ended, timings, "".join(texts), sent)
    server.report_answer(answer)
    return answer


def build_one_stream_sample(
    answer: Answer,
    place: Mapping[str, Any],
    witness: Mapping[str, Any],
    discard_reason: str | None = None,
    slo: Slo | None = None,
    **fields: Any,
) -> Sample:
    """Return the record of an answer with one stream for the run document, with a digest instead of the text.

    ``place`` has the round, the arm, and the number of the server's start. ``fields`` replace computed fields.
    """
    return combine_answers_to_sample(
        [answer],
        place,
        witness,
        discard_reason,
        slo,
        **{
            "prompt": answer.prompt.digest,
            "output_n": answer.generated_tokens,
            "output_ms": 1000 * (answer.ended - answer.begun),
            "text_sha256": hashlib.sha256(answer.text.encode("utf-8", "surrogatepass")).hexdigest(),
            **fields,
        },
    )


def share_within_slo(answers: Sequence[Answer], slo: Slo) -> float:
    """Return the share of answers whose first text and whose later tokens came within the limits."""
    within = [answer.ttft_ms <= slo["first_ms"] and answer.tpot_ms <= slo["per_token_ms"] for answer in answers]
    return sum(within) / len(within)


def combine_answers_to_sample(
    answers: Sequence[Answer],
    place: Mapping[str, Any],
    witness: Mapping[str, Any],
    discard_reason: str | None = None,
    slo: Slo | None = None,
    **fields: Any,
) -> Sample:
    """Return one record of answers to one kind of prompts for the run document; ``fields`` replace default values.

    The default values leave the end-to-end output, ``output_n`` and ``output_ms``, to the caller.
    """
    ttfts = [answer.ttft_ms for answer in answers]
    return {
        **{name: place[name] for name in SAMPLE_PLACE_KEYS},
        "kind": answers[0].prompt.kind,
        "streams": 1,
        "depth": 0,
        "turn": 1,
        "rate": None,
        "time": min((answer.time for answer in answers if answer.time), default=None),
        "prompt": None,
        "prompt_n": sum(round(answer.timings["prompt_n"]) for answer in answers),
        "prompt_ms": sum(answer.timings["prompt_ms"] for answer in answers),
        "predicted_n": sum(answer.generated_tokens for answer in answers),
        "predicted_ms": sum(answer.timings["predicted_ms"] for answer in answers),
        "output_n": None,
        "output_ms": None,
        "drafted": sum(answer.drafted_tokens for answer in answers),
        "accepted": sum(answer.accepted_tokens for answer in answers),
        "ttft_ms": round(median(ttfts), 3),
        "ttfts_ms": [round(ttft, 3) for ttft in ttfts],
        "gaps_ms": [round(gap, 3) for answer in answers for gap in answer.gaps_ms],
        "text_sha256": None,
        "within_slo": None if slo is None else share_within_slo(answers, slo),
        "witness": dict(witness),
        "void": discard_reason,
        **fields,
    }


def _incomplete_answer_message(
    server: Server, prompt: Prompt, begun: float, chunks: Sequence[float], timed_out: bool
) -> str:
    """Return the message for an incomplete answer; ``timed_out`` is False where the server closed the connection."""
    received = f"{len(chunks)} pieces of text for {prompt.tokens} tokens came"
    received += f", the last after {chunks[-1] - begun:.1f} s" if chunks else ""
    if timed_out:
        return (
            f"{server.url}{server.api.path} did not finish in {server.answer_timeout:g} s: {received}. The journal "
            "of the unit says whether it stalled; a slow server needs a longer limit."
        )
    return (
        f"{server.url}{server.api.path} closed the connection in the middle of its answer: {received}. The journal of "
        "the unit says whether the server ended."
    )


def _unmeasurable_answer_reason(api: Api, prompt: Prompt, timings: Mapping[str, float], chunks: Sequence[float]) -> str:
    """Return why a complete answer cannot be measured, an empty text where it can be measured."""
    missing = [name for name in api.required_timings if timings.get(name, 0) <= 0]
    if missing:
        return api.missing_timing_message(missing[0])
    cached = round(timings["cache_n"])
    if cached and not prompt.reuses_prefix:
        return (
            f"took {cached} tokens of the prompt from its cache, which the request forbids, so that reading the prompt "
            "was not measured: remove the flags of the prefix cache from the arguments of the server"
        )
    if timings["predicted_n"] != prompt.tokens:
        return (
            f"made {timings['predicted_n']:.0f} tokens where {prompt.tokens} were asked for: {api.context_hint}, or "
            "ask for less"
        )
    if not chunks:
        return "made tokens but sent no text: the model answers with control tokens alone, so take other prompts"
    return ""
