# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How an engine is asked for an answer that is measured, what it says of one, and what it counts.

llama-server tells the time that it computed. vLLM tells tokens only, so that its times are those of the client: the
prompt takes until the first text, and the tokens come from then on.
Source: tools/server/README.md of llama.cpp (/completion, /metrics); docs/serving/openai_compatible_server.md and
docs/usage/metrics.md of vLLM.
"""

from __future__ import annotations

import uuid

from ..._serving.catalogue import LLAMA as LLAMA_ROW
from ..._serving.catalogue import VLLM as VLLM_ROW
from ..._serving.hooks import stream
from ..._serving.verify.trial import Question

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .prompts import Prompt

    Event = Mapping[str, Any]


class Llama:
    """The own API of llama-server.

    ``counters`` are the metrics of the tokens that it has read and made in its life, ``in_work`` those of the requests
    that it has; ``uncounted`` says what to do where they are missing. Counters are true at most ``late`` seconds after
    an answer.
    """

    path = "/completion"
    counters = ("llamacpp:prompt_tokens_total", "llamacpp:tokens_predicted_total")
    in_work = LLAMA_ROW.in_work
    uncounted = "start it with --metrics"
    more_room = "give a slot more context (--ctx-size over --parallel)"
    late = 0.0
    #: What it must tell of each answer.
    told = ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms")

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """Return the request for an answer of exactly so many tokens, of which none comes from a cache."""
        # The final event alone has the timings: to send them with each token costs time that no user spends.
        return {**Question(prompt.text, prompt.tokens).body(), "timings_per_token": False}

    def text(self, event: Event) -> str:
        """Return the text that came with an event."""
        return str(event.get("content") or "")

    def ends(self, event: Event) -> bool:
        """Return whether an event is the one after all text, which says what was done."""
        return bool(event.get("stop"))

    def timings(self, final: Event, begun: float, chunks: Sequence[float]) -> dict[str, float]:
        """Return tokens (``_n``) and milliseconds (``_ms``) of an answer."""
        found = stream.numeric_values(final.get("timings"))
        # Builds without cache_n tell how many tokens the whole prompt has.
        whole = stream.numeric_values(final).get("tokens_evaluated", found.get("prompt_n", 0))
        return {"cache_n": whole - found.get("prompt_n", 0), **found}

    def untold(self, missing: str) -> str:
        """Return why an answer without one of its numbers cannot be measured."""
        return f"tells no {missing}: it is no llama-server, or one too old to be measured"


class Vllm:
    """The completions of vLLM, which several other engines have too; ``model`` is the name that it is asked for."""

    path = "/v1/completions"
    counters = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")
    in_work = VLLM_ROW.in_work
    uncounted = "start it without --disable-log-stats"
    more_room = "give it more context (--max-model-len)"
    # It counts the tokens of a step after they are sent.
    late = 2.0
    told = Llama.told

    def __init__(self, model: str) -> None:
        self.model = model

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """Return the request; what others asked is found in its cache only with the salt of theirs."""
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

    def text(self, event: Event) -> str:
        """Return the text that came with an event."""
        return "".join(str(choice.get("text") or "") for choice in event.get("choices") or [])

    def ends(self, event: Event) -> bool:
        """Return whether an event is the one after all text, which has the usage alone."""
        return bool(event.get("usage")) and not event.get("choices")

    def timings(self, final: Event, begun: float, chunks: Sequence[float]) -> dict[str, float]:
        """Return tokens and milliseconds; those of the client, and none for text that came all at once."""
        usage = final["usage"]
        cached = stream.numeric_values(usage.get("prompt_tokens_details")).get("cached_tokens", 0)
        counted = stream.numeric_values(usage)
        read, made = counted.get("prompt_tokens", 0), counted.get("completion_tokens", 0)
        found = {"cache_n": cached, "prompt_n": read - cached, "predicted_n": made}
        if len(chunks) > 1 and made > 1:
            found["prompt_ms"] = 1000 * (chunks[0] - begun)
            # The first token came with the prompt; the time of the others is made one of all.
            found["predicted_ms"] = 1000 * (chunks[-1] - chunks[0]) * made / (made - 1)
        return found

    def untold(self, missing: str) -> str:
        """Return why an answer without one of its numbers cannot be measured."""
        if missing.endswith("_ms"):
            return "sent its text in one piece, so that the time of its tokens is not known: ask for more tokens"
        return f"tells no {missing}: it is no vLLM, or one too old to be measured"


LLAMA = Llama()
