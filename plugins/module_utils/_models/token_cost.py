# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a token costs a model: the weights that are read for it, and what each layer keeps of it, from the header.

A table in which a token looks up a row is not read; the embedding is, where it is the output too. A layer keeps keys
and values of every token, or of those in a window, or keys alone in a compressed form (MLA), or a state of one size for
any number of tokens, or nothing of its own. An architecture that is in no table here counts as if each of its layers
kept every token. Layers at the end that only guess the next tokens take no part.
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
#: By architecture: every how many layers one sees all tokens, whether that is the first or the last of them, and the
#: window where the file does not say. 0 layers: none sees all. The file may say which layers see a window.
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
#: Windows that the server sets itself, whatever the file says but 0.
FIXED_WINDOWS = {"llama4": 8192, "smallthinker": 4096}
#: The only number of layers with which one of them has windows.
WINDOWED_LAYERS = {"exaone4": 64}
#: The first layers with a cache of their own; those behind them read it.
OWN_CACHE = {"gemma3n": 20}
#: Every how many layers one keeps tokens and the others a state.
INTERVALS = {"minimax-01": 8, "qwen35": 4, "qwen35moe": 4, "qwen3next": 4, "qwen4exp": 4}
#: Those whose layers without heads of keys keep a state, and those of which every layer keeps both.
BY_HEADS = (
    "bailingmoe3",
    "glm5-next",
    "granitehybrid",
    "jamba",
    "kimi-k3",
    "kimi-linear",
    "lfm2",
    "lfm2moe",
    "nemotron_h",
    "nemotron_h_moe",
    "plamo2",
)
BOTH = ("falcon-h1",)
STATES_ONLY = ("arwkv7", "mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7")
#: They read a whole text at once and keep nothing of it.
NOTHING = (
    "bert",
    "dream",
    "eurobert",
    "gemma-embedding",
    "jina-bert-v2",
    "jina-bert-v3",
    "llada",
    "llada-moe",
    "modern-bert",
    "neo-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "rnd1",
)
#: States are numbers of four bytes.
STATE = 4
#: Tables of rows: what a token is, what each layer adds to it, where it stands, of which text it is.
EMBEDDING = "token_embd.weight"
TABLES = ("per_layer_token_embd.weight", "position_embd.weight", "token_types.weight")
OUTPUT = "output.weight"


class Layers:
    """What the header of a model says of its layers, or its architecture where the header says nothing."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.architecture = model.architecture
        blocks = self._number("block_count")
        blocks = blocks if blocks <= MOST_LAYERS else 0
        ahead = self._number("nextn_predict_layers")
        #: Layers at the end that guess the next tokens are not used.
        self.layers = blocks - ahead if ahead < blocks else blocks
        self._blocks = blocks
        heads = self._for_each("attention.head_count")
        self._heads = heads
        self._key_heads = self._for_each("attention.head_count_kv") or heads
        most = model.largest("attention.head_count")
        width = self._number("embedding_length") // most if most else 0
        self._key = self._number("attention.key_length") or width
        self._value = self._number("attention.value_length") or width
        self._narrow_key = self._number("attention.key_length_swa") or self._key
        self._narrow_value = self._number("attention.value_length_swa") or self._value
        self._states = self._which_states()
        self._window_pattern = self._which_windows()

    def _number(self, key: str) -> int:
        return max(0, self.model.of_architecture(key) or 0)

    def _for_each(self, key: str) -> list[int]:
        """Return a number for each layer: the file has one for all of them, or a list. Empty where it has none."""
        value: Any = self.model.values.get(f"{self.architecture}.{key}")
        if isinstance(value, list):
            return [max(0, int(number)) for number in value[: self._blocks]] + [0] * (self._blocks - len(value))
        return [max(0, int(value))] * self._blocks if isinstance(value, int) else []

    @property
    def says_enough(self) -> bool:
        """Whether the widths of keys and values are known."""
        return bool(self._key and self._value and self._key_heads) or self.architecture in STATES_ONLY

    # Which layers keep what

    def _which_states(self) -> Sequence[bool]:
        told = self._for_each("attention.recurrent_layers")
        if told:
            return [bool(number) for number in told]
        if self.architecture in (*STATES_ONLY, *BOTH):
            return [True] * self._blocks
        interval = self._number("full_attention_interval") or INTERVALS.get(self.architecture, 0)
        if interval and self.architecture in INTERVALS:
            return [bool((layer + 1) % interval) for layer in range(self._blocks)]
        if self.architecture in BY_HEADS:
            inner = self._for_each("feed_forward_length") if self.architecture.startswith("nemotron") else []
            return [not heads and not any(inner[layer : layer + 1]) for layer, heads in enumerate(self._key_heads)]
        return [False] * self._blocks

    def keeps_state(self, layer: int) -> bool:
        """Return whether a layer has a state."""
        return bool(self._states[layer])

    def reads_tokens(self, layer: int) -> bool:
        """Return whether a layer reads keys and values, of its own or of another layer."""
        return not self._states[layer] or self.architecture in BOTH

    def keeps_tokens(self, layer: int) -> bool:
        """Return whether a layer has keys and values of its own."""
        shared = self._number("attention.shared_kv_layers")
        own = OWN_CACHE.get(self.architecture, self._blocks - shared)
        return layer < own and self.reads_tokens(layer)

    def _which_windows(self) -> Sequence[bool]:
        every, first, dummy = WINDOWS.get(self.architecture, (1, False, 0))
        told: Any = self.model.values.get(f"{self.architecture}.attention.sliding_window_pattern")
        if isinstance(told, list):
            return [bool(number) for number in told] + [False] * self._blocks
        every = told if isinstance(told, int) else every
        return [not every or layer % every != (0 if first else every - 1) for layer in range(self._blocks)]

    @property
    def window(self) -> int:
        """How many tokens those layers see that see a window; 0 where all see every token."""
        if self.architecture not in WINDOWS or WINDOWED_LAYERS.get(self.architecture, self.layers) != self.layers:
            return 0
        told = self.model.of_architecture("attention.sliding_window")
        if told == 0 or (told is None and not WINDOWS[self.architecture][2]):
            return 0
        return FIXED_WINDOWS.get(self.architecture, told or WINDOWS[self.architecture][2])

    def sees_window(self, layer: int) -> bool:
        """Return whether a layer sees a window, where the model has one."""
        return bool(self._window_pattern[layer])

    # How much

    def keys(self, layer: int) -> int:
        """Return how many numbers the keys of a token have."""
        return self._key_heads[layer] * self._widths(layer)[0]

    def values(self, layer: int) -> int:
        """Return how many numbers the values of a token have."""
        return self._key_heads[layer] * self._widths(layer)[1]

    def queries(self, layer: int) -> int:
        """Return with how many numbers of a token all heads multiply, keys and values."""
        heads = self._heads or self._key_heads
        return heads[layer] * sum(self._widths(layer)) if self._key_heads[layer] else 0

    def _widths(self, layer: int) -> tuple[int, int]:
        if self.window and self.sees_window(layer):
            return self._narrow_key, self._narrow_value
        return self._key, self._value

    @property
    def compressed(self) -> bool:
        """Whether the keys hold the values too (MLA)."""
        return bool(self._number("attention.key_length_mla") and self._number("attention.value_length_mla"))

    @property
    def indexer(self) -> int:
        """The width of the keys by which a layer chooses the tokens that it reads."""
        return self._number("attention.indexer.key_length")

    @property
    def state(self) -> int:
        """How many numbers the state of a layer has, with those of its convolution."""
        embedding, head = self._number("embedding_length"), self._number("wkv.head_size")
        if head:
            shifts = self.model.of_architecture("token_shift_count")
            return embedding * (2 if shifts is None else shifts) + embedding * head
        before = max(0, self._number("ssm.conv_kernel") - 1)
        delta = self._number("kda.head_dim")
        if delta:
            heads = self._heads[0] if self._heads else 0
            return 3 * (before or 3) * heads * delta + delta * delta * heads
        if self._number("shortconv.l_cache"):
            return embedding * (self._number("shortconv.l_cache") - 1)
        inner, size = self._number("ssm.inner_size"), self._number("ssm.state_size")
        convolution = before * (inner + 2 * self._number("ssm.group_count") * size)
        if self.architecture == "minimax-01":
            return convolution + self._key * self._key * (self._heads[0] if self._heads else 0)
        return convolution + size * inner


class Work:
    """What one token of a model reads, in bytes, and how many parameters it goes through.

    ``dense`` is what each token reads, ``output`` the part of it that belongs to no layer, and ``expert`` what all
    routed experts take, of which a token uses ``used`` of ``experts``.
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
    def of(cls, model: Model, used: int | None = None) -> Work:
        """Return the work of a model; ``used`` experts for each token, None for as many as it says itself."""
        return cls._of(model, _read(model), used)

    @classmethod
    def ahead(cls, model: Model) -> Work:
        """Return the work of the layers at the end of a model that guess the next tokens, with its output."""
        layers = Layers(model).layers
        return cls._of(model, [one for one in model.tensors if one.name == OUTPUT or _layer(one) >= layers])

    @classmethod
    def _of(cls, model: Model, tensors: list[Tensor], used: int | None = None) -> Work:
        work = cls(0, 0, experts=model.experts)
        work.used = used or model.of_architecture("expert_used_count") or model.experts
        for tensor in tensors:
            if "_exps." in tensor.name:
                work.expert += tensor.bytes
                work.expert_parameters += tensor.elements
                continue
            work.dense += tensor.bytes
            work.dense_parameters += tensor.elements
            work.output += 0 if tensor.name.startswith("blk.") else tensor.bytes
        return work

    def bytes(self, tokens: float) -> float:
        """Return the bytes that a batch reads: more tokens use more different experts."""
        return sum(self.parts(tokens).values())

    def parts(self, tokens: float) -> dict[str, float]:
        """Return the bytes that a batch reads, by name: ``layers`` with shared experts, ``experts``, ``output``."""
        unused = (1 - self.used / self.experts) ** tokens if self.experts else 1.0
        return {"layers": self.dense - self.output, "experts": self.expert * (1 - unused), "output": self.output}

    @property
    def parameters(self) -> float:
        """How many parameters each token goes through."""
        return self.dense_parameters + (self.expert_parameters * self.used / self.experts if self.experts else 0)


def _read(model: Model) -> list[Tensor]:
    """Return the tensors that decoding reads."""
    tensors = model.tensors
    tables = (*TABLES, EMBEDDING) if any(tensor.name == OUTPUT for tensor in tensors) else TABLES
    layers = Layers(model).layers
    return [one for one in tensors if one.name not in tables and not (layers and _layer(one) >= layers)]


def _layer(tensor: Tensor) -> int:
    """Return the layer of a tensor, -1 for one of none."""
    first, dummy, rest = tensor.name.partition(".")
    number = rest.partition(".")[0]
    return int(number) if first == "blk" and number.isdecimal() else -1
