# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many tokens each request may have, from the options context, context_per_slot, slots and kv_unified.

A server divides its context evenly among its slots, or keeps the tokens of all slots in one KV cache that they share
(a unified one). Each request may take all of a shared cache, as long as the others leave it; a server whose shared
cache is full ends all its requests with an error. Source: n_ctx_seq in src/llama-context.cpp, and decode() in
tools/server/server-context.cpp, of llama.cpp, build 11434.
"""

from __future__ import annotations

from ..._errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..._models.model import Model

DEFAULT_CONTEXT = 8192
#: Builds of llama.cpp with this flag give each slot of a shared KV cache the whole context. Builds before have the flag
#: --kv-unified only, and divide the context all the same.
SHARED_CACHE_FLAG = "--no-kv-unified"
#: By architecture, why a shared KV cache loses. Source: src/llama-kv-cache-dsv4.cpp and src/models/minimax-m3.cpp of
#: llama.cpp, build 11434.
REASONS_AGAINST_SHARING = {
    "deepseek4": "the server keeps a whole context for each slot of this architecture all the same",
    "minimax-m3": "the server computes this architecture without its sparse attention then, and its answers get worse",
}


def set_context_of_slots(options: Any) -> None:
    """Set ``context`` where the options leave it open; BadRequest for options that contradict each other."""
    if options.context_per_slot is not None:
        total = options.context_per_slot * options.slots
        if options.context not in (None, total):
            raise BadRequest(
                f"context is {options.context}, and context_per_slot {options.context_per_slot} with {options.slots} "
                f"slots makes {total}. Leave one of the two out."
            )
        options.context = total
    elif options.context is None:
        options.context = DEFAULT_CONTEXT
    if options.kv_unified and not options.generates_text:
        raise BadRequest(f"kv_unified has no effect with task {options.task}, which keeps no tokens. Leave it out.")


def shared_cache_refusal_reason(server: Any) -> str:
    """Return why a server cannot share one KV cache among its slots; "" where it can."""
    if server.engine != "llama.cpp":
        return f"{server.engine} always divides the context among the slots"
    return "" if server.has_flag(SHARED_CACHE_FLAG) else "this build always divides the context among the slots"


def reason_against_shared_cache(options: Any, server: Any, models: Sequence[Model]) -> str:
    """Return why the slots of an instance cannot share one KV cache, or gain nothing; "" where they may share it."""
    if not options.generates_text:
        return f"task {options.task} computes each text in one batch"
    reasons = [REASONS_AGAINST_SHARING.get(model.architecture, "") for model in models]
    return shared_cache_refusal_reason(server) or next(filter(None, reasons), "")


def tokens_per_request(options: Any, shared: bool) -> int:
    """Return how many tokens a request may have, its answer included."""
    if shared:
        return int(options.context_per_slot or options.context)
    return int(options.context // options.slots)
