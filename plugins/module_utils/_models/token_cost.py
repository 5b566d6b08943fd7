# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cost of a token, from the header of a model: the weights that a token reads, and the numbers that layers store.

A table in which a token looks up one row does not count as read, except for an embedding that is also the output. A
layer stores keys and values of every token, or of the tokens in a sliding window, or only compressed keys (MLA), or a
state whose size does not depend on the number of tokens, or nothing. An architecture that is in no table of this file
counts as if each layer stored every token. MTP layers, which draft the next tokens, do not count.
Source: load_arch_hparams() in src/models, and llama-hparams.cpp, of llama.cpp, build 11434.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .gguf import Tensor
    from .model import Model

#: The most layers that the server takes.
MOST_LAYERS = 512
#: By architecture: the length of a group of layers in which one layer sees all tokens (0: no layer does), whether this
#: is the first layer of the group or the last, and the sliding window of the other layers in tokens where the file
#: states none. The file may also state which layers have a window.
WINDOWS = {
    "afmoe": (4, False, 0),
    "cohere2": (4, False, 0),
    "cohere2moe": (4, True, 0),
    "exaone-moe": (4, False, 128),
    "exaone4": (4, False, 4096),
    "gemma2": (2, False, 4096),
    "gemma3": (6, False, 0),
    "gemma3n": (5, False, 0),
    "gemma4": (1, False, 0),
    "gpt-oss": (2, False, 0),
    "granite_swa": (1, False, 0),
    "laguna": (4, True, 0),
    "lfm2": (0, False, 0),
    "llama4": (4, False, 8192),
    "maple": (1, False, 0),
    "mellum": (4, False, 0),
    "mimo2": (1, False, 0),
    "muse-glimmer": (4, False, 0),
    "olmo2": (4, False, 0),
    "plamo3": (8, False, 0),
    "smallthinker": (4, True, 0),
    "spark2_5": (1, False, 0),
    "step35": (1, False, 0),
}
#: Sliding windows in tokens that the server itself sets, unless the file states a window of 0.
FIXED_WINDOWS = {"llama4": 8192, "smallthinker": 4096}
#: Architectures whose models have windows only with this number of layers.
WINDOWED_LAYERS = {"exaone4": 64}
#: The number of first layers that have a cache of their own. Each later layer reads the cache of one of these layers.
LAYERS_WITH_OWN_CACHE = {"gemma3n": 20}
#: The length of a group of layers in which one layer stores tokens; the other layers of the group keep a state.
INTERVALS = {"minimax-01": 8, "qwen35": 4, "qwen35moe": 4, "qwen3next": 4, "qwen4exp": 4}
#: Architectures whose layers without key heads keep a state.
STATE_WITHOUT_KEY_HEADS = (
    *("bailingmoe3", "glm5-next", "granitehybrid", "jamba", "kimi-k3", "kimi-linear", "lfm2", "lfm2moe", "nemotron_h"),
    *("nemotron_h_moe", "plamo2"),
)
#: Architectures in which each layer both keeps a state and stores tokens.
STATE_AND_TOKENS = ("falcon-h1",)
STATES_ONLY = ("arwkv7", "mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7")
#: Architectures that read a whole text at once and store no tokens.
ARCHITECTURES_WITHOUT_CACHE = (
    *("bert", "dream", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "llada", "llada-moe"),
    *("modern-bert", "neo-bert", "nomic-bert", "nomic-bert-moe", "rnd1"),
)
#: Architectures with compressed keys (MLA), which ik_llama.cpp stores compressed in any file; llama.cpp stores the keys
#: and values of each head for a file that describes heads. Source: is_mla_model() in src/llama-model.h of ik_llama.cpp.
MLA_ARCHITECTURES = ("bailingmoe3", "deepseek2", "glm-dsa", "mistral4")
#: The method by which ik_llama.cpp computes with compressed keys by default.
DEFAULT_MLA = 3
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
        return bool(
            self._header_number("attention.key_length_mla") and self._header_number("attention.value_length_mla")
        )

    @property
    def compressed_rank(self) -> int:
        """How many numbers are the compressed keys and values of a token (MLA); 0 where the header does not say it."""
        return self._header_number("attention.kv_lora_rank") if self.architecture in MLA_ARCHITECTURES else 0

    @property
    def compressed_numbers_per_token(self) -> int:
        """How many numbers a layer stores of a token in compressed form, with the rotated part; 0 without MLA."""
        return self.compressed_rank + self._header_number("rope.dimension_count") if self.compressed_rank else 0

    @property
    def indexer_width(self) -> int:
        """The width of the indexer's keys, by which a layer chooses the tokens to read; 0 without an indexer."""
        return self._header_number("attention.indexer.key_length")

    @property
    def state_numbers_per_layer(self) -> int:
        """How many numbers the state of a layer has, including the state of its convolution."""
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
