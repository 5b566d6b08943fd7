# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests a first answer from a server that has just started, and judges whether the server computes.

A green ``/health`` says only that the model was read: a server aborts at the first request when the header of its model
has a wrong value, and with weights that are zero it serves nonsense. So a start counts as successful after an answer
with probabilities: a few tokens, the vector of a text, or the score of one.

Only what is certain fails a start: an error, a closed connection, a number that is none (NaN, which is null in JSON),
a vector of zeros, and tokens of exactly equal probability. All else, such as an improbable token of a small untrained
model, is a remark in the journal. Source: tools/server/README.md of llama.cpp, and the API of OpenAI.
"""

from __future__ import annotations

import math
import time

from ..._errors import TuningError
from ..catalogue import LLAMA
from . import json_request, server_http

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ..catalogue import EngineRow

COMPLETION, EMBEDDING, RERANK = "completion", "embedding", "rerank"
#: A text that every trained model of language continues with confidence.
TEXT = "1 2 3 4 5"
TOKEN_COUNT = 3
#: Keys of an answer whose values are log-probabilities or probabilities: one number, or a list of numbers.
PROBABILITY_KEYS = ("logprob", "prob", "token_logprobs")
#: Where all tokens are equally probable, the weights of the last layer are zero, as in a file of which only the first
#: part was downloaded. The vocabularies of trained models have more tokens than this; those of test models, whose
#: weights may all be zero, have fewer.
SMALLEST_TRAINED_VOCABULARY = 30_000
#: Log-probabilities that differ by less than this are equal.
SAME = 1e-4
#: Below this probability, the most probable token after TEXT is no choice of a trained model.
LEAST_PROBABILITY = 0.01


def require_first_answer(
    url: str,
    timeout: float,
    key: str | None = None,
    task: str = COMPLETION,
    models: Sequence[str | None] = (None,),
    row: EngineRow = LLAMA,
    clock: Any = time,
) -> str:
    """Request an answer of each of ``models`` (None for the only model of a server) and return sentences about them.

    TuningError where an answer proves that the server does not compute, with the request and the answer.
    """
    deadline = clock.monotonic() + timeout
    return "\n".join(_request_first_answer(url, deadline, key, task, model, row, clock) for model in models)


def _request_first_answer(
    url: str, deadline: float, key: str | None, task: str, model: str | None, row: EngineRow, clock: Any
) -> str:
    path, body, requested = _build_request(task, row)
    subject = f"{url}{f', model {model},' if model and row is LLAMA else ''}"
    failed = f"{subject} does not serve: {requested} requested of it, and"
    try:
        body = json_request.add_model_name_to_request(model, body)
        answer = json_request.post_json(url, path, body, deadline, key, clock)
    except json_request.NoAnswerInTime:
        count = _count_requests_in_progress(url, key, row)
        if count:
            return (
                f"{subject} still works on its first answer, and has {count} request{'' if count == 1 else 's'} in "
                "progress. So it was not seen whether its answers are right."
            )
        raise TuningError(f"{failed} no answer came in time.") from None
    except json_request.ErrorAnswer as error:
        if error.is_about_client:
            return f"{subject} was not asked for a first answer: {error}"
        raise TuningError(f"{failed} {error}") from None
    except TuningError as error:
        raise TuningError(f"{failed} {error} The server ended or hung up at its first request.") from None
    reason = "the answer is no JSON object." if not isinstance(answer, dict) else JUDGES[task](answer)
    if reason:
        raise TuningError(f"{failed} {reason}")
    return f"{subject} has answered{_improbable_token_remark(answer) if task == COMPLETION else '.'}"


def _build_request(task: str, row: EngineRow) -> tuple[str, dict[str, Any], str]:
    """Return path and body of the request for a task, and its subject for a sentence."""
    if task == EMBEDDING:
        return "/v1/embeddings", {"input": TEXT}, "the vector of a text was"
    if task == RERANK:
        return "/v1/rerank", {"query": TEXT, "documents": [TEXT]}, "the score of a text was"
    if row is LLAMA:
        # Without cache_prompt, the server does not look for this text in its prompt cache.
        body: dict[str, Any] = {"n_predict": TOKEN_COUNT, "n_probs": 2, "cache_prompt": False}
    else:
        body = {"max_tokens": TOKEN_COUNT, "logprobs": 2}
    body = {**body, "prompt": TEXT, "temperature": 0, "ignore_eos": True, "stream": False}
    return row.completions, body, f"{TOKEN_COUNT} tokens were"


def _count_requests_in_progress(url: str, key: str | None, row: EngineRow) -> int:
    """Return the number of requests that a server works on, which include the one without an answer; 0 if unknown."""
    status, text = server_http.send_get_request(url, "/metrics", server_http.HEALTH_TIMEOUT, key, is_hook=True)
    numbers = server_http.parse_prometheus_metrics(text) if status == 200 else {}
    return round(sum(numbers.get(name, 0) for name in row.active_request_metrics))


def _wrong_completion_reason(answer: dict[str, Any]) -> str:
    """Return why a completion proves that the server does not compute; "" where it proves no such thing."""
    count = answer.get("tokens_predicted", (answer.get("usage") or {}).get("completion_tokens"))
    if count == 0:
        return "the answer has no token."
    probabilities = list(_list_values(answer, PROBABILITY_KEYS))
    numbers = [number for number in probabilities if _is_finite(number)]
    # A single value that is no number proves nothing: the logarithm of a zero is infinite.
    if probabilities and not numbers:
        return f"the probabilities of its tokens are no numbers{WRONG_MODEL}"
    if numbers and max(numbers) < -math.log(SMALLEST_TRAINED_VOCABULARY) and max(numbers) - min(numbers) < SAME:
        return f"all tokens of its vocabulary are equally probable{WRONG_MODEL}"
    return ""


def _improbable_token_remark(answer: dict[str, Any]) -> str:
    """Return the end of a sentence on an answer: the probability of its first token, where it states one."""
    logarithms = list(_list_values(answer, ("logprob", "token_logprobs")))
    if not logarithms:
        return "."
    probability = math.exp(min(logarithms[0], 0))
    if probability >= LEAST_PROBABILITY:
        return f"; its first token has a probability of {100 * probability:.0f} %."
    return (
        f"; after '{TEXT}' its most probable token has a probability of only {100 * probability:.1g} %, as with an "
        "untrained or a damaged model. Read what it says before you rely on it."
    )


def _wrong_embedding_reason(answer: dict[str, Any]) -> str:
    """Return why the answer to a request for a vector is wrong; "" where it is right."""
    vectors = list(_list_values(answer.get("data"), ("embedding",)))
    if not vectors:
        return "the answer has no vector."
    if not all(_is_finite(number) for number in vectors):
        return f"the vector has a number that is none{WRONG_MODEL}"
    return "" if any(vectors) else f"all numbers of the vector are zero{WRONG_MODEL}"


def _wrong_score_reason(answer: dict[str, Any]) -> str:
    """Return why the answer to a request for a score is wrong; "" where it is right."""
    scores = list(_list_values(answer.get("results"), ("relevance_score", "score")))
    if not scores:
        return "the answer has no score."
    return "" if all(_is_finite(score) for score in scores) else f"the score is no number{WRONG_MODEL}"


def _list_values(value: Any, keys: Sequence[str]) -> Iterator[Any]:
    """Yield the values of these keys at any depth of a JSON value; the elements, where a value is a list."""
    if isinstance(value, list):
        for item in value:
            yield from _list_values(item, keys)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in keys:
                yield from _list_values(item, keys)
            elif isinstance(item, list):
                yield from item
            else:
                yield item


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


WRONG_MODEL = ": the file of the model is damaged or incomplete, or this build computes it wrongly."
JUDGES = {COMPLETION: _wrong_completion_reason, EMBEDDING: _wrong_embedding_reason, RERANK: _wrong_score_reason}
