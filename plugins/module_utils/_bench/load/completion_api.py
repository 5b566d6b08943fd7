# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The completion APIs of llama-server and vLLM: request bodies, events of an answer, and metrics of the server.

llama-server reports its computing time. vLLM reports only token counts, so its times are measured by the client:
prefill lasts until the first text, and generation from the first text on.

Source: tools/server/README.md of llama.cpp (/completion, /metrics); docs/serving/openai_compatible_server.md and
docs/usage/metrics.md of vLLM.
"""

from __future__ import annotations

import uuid

from ..._serving.catalogue import LLAMA as LLAMA_ROW
from ..._serving.catalogue import VLLM as VLLM_ROW
from ..._serving.hooks import event_stream
from ..._serving.verify.trial import Question

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .prompts import Prompt

    Event = Mapping[str, Any]


class LlamaCompletions:
    """The completion API of llama-server.

    ``counters`` are the names of the metrics with all tokens that the server has read and generated since its start,
    and ``pending_metrics`` those with its pending requests. ``metrics_hint`` says how to enable metrics, and
    ``context_hint`` how to enlarge the context. The counters are up to date ``counter_delay`` seconds after an answer.
    """

    path = "/completion"
    counters = ("llamacpp:prompt_tokens_total", "llamacpp:tokens_predicted_total")
    pending_metrics = LLAMA_ROW.active_request_metrics
    metrics_hint = "start it with --metrics"
    context_hint = "give a slot more context (--ctx-size over --parallel)"
    counter_delay = 0.0
    #: Timings without which an answer cannot be measured.
    required_timings = ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms")
    #: Whether a request can decide to take the beginning of its prompt from the prefix cache.
    can_reuse_prefix = True

    def request_body(self, prompt: Prompt) -> dict[str, Any]:
        """Return the request for an answer of exactly ``prompt.tokens`` tokens, by default without prefix cache."""
        # Timings with each token would cost time that real requests do not take.
        body = {**Question(prompt.text, prompt.tokens).to_completion_request(), "timings_per_token": False}
        if prompt.reuses_prefix:
            body["cache_prompt"] = True
        return {**body, "prompt": [*prompt.context, prompt.text]} if prompt.context else body

    def event_text(self, event: Event) -> str:
        """Return the text of a streamed event."""
        return str(event.get("content") or "")

    def is_final_event(self, event: Event) -> bool:
        """Return whether an event is the last of an answer, which has the timings."""
        return bool(event.get("stop"))

    def answer_timings(self, final: Event, begun: float, chunks: Sequence[float]) -> dict[str, float]:
        """Return token counts (``_n``) and milliseconds (``_ms``) of an answer from its final event."""
        timings = event_stream.select_numeric_values(final.get("timings"))
        # A build without cache_n reports the number of tokens of the whole prompt.
        whole = event_stream.select_numeric_values(final).get("tokens_evaluated", timings.get("prompt_n", 0))
        return {"cache_n": whole - timings.get("prompt_n", 0), **timings}

    def missing_timing_message(self, missing: str) -> str:
        """Return the message for an answer without a required timing."""
        return f"tells no {missing}: it is no llama-server, or its version is too old to be measured"


class VllmCompletions:
    """The completion API of vLLM, which is the API of OpenAI; ``model`` is the model name in requests."""

    path = "/v1/completions"
    counters = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")
    pending_metrics = VLLM_ROW.active_request_metrics
    metrics_hint = "start it without --disable-log-stats"
    context_hint = "give it more context (--max-model-len)"
    # vLLM counts the tokens of a step after it has sent the tokens.
    counter_delay = 2.0
    required_timings = LlamaCompletions.required_timings
    can_reuse_prefix = False

    def __init__(self, model: str) -> None:
        self.model = model

    def request_body(self, prompt: Prompt) -> dict[str, Any]:
        """Return the request for ``prompt.tokens`` tokens; a random salt keeps it out of the prefix cache."""
        return {
            "model": self.model,
            "prompt": prompt.text,
            "max_tokens": prompt.tokens,
            "ignore_eos": True,
            "temperature": 0,
            "seed": 1,
            "stream": True,
            "stream_options": {"include_usage": True},
            "cache_salt": uuid.uuid4().hex,
        }

    def event_text(self, event: Event) -> str:
        """Return the text of a streamed event."""
        return "".join(str(choice.get("text") or "") for choice in event.get("choices") or [])

    def is_final_event(self, event: Event) -> bool:
        """Return whether an event is the last of an answer, which has the token counts and no text."""
        return bool(event.get("usage")) and not event.get("choices")

    def answer_timings(self, final: Event, begun: float, chunks: Sequence[float]) -> dict[str, float]:
        """Return token counts from the final event, and milliseconds from the clock of the client.

        Milliseconds are missing where all text came in one piece.
        """
        usage = final["usage"]
        cached = event_stream.select_numeric_values(usage.get("prompt_tokens_details")).get("cached_tokens", 0)
        counted = event_stream.select_numeric_values(usage)
        read, generated = counted.get("prompt_tokens", 0), counted.get("completion_tokens", 0)
        timings = {"cache_n": cached, "prompt_n": read - cached, "predicted_n": generated}
        if len(chunks) > 1 and generated > 1:
            timings["prompt_ms"] = 1000 * (chunks[0] - begun)
            # The first token belongs to the time of the prompt, so the time of the other tokens is scaled to all
            # tokens.
            timings["predicted_ms"] = 1000 * (chunks[-1] - chunks[0]) * generated / (generated - 1)
        return timings

    def missing_timing_message(self, missing: str) -> str:
        """Return the message for an answer without a required timing."""
        if missing.endswith("_ms"):
            return "sent its text in one piece, so that the time of its tokens is not known: ask for more tokens"
        return f"tells no {missing}: it is no vLLM, or its version is too old to be measured"


LLAMA = LlamaCompletions()
