# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Computes the size of a KV cache from the header of a model.

A model of an unknown architecture counts as if each of its layers stored every token, so that the computed size is
never too small. The tests compare the sizes with the sizes that a server prints.
Source: src/llama-kv-cache*.cpp and llama-memory-*.cpp of llama.cpp, build 11434.
"""

from __future__ import annotations

from ...._models.known_architectures import ARCHITECTURES_WITHOUT_CACHE
from ...._models.tensor_types import mean_bytes_per_element
from ...._models.token_cost import STATE_NUMBER_BYTES, ModelLayers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...._models.model import Model

#: A cache has room for a multiple of this number of tokens.
CELLS = 256
#: Architectures for which the server keeps a cache of the whole context for each slot, even where slots share a cache.
ARCHITECTURES_WITH_A_CACHE_FOR_EACH_SLOT = ("deepseek4",)


class KvCache:
    """The size of a KV cache: ``bytes`` for all slots, and ``checkpoint``, the bytes of one checkpoint of one slot.

    A checkpoint copies only sliding windows and states, because the server overwrites these. ``full_slot`` are the
    bytes of one slot with as many tokens as it has room for, which are ``tokens``. ``recurrent`` is True where layers
    keep a state.
    """

    __slots__ = ("bytes", "checkpoint", "full_slot", "recurrent", "tokens")

    def __init__(self, size: int, checkpoint: int, full_slot: int, recurrent: bool, tokens: int) -> None:
        self.bytes = size
        self.checkpoint = checkpoint
        self.full_slot = full_slot
        self.recurrent = recurrent
        self.tokens = tokens


class CacheSettings:
    """The settings of a server that decide the size of its KV cache; ``types`` are the types of keys and of values.

    ``context`` is the number of tokens of all slots, ``batch`` the number of tokens in a batch. With ``windows``, a
    layer with a sliding window stores only its window. With ``compressed``, no values are stored where a model has
    compressed keys. With ``flat``, which means without flash attention, the values of all layers are as wide as those
    of the widest layer. ``mla`` is the method by which ik_llama.cpp computes with compressed keys, 0 for none. With
    ``shared``, all slots share one cache, so that each of them has room for the whole context.
    """

    __slots__ = ("batch", "compressed", "context", "flat", "key", "mla", "shared", "slots", "value", "windows")

    def __init__(
        self,
        context: int,
        slots: int,
        batch: int,
        types: tuple[str, str],
        windows: bool = True,
        compressed: bool = True,
        flat: bool = False,
        mla: int = 0,
        shared: bool = False,
    ) -> None:
        self.context = context
        self.slots = slots
        self.batch = batch
        self.key, self.value = (mean_bytes_per_element(name) for name in types)
        self.windows = windows
        self.compressed = compressed
        self.flat = flat
        self.mla = mla
        self.shared = shared

    @property
    def slot_tokens(self) -> int:
        """The number of tokens for which a slot has room."""
        return _round_up_to_cells(_round_up_to_cells(self.context) // (1 if self.shared else self.slots))


def compute_kv_cache_size(model: Model, sizes: CacheSettings) -> KvCache | None:
    """Return the size of the KV cache of a model; None where the header of the model states no layers and heads."""
    header = ModelLayers(model)
    if model.architecture in ARCHITECTURES_WITHOUT_CACHE:
        return KvCache(0, 0, 0, False, sizes.slot_tokens)
    if not header.count or not header.has_known_key_and_value_widths:
        return None
    window = header.window_tokens if sizes.windows else 0
    shared = sizes.shared and model.architecture not in ARCHITECTURES_WITH_A_CACHE_FOR_EACH_SLOT
    # A shared cache has room for the windows of all slots, and for the tokens of one batch.
    windows = window * (sizes.slots if shared else 1)
    narrow = (
        min(sizes.slot_tokens, _round_up_to_cells(min(sizes.slot_tokens, windows + sizes.batch)))
        if window
        else sizes.slot_tokens
    )
    layers = [layer for layer in range(header.count) if header.has_own_kv_cache(layer)]
    wide = max((header.value_numbers_per_token(layer) for layer in layers), default=0)
    whole = windowed = 0.0
    for layer in layers:
        cell = _bytes_of_cell(header, layer, sizes, wide)
        if window and header.is_windowed(layer):
            windowed += cell * narrow
        else:
            whole += cell * sizes.slot_tokens
        length, numbers = header.tokens_per_row_of_keys(layer)
        whole += _round_up_to_cells(-(-sizes.slot_tokens // length)) * numbers * sizes.key if length else 0
    state = header.state_numbers * STATE_NUMBER_BYTES
    size = (1 if shared else sizes.slots) * (whole + windowed) + sizes.slots * state
    full_slot = int(whole + windowed + state)
    return KvCache(int(size), int(windowed + state), full_slot, bool(state), sizes.slot_tokens)


def _bytes_of_cell(header: ModelLayers, layer: int, sizes: CacheSettings, wide: int) -> float:
    """Return the bytes that a layer stores of a token; ``wide`` are the numbers of the widest layer's values."""
    keys_of_indexer, values_of_indexer = header.indexer_numbers_per_token(layer)
    cell = keys_of_indexer * sizes.key + values_of_indexer * sizes.value
    if sizes.mla and header.compressed_rank:
        # Without flash attention, method 1 also stores the compressed values in transposed form.
        first = sizes.key if sizes.mla == 1 or not sizes.flat else sizes.value
        transposed = header.compressed_rank * sizes.value if sizes.mla == 1 and sizes.flat else 0
        return cell + header.compressed_numbers_per_token * first + transposed
    values = wide if sizes.flat else header.value_numbers_per_token(layer)
    cell += header.key_numbers_per_token(layer) * sizes.key
    return cell + (0 if header.has_compressed_keys and sizes.compressed else values * sizes.value)


def _round_up_to_cells(tokens: int) -> int:
    return -(-tokens // CELLS) * CELLS
