# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A test request to the running server of an instance, and the counters of the server about this request.

A server that silently dropped its draft answers like any other: only the counters show that it guessed no tokens.
Source: tools/server/README.md of llama.cpp.
"""

from __future__ import annotations

import time

from ..._errors import TuningError
from ..catalogue import LLAMA
from ..hooks import event_stream, server_http
from ..hooks.json_request import ErrorAnswer, add_model_name_to_request, post_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..catalogue import EngineRow

    Numbers = Mapping[str, float]

#: The seconds that the request may take, and the seconds that reading the counters may take afterwards.
REQUEST_LIMIT = 60.0
COUNTERS_LIMIT = 5.0
#: The phrase is longer than the n-grams of a lookup, which guesses at most the tokens between a match and the end of
#: the text.
PHRASE = (
    "the river runs past seven old mills, under a stone bridge, through green fields and quiet villages, until it "
    "meets the grey sea where ships wait for morning light and a good wind; "
)
#: The text ends within a repeated phrase, so that any model continues it with the same token.
REPEATED_TEXT = PHRASE * 4 + PHRASE.partition(" bridge")[0]
TOKEN_COUNT = 64
COMPLETION_OPTIONS = {
    "temperature": 0,
    "seed": 1,
    "cache_prompt": False,
    # The defaults of the server may penalize repetitions.
    "repeat_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "dry_multiplier": 0.0,
    # The tokens that came before the time was over count too.
    "stream": True,
    "timings_per_token": True,
}
#: The requests to a server that does not complete texts, by its task: path, body, and the key of the rows in the
#: answer, which has a row for each text.
ROW_COUNT = 16
ROW_REQUESTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "embedding": ("/v1/embeddings", {"input": [PHRASE] * ROW_COUNT}, "data"),
    "rerank": ("/v1/rerank", {"query": PHRASE, "documents": [PHRASE] * ROW_COUNT}, "results"),
}
DRAFT_COUNTER = "llamacpp:spec_decode_num_drafts_total"
DRAFTED_TOKEN_COUNTER = "llamacpp:spec_decode_num_draft_tokens_total"
ACCEPTED_TOKEN_COUNTER = "llamacpp:spec_decode_num_accepted_tokens_total"


class Question:
    """A text to complete, the number of tokens, and the seconds for them; ``at_most`` lets the model end earlier."""

    __slots__ = ("at_most", "limit", "text", "tokens")

    def __init__(
        self, text: str = REPEATED_TEXT, tokens: int = TOKEN_COUNT, limit: float = REQUEST_LIMIT, at_most: bool = False
    ) -> None:
        self.text = text
        self.tokens = tokens
        self.limit = limit
        self.at_most = at_most

    def to_completion_request(self) -> dict[str, Any]:
        """Return the request for ``/completion``."""
        return {**COMPLETION_OPTIONS, "prompt": self.text, "n_predict": self.tokens, "ignore_eos": not self.at_most}


DEFAULT_QUESTION = Question()


class Trial:
    """The result of a test request.

    None stands for a value that the server does not report, and ``reason`` says why no token came. ``speculative`` is
    whether the server reports that its slots can guess tokens. ``other_requests`` is the number of requests that the
    server had before this one. ``is_refused`` is True where the server refused the request, as it refuses the same
    request of every client.
    """

    def __init__(self) -> None:
        self.text = ""
        self.tokens = 0
        self.rate: float | None = None
        self.is_complete = False
        self.reason = ""
        self.is_refused = False
        self.other_requests = 0
        self.speculative: bool | None = None
        self.drafts: int | None = None
        self.drafted: int | None = None
        self.accepted: int | None = None

    @property
    def has_guessed_tokens(self) -> bool | None:
        """Whether the server guessed tokens; None where it does not count them."""
        counts = [count for count in (self.drafts, self.drafted) if count is not None]
        return any(counts) if counts else None

    @property
    def share_of_right_guesses(self) -> float | None:
        """The share of guessed tokens that were right."""
        return (self.accepted or 0) / self.drafted if self.drafted else None


def run_trial_of_task(
    url: str,
    key: str | None,
    clock: Any = time,
    task: str = "completion",
    question: Question = DEFAULT_QUESTION,
    model: str | None = None,
) -> Trial:
    """Request tokens between two readings of the counters; for other tasks, vectors or comparisons of texts."""
    trial = Trial()
    deadline = clock.monotonic() + question.limit
    if task in ROW_REQUESTS:
        _request_vectors_or_comparisons(trial, url, deadline, key, clock, task, model)
        return trial
    before = _fetch_counters_of_server(url, question.limit, key, model)
    trial.speculative = _fetch_whether_slots_speculate(url, deadline - clock.monotonic(), key, model)
    trial.other_requests = round(sum(before.get(name, 0) for name in LLAMA.active_request_metrics))
    timings: Numbers = {}
    first = last = 0.0
    body = add_model_name_to_request(model, question.to_completion_request())
    try:
        for event in event_stream.stream_events(url, body, deadline, key, clock):
            last = clock.monotonic()
            first = first or last
            timings = event_stream.select_numeric_values(event.get("timings")) or timings
            trial.is_complete = bool(event.get("stop"))
            trial.tokens += not trial.is_complete
            trial.text += str(event.get("content", ""))
    except TuningError as error:
        trial.reason = str(error)
    trial.tokens = round(timings.get("predicted_n", trial.tokens))
    trial.rate = timings.get("predicted_per_second") or ((trial.tokens - 1) / (last - first) if last > first else None)
    if not trial.tokens and not trial.reason:
        trial.reason = f"busy: {trial.other_requests} requests were in progress, and " if trial.other_requests else ""
        trial.reason += (
            f"no token came in {question.limit:.0f} s." if clock.monotonic() >= deadline else "its answer has no token."
        )
    _set_guessed_tokens(trial, before, _fetch_counters_of_server(url, COUNTERS_LIMIT, key, model), timings)
    return trial


def run_openai_trial(url: str, key: str | None, clock: Any, question: Question, model: str, row: EngineRow) -> Trial:
    """Request some tokens through the API of OpenAI, whose answer only reports the number of tokens."""
    trial = Trial()
    deadline = clock.monotonic() + question.limit
    before = _fetch_counters_of_server(url, question.limit, key, None)
    trial.other_requests = round(sum(before.get(name, 0) for name in row.active_request_metrics))
    body = {
        "model": model,
        "prompt": question.text,
        "max_tokens": question.tokens,
        "ignore_eos": not question.at_most,
        "temperature": 0,
        "seed": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    first = last = 0.0
    try:
        for event in event_stream.stream_events(url, body, deadline, key, clock, row.completions):
            usage = event_stream.select_numeric_values(event.get("usage"))
            texts = [str(choice.get("text") or "") for choice in event.get("choices") or []]
            if texts:
                last = clock.monotonic()
                first = first or last
                trial.tokens += 1
                trial.text += "".join(texts)
            elif usage:
                trial.is_complete = True
                trial.tokens = round(usage.get("completion_tokens", trial.tokens))
    except TuningError as error:
        trial.reason = str(error)
    trial.rate = (trial.tokens - 1) / (last - first) if last > first else None
    trial.reason = trial.reason or ("" if trial.tokens else "its answer has no token.")
    return trial


def _set_guessed_tokens(trial: Trial, before: Numbers, after: Numbers, timings: Numbers) -> None:
    """Set the guessed tokens from the difference of the counters, or else from the timings of the answer.

    The answer counts where the counters are missing or did not change: they include a request that was cut off only
    later. Counters that went back belong to a restarted server, and say nothing.
    """
    names = (DRAFT_COUNTER, DRAFTED_TOKEN_COUNTER, ACCEPTED_TOKEN_COUNTER)
    if all(name in before and name in after for name in names):
        counts = [round(after[name] - before[name]) for name in names]
        if min(counts) >= 0:
            trial.drafts, trial.drafted, trial.accepted = counts
    if not trial.drafts and timings.get("draft_n"):
        trial.drafts = None
        trial.drafted = round(timings["draft_n"])
        trial.accepted = round(timings.get("draft_n_accepted", 0))


def _request_vectors_or_comparisons(
    trial: Trial, url: str, deadline: float, key: str | None, clock: Any, task: str, model: str | None
) -> None:
    """Request vectors of some texts, or their comparison with another text. The tokens are read, and none is made."""
    path, body, rows = ROW_REQUESTS[task]
    started_at = clock.monotonic()
    try:
        answer = post_json(url, path, add_model_name_to_request(model, body), deadline, key, clock)
    except TuningError as error:
        trial.reason = str(error)
        trial.is_refused = isinstance(error, ErrorAnswer) and error.is_about_request
        return
    seconds = clock.monotonic() - started_at
    result_rows = answer.get(rows) if isinstance(answer, dict) else None
    if not isinstance(result_rows, list) or len(result_rows) != ROW_COUNT:
        trial.reason = f"{path} was asked about {ROW_COUNT} texts, and its answer is not about them."
        return
    trial.is_complete = True
    trial.tokens = round(event_stream.select_numeric_values(answer.get("usage")).get("total_tokens", ROW_COUNT))
    trial.rate = trial.tokens / seconds if seconds else None


def _fetch_counters_of_server(url: str, timeout: float, key: str | None, model: str | None) -> Numbers:
    """Return the counters by name; none where the server does not report them."""
    status, text = server_http.send_get_request(
        url, server_http.path_without_loading_model("/metrics", model), timeout, key
    )
    return server_http.parse_prometheus_metrics(text) if status == 200 else {}


def _fetch_whether_slots_speculate(url: str, timeout: float, key: str | None, model: str | None) -> bool | None:
    status, text = server_http.send_get_request(
        url, server_http.path_without_loading_model("/slots", model), timeout, key
    )
    slots = event_stream.parse_json_or_none(text) if status == 200 else None
    values = [slot.get("speculative") for slot in slots if isinstance(slot, dict)] if isinstance(slots, list) else []
    return any(values) if values and None not in values else None
