# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Computes the bytes that decoding reads from memory, by part, and the floating point operations of decoding.

The unit is a step: each stream gets one token, and with a draft model also the accepted tokens of a draft. A step reads
the weights once for all its tokens, and the KV cache of each stream once. Activations, written bytes, and the one row
of the embedding are not counted, because together they are far below one percent for a large model. A layer that
chooses the tokens to read (by an indexer) counts as if it read all tokens.
Source: the graphs in src/models and the kernels in ggml/src/ggml-cpu of llama.cpp, build 11434.
"""

from __future__ import annotations

from .known_architectures import ARCHITECTURES_WITHOUT_CACHE
from .tensor_types import mean_bytes_per_element
from .token_cost import STATE_NUMBER_BYTES, ModelLayers, TokenWork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Model

F16 = ("f16", "f16")


class StepTraffic:
    """The traffic of one step: bytes by part, floating point operations (``flops``), and the number of tokens.

    The parts are ``layers`` (with shared experts), ``experts``, ``output``, ``kv`` (keys and values) and ``state``, and
    for a draft model ``draft`` and ``draft_context``.
    """

    __slots__ = ("flops", "parts", "tokens")

    def __init__(self, parts: dict[str, float], flops: float, tokens: float) -> None:
        self.parts = parts
        self.flops = flops
        self.tokens = tokens

    @property
    def total_bytes(self) -> float:
        """The sum of the bytes of all parts."""
        return sum(self.parts.values())

    def to_dict(self) -> dict[str, object]:
        """Return the traffic as plain data with whole numbers of bytes and operations."""
        parts = {name: round(size) for name, size in self.parts.items()}
        return {"parts": parts, "bytes": round(self.total_bytes), "flops": round(self.flops), "tokens": self.tokens}


class DraftModel:
    """A draft model, the number of tokens that it drafts in each step, and the types of its KV cache."""

    __slots__ = ("drafted", "model", "types")

    def __init__(self, model: Model, drafted: float, types: tuple[str, str] = F16) -> None:
        self.model = model
        self.drafted = drafted
        self.types = types


def compute_step_traffic(
    model: Model,
    context: int,
    types: tuple[str, str] = F16,
    streams: int = 1,
    draft: DraftModel | None = None,
    experts_per_token: int | None = None,
    guessed_per_stream: float = 0,
    mla: int = 0,
) -> StepTraffic | None:
    """Return the traffic of a step when each stream has ``context`` tokens; None for a header that states no layers.

    ``types`` are the types of keys and of values by their names in llama.cpp. ``experts_per_token``
    comes from the header by default. ``guessed_per_stream`` is the mean number of tokens that are drafted without a
    model, as by n-grams. ``mla`` is the method by which ik_llama.cpp computes with compressed keys, 0 for llama.cpp.
    """
    work, context_traffic = (
        TokenWork.of_model(model, experts_per_token),
        _context_bytes_and_operations(model, context, types, mla),
    )
    if context_traffic is None:
        return None
    keeps, attention = context_traffic
    tokens = streams * (1 + (draft.drafted if draft else guessed_per_stream))
    parts = {**work.bytes_read_by_batch_per_part(tokens), **{name: streams * size for name, size in keeps.items()}}
    flops = tokens * (2 * work.parameters_per_token + attention)
    if draft:
        guess = compute_step_traffic(draft.model, context, draft.types, streams, mla=mla)
        if guess is None:
            return None
        cache_bytes = guess.parts["kv"] + guess.parts["state"]
        parts |= {
            "draft": draft.drafted * (guess.total_bytes - cache_bytes),
            "draft_context": draft.drafted * cache_bytes,
        }
        flops += draft.drafted * guess.flops
    return StepTraffic(parts, flops, tokens)


def _context_bytes_and_operations(
    model: Model, tokens: int, types: tuple[str, str], mla: int
) -> tuple[dict[str, float], float] | None:
    if model.architecture in ARCHITECTURES_WITHOUT_CACHE:
        return {"kv": 0.0, "state": 0.0}, 0.0
    layers = ModelLayers(model)
    if not layers.count or not layers.has_known_key_and_value_widths:
        return None
    key, value = (mean_bytes_per_element(name) for name in types)
    cache_bytes = attention = 0.0
    for layer in filter(layers.reads_kv_cache, range(layers.count)):
        narrow = layers.window_tokens if layers.is_windowed(layer) else 0
        seen = min(tokens, narrow or tokens)
        cache_bytes += tokens * layers.indexer_numbers_per_token(layer)[0] * key
        length, numbers = layers.tokens_per_row_of_keys(layer)
        cache_bytes += tokens // length * numbers * key if length else 0
        if mla and layers.compressed_rank:
            cache_bytes += seen * layers.compressed_numbers_per_token * key
        else:
            cache_bytes += seen * layers.key_numbers_per_token(layer) * key
            cache_bytes += 0 if layers.has_compressed_keys else seen * layers.value_numbers_per_token(layer) * value
        attention += 2 * (seen + (tokens // length if length else 0)) * layers.attention_multiplications(layer)
    return {"kv": cache_bytes, "state": float(layers.state_numbers * STATE_NUMBER_BYTES)}, attention
