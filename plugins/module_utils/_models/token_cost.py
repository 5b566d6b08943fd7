# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cost of a token, from the header of a model: the weights that a token reads, and the numbers that layers store.

A table in which a token looks up one row does not count as read, except for an embedding that is also the output. A
layer stores keys and values of every token, or of the tokens in a sliding window, or only compressed keys (MLA), or one
row of keys for a block of tokens, or a state whose size does not depend on the number of tokens, or nothing. An
architecture that is in no table of known_architectures.py counts as if each layer stored every token. MTP layers, which
draft the next tokens, do not count.
Source: load_arch_hparams() in src/models, and llama-hparams.cpp, of llama.cpp, build 11434.
"""

from __future__ import annotations

from .known_architectures import (
    BLOCK_ARCHITECTURES,
    FIXED_WINDOWS,
    INDEXER_ROWS,
    INTERVALS,
    LAYERS_WITH_OWN_CACHE,
    MLA_ARCHITECTURES,
    STATE_AND_TOKENS,
    STATE_WITHOUT_KEY_HEADS,
    STATES_ONLY,
    WINDOWED_LAYERS,
    WINDOWS,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .gguf import Tensor
    from .model import Model

#: The most layers that the server takes.
MOST_LAYERS = 512
#: The method by which ik_llama.cpp computes with compressed keys by default.
DEFAULT_MLA = 3
#: The key in a header for the width of the indexer's keys.
INDEXER_WIDTH = "attention.indexer.key_length"
#: The length of the blocks of keys for which there is an indexer (DSV4_CSA_RATIO).
INDEXED_BLOCK = 4
#: GLM models of at least this trained context share an indexer between four layers, unless the header says otherwise.
GLM_WITH_SHARED_INDEXERS = 1 << 20
#: The bytes of each number in a state.
STATE_NUMBER_BYTES = 4
#: Tables in which a token looks up one row: by the token (EMBEDDING and the first), by its position, or by its text.
EMBEDDING = "token_embd.weight"
LOOKUP_TABLES = ("per_layer_token_embd.weight", "position_embd.weight", "token_types.weight")
OUTPUT = "output.weight"


class ModelLayers:
    """The layers of a model, as the header describes them, or else as the architecture usually has them."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.architecture = model.architecture
        blocks = self._header_number("block_count")
        blocks = blocks if blocks <= MOST_LAYERS else 0
        ahead = self._header_number("nextn_predict_layers")
        #: The number of layers that a token passes, without the MTP layers at the end.
        self.count = blocks - ahead if ahead < blocks else blocks
        self._blocks = blocks
        heads = self._header_numbers_by_layer("attention.head_count")
        self._heads = heads
        self._key_heads = self._header_numbers_by_layer("attention.head_count_kv") or heads
        most = model.largest_header_number_of_layers("attention.head_count")
        width = self._header_number("embedding_length") // most if most else 0
        self._key = self._header_number("attention.key_length") or width
        self._value = self._header_number("attention.value_length") or width
        self._narrow_key = self._header_number("attention.key_length_swa") or self._key
        self._narrow_value = self._header_number("attention.value_length_swa") or self._value
        self._blocks_of_keys = self._header_numbers_by_layer("attention.compress_ratios")
        self._states = self._find_state_layers()
        self._window_pattern = self._find_window_layers()

    def _header_number(self, key: str) -> int:
        return max(0, self.model.header_number_of_architecture(key) or 0)

    def _header_numbers_by_layer(self, key: str) -> list[int]:
        value: Any = self.model.values.get(f"{self.architecture}.{key}")
        if isinstance(value, list):
            return [max(0, int(number)) for number in value[: self._blocks]] + [0] * (self._blocks - len(value))
        return [max(0, int(value))] * self._blocks if isinstance(value, int) else []

    @property
    def has_known_key_and_value_widths(self) -> bool:
        """Whether the header states how wide keys and values are, as far as the model has any."""
        return bool(self._key and self._value and self._key_heads) or self.architecture in STATES_ONLY

    def _find_state_layers(self) -> Sequence[bool]:
        numbers = self._header_numbers_by_layer("attention.recurrent_layers")
        if numbers:
            return [bool(number) for number in numbers]
        if self.architecture in (*STATES_ONLY, *STATE_AND_TOKENS):
            return [True] * self._blocks
        interval = self._header_number("full_attention_interval") or INTERVALS.get(self.architecture, 0)
        if interval and self.architecture in INTERVALS:
            return [bool((layer + 1) % interval) for layer in range(self._blocks)]
        if self.architecture in STATE_WITHOUT_KEY_HEADS:
            inner = (
                self._header_numbers_by_layer("feed_forward_length") if self.architecture.startswith("nemotron") else []
            )
            return [not heads and not any(inner[layer : layer + 1]) for layer, heads in enumerate(self._key_heads)]
        return [False] * self._blocks

    def has_recurrent_state(self, layer: int) -> bool:
        """Return whether a layer keeps a recurrent state."""
        return bool(self._states[layer])

    def reads_kv_cache(self, layer: int) -> bool:
        """Return whether a layer reads keys and values of earlier tokens, even if another layer stores them."""
        return not self._states[layer] or self.architecture in STATE_AND_TOKENS

    def has_own_kv_cache(self, layer: int) -> bool:
        """Return whether a layer stores keys and values itself."""
        shared = self._header_number("attention.shared_kv_layers")
        cache_layers = LAYERS_WITH_OWN_CACHE.get(self.architecture, self._blocks - shared)
        return layer < cache_layers and self.reads_kv_cache(layer)

    def _find_window_layers(self) -> Sequence[bool]:
        every, first, dummy = WINDOWS.get(self.architecture, (1, False, 0))
        pattern: Any = self.model.values.get(f"{self.architecture}.attention.sliding_window_pattern")
        if isinstance(pattern, list):
            return [bool(number) for number in pattern] + [False] * self._blocks
        every = pattern if isinstance(pattern, int) else every
        return [not every or layer % every != (0 if first else every - 1) for layer in range(self._blocks)]

    @property
    def window_tokens(self) -> int:
        """The sliding window in tokens; 0 where all layers see every token."""
        if self.architecture not in WINDOWS or WINDOWED_LAYERS.get(self.architecture, self.count) != self.count:
            return 0
        stated = self.model.header_number_of_architecture("attention.sliding_window")
        if stated == 0 or (stated is None and not WINDOWS[self.architecture][2]):
            return 0
        return FIXED_WINDOWS.get(self.architecture, stated or WINDOWS[self.architecture][2])

    def is_windowed(self, layer: int) -> bool:
        """Return whether a layer sees only a sliding window of tokens, provided that the model has a window."""
        return bool(self._window_pattern[layer])

    def key_numbers_per_token(self, layer: int) -> int:
        """Return how many numbers a layer stores as the keys of a token."""
        return self._key_heads[layer] * self._head_widths(layer)[0]

    def value_numbers_per_token(self, layer: int) -> int:
        """Return how many numbers a layer stores as the values of a token."""
        return self._key_heads[layer] * self._head_widths(layer)[1]

    def attention_multiplications(self, layer: int) -> int:
        """Return how many multiplications the attention of a layer takes for each token that it reads."""
        heads = self._heads or self._key_heads
        return heads[layer] * sum(self._head_widths(layer)) if self._key_heads[layer] else 0

    def _head_widths(self, layer: int) -> tuple[int, int]:
        if self.window_tokens and self.is_windowed(layer):
            return self._narrow_key, self._narrow_value
        return self._key, self._value

    @property
    def has_compressed_keys(self) -> bool:
        """Whether the keys also contain the values, in a compressed form (MLA)."""
        return self.architecture in BLOCK_ARCHITECTURES or bool(
            self._header_number("attention.key_length_mla") and self._header_number("attention.value_length_mla")
        )

    def tokens_per_row_of_keys(self, layer: int) -> tuple[int, int]:
        """Return how many tokens share a row of keys, which a layer stores beside its window, and the row's numbers.

        Both are 0 for a layer without such rows. A row of the shortest blocks also has the keys of the indexer.
        """
        length = self._blocks_of_keys[layer] if self.architecture in BLOCK_ARCHITECTURES and self._blocks_of_keys else 0
        if not length:
            return 0, 0
        return length, self._key + (self._header_number(INDEXER_WIDTH) if length == INDEXED_BLOCK else 0)

    @property
    def compressed_rank(self) -> int:
        """How many numbers are the compressed keys and values of a token (MLA); 0 where the header does not say it."""
        return self._header_number("attention.kv_lora_rank") if self.architecture in MLA_ARCHITECTURES else 0

    @property
    def compressed_numbers_per_token(self) -> int:
        """How many numbers a layer stores of a token in compressed form, with the rotated part; 0 without MLA."""
        return self.compressed_rank + self._header_number("rope.dimension_count") if self.compressed_rank else 0

    def indexer_numbers_per_token(self, layer: int) -> tuple[int, int]:
        """Return how many numbers of a token the indexer of a layer stores as keys and as values; 0 without an indexer.

        A layer with an indexer chooses by its keys which tokens to read. Only MiniMax M3 also stores values, which no
        graph reads.
        """
        width = self._header_number(INDEXER_WIDTH)
        if not width or not self._has_indexer(layer):
            return 0, 0
        pooled = self.architecture != "qwen4exp" or any(self._blocks_of_keys)
        rows = INDEXER_ROWS.get(self.architecture, 1) if pooled else 1
        return rows * width, self._value if self.architecture == "minimax-m3" else 0

    def _has_indexer(self, layer: int) -> bool:
        if self.architecture in BLOCK_ARCHITECTURES or not self.reads_kv_cache(layer):
            return False
        types = self._header_numbers_by_layer("attention.indexer.types")
        if types:
            return bool(types[layer])
        if self.architecture == "minimax-m3":
            return layer >= self._header_number("leading_dense_block_count")
        if self.architecture == "glm-dsa" and self._header_number("context_length") >= GLM_WITH_SHARED_INDEXERS:
            return layer < 2 or layer % 4 == 2
        return self.architecture != "hy_v4"

    @property
    def state_numbers(self) -> int:
        """How many numbers the states of all layers have for one stream of tokens."""
        recurrent = sum(1 for layer in range(self.count) if self.has_recurrent_state(layer))
        return recurrent * self._state_numbers_per_layer + sum(
            map(self._numbers_kept_of_unfilled_block, range(self.count))
        )

    def _numbers_kept_of_unfilled_block(self, layer: int) -> int:
        """Return how many numbers a layer keeps of the tokens that do not yet fill a block of keys.

        Each token has a key and a score. The shortest blocks overlap: a row is made of two blocks, and each of their
        tokens has two keys and two scores.
        """
        length, numbers = self.tokens_per_row_of_keys(layer)
        return 2 * length * numbers * (4 if length == INDEXED_BLOCK else 1)

    @property
    def _state_numbers_per_layer(self) -> int:
        """How many numbers the state of a recurrent layer has, including the state of its convolution."""
        embedding, head = self._header_number("embedding_length"), self._header_number("wkv.head_size")
        if head:
            shifts = self.model.header_number_of_architecture("token_shift_count")
            return embedding * (2 if shifts is None else shifts) + embedding * head
        before = max(0, self._header_number("ssm.conv_kernel") - 1)
        delta = self._header_number("kda.head_dim")
        if delta:
            heads = self._heads[0] if self._heads else 0
            return 3 * (before or 3) * heads * delta + delta * delta * heads
        if self._header_number("shortconv.l_cache"):
            return embedding * (self._header_number("shortconv.l_cache") - 1)
        inner, size = self._header_number("ssm.inner_size"), self._header_number("ssm.state_size")
        convolution = before * (inner + 2 * self._header_number("ssm.group_count") * size)
        if self.architecture == "minimax-01":
            return convolution + self._key * self._key * (self._heads[0] if self._heads else 0)
        return convolution + size * inner


class TokenWork:
    """The bytes of weights that tokens read, and the number of parameters that compute a token.

    Each token reads all ``dense`` bytes; ``output`` is the part of ``dense`` that belongs to no layer. ``expert`` is
    the size of all routed experts; a token uses ``used`` of ``experts`` experts in each layer.
    """

    __slots__ = ("dense", "dense_parameters", "expert", "expert_parameters", "experts", "output", "used")

    def __init__(
        self,
        dense: float,
        dense_parameters: float,
        expert: float = 0,
        expert_parameters: float = 0,
        experts: int = 0,
        used: int = 0,
        output: float = 0,
    ) -> None:
        self.dense = dense
        self.dense_parameters = dense_parameters
        self.expert = expert
        self.expert_parameters = expert_parameters
        self.experts = experts
        self.used = used
        self.output = output

    @classmethod
    def of_model(cls, model: Model, experts_per_token: int | None = None) -> TokenWork:
        """Return the work of a model; ``experts_per_token`` comes from the header by default."""
        return cls._of_tensors(model, _list_tensors_read_completely(model), experts_per_token)

    @classmethod
    def of_mtp_layers(cls, model: Model) -> TokenWork:
        """Return the work of a model's MTP layers, which draft the next tokens, including the model's output tensor."""
        layers = ModelLayers(model).count
        return cls._of_tensors(
            model, [tensor for tensor in model.tensors if tensor.name == OUTPUT or _layer_number(tensor) >= layers]
        )

    @classmethod
    def _of_tensors(cls, model: Model, tensors: list[Tensor], experts_per_token: int | None = None) -> TokenWork:
        work = cls(0, 0, experts=model.expert_count)
        work.used = experts_per_token or model.header_number_of_architecture("expert_used_count") or model.expert_count
        for tensor in tensors:
            if "_exps." in tensor.name:
                work.expert += tensor.bytes
                work.expert_parameters += tensor.elements
                continue
            work.dense += tensor.bytes
            work.dense_parameters += tensor.elements
            work.output += 0 if tensor.name.startswith("blk.") else tensor.bytes
        return work

    def bytes_read_by_batch(self, tokens: float) -> float:
        """Return the bytes that a batch of tokens reads; a larger batch uses more different experts."""
        return sum(self.bytes_read_by_batch_per_part(tokens).values())

    def bytes_read_by_batch_per_part(self, tokens: float) -> dict[str, float]:
        """Return the bytes that a batch reads, by name: ``layers`` with shared experts, ``experts``, ``output``."""
        unused = (1 - self.used / self.experts) ** tokens if self.experts else 1.0
        return {"layers": self.dense - self.output, "experts": self.expert * (1 - unused), "output": self.output}

    @property
    def parameters_per_token(self) -> float:
        """The number of parameters that compute a token."""
        return self.dense_parameters + (self.expert_parameters * self.used / self.experts if self.experts else 0)


def _list_tensors_read_completely(model: Model) -> list[Tensor]:
    tensors = model.tensors
    tables = (*LOOKUP_TABLES, EMBEDDING) if any(tensor.name == OUTPUT for tensor in tensors) else LOOKUP_TABLES
    layers = ModelLayers(model).count
    return [item for item in tensors if item.name not in tables and not (layers and _layer_number(item) >= layers)]


def _layer_number(tensor: Tensor) -> int:
    first, dummy, rest = tensor.name.partition(".")
    number = rest.partition(".")[0]
    return int(number) if first == "blk" and number.isdecimal() else -1
