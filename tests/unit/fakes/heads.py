# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small models that always say the same letter, and heads that guess it, as whole files that a real server takes.

What is said comes out of the token and of what the model computes, which every layer only hands on.
Source: the tensors are those of src/models of llama.cpp, build 11434, and of src/llama-model.cpp of ik_llama.cpp
(8337e4c, August 2026).
"""

from __future__ import annotations

import math
import struct

from ansible_collections.sovereign.epyc.plugins.module_utils._models import zero_model

from . import ggufs

WIDTH, LETTER = 256, zero_model.TOKENS.index(b"<0x43>")
TOKENIZER = [
    ggufs.entry("tokenizer.ggml.model", "8", b"llama"),
    ggufs.entry("tokenizer.ggml.tokens", "A8", zero_model.TOKENS),
    ggufs.entry("tokenizer.ggml.scores", "Af", [0.0] * len(zero_model.TOKENS)),
    ggufs.entry("tokenizer.ggml.token_type", "Ai", zero_model.TOKEN_KINDS),
    *(
        ggufs.entry(f"tokenizer.ggml.{name}_token_id", "I", number)
        for number, name in enumerate(("unknown", "bos", "eos"))
    ),
]
EMBEDDING = ("token_embd.weight", (WIDTH, len(zero_model.TOKENS)))
OUTPUT = ("output.weight", (WIDTH, len(zero_model.TOKENS)))
NORM = ("output_norm.weight", (WIDTH,))


def model(layers: int = 2) -> bytes:
    """A model that says nothing else."""
    tensors = [EMBEDDING, NORM, OUTPUT, *(one for number in range(layers) for one in _layer(number))]
    return _file("llama", layers, tensors)


def experts() -> bytes:
    """The same with four experts in each layer, of which two work for each token."""
    tensors = [EMBEDDING, NORM, OUTPUT]
    for number in range(2):
        tensors += [(name, shape) for name, shape in _layer(number) if ".ffn_" not in name or "norm" in name]
        tensors += [(f"blk.{number}.ffn_gate_inp.weight", (WIDTH, 4))]
        tensors += [(f"blk.{number}.ffn_{part}_exps.weight", (WIDTH, WIDTH, 4)) for part in ("gate", "up", "down")]
    entries = [ggufs.entry("llama.expert_count", "I", 4), ggufs.entry("llama.expert_used_count", "I", 2)]
    return _file("llama", 2, tensors, entries)


def eagle3(width: int = WIDTH, reads: tuple[int, ...] = (0, 1, 2)) -> bytes:
    """An EAGLE-3 head of it."""
    more = [("blk.0.attn_norm_2.weight", (WIDTH,)), ("fc.weight", (3 * WIDTH, WIDTH)), NORM]
    entries = [ggufs.entry("eagle3.target_layers", "AI", reads), ggufs.entry("eagle3.target_hidden_size", "I", width)]
    return _file("eagle3", 1, [*_layer(0, 2 * WIDTH), *more], entries)


def dflash(reads: tuple[int, ...] = (0,)) -> bytes:
    """A DFlash head of it."""
    norms = [(f"blk.0.attn_{one}_norm.weight", (WIDTH // 4,)) for one in "qk"]
    more = [("fc.weight", (len(reads) * WIDTH, WIDTH)), ("enc.output_norm.weight", (WIDTH,)), NORM, *norms]
    entries = [
        ggufs.entry("dflash.target_layers", "AI", reads),
        ggufs.entry("dflash.block_size", "I", 8),
        ggufs.entry("tokenizer.ggml.mask_token_id", "I", 0),
    ]
    return _file("dflash", 1, [*_layer(0), *more], entries)


def dflash_draft(reads: tuple[int, ...] = (0,)) -> bytes:
    """The same for ik_llama.cpp, which has a form of its own."""
    norms = [(f"blk.0.attn_{one}_norm.weight", (WIDTH // 4,)) for one in "qk"]
    norms += [(f"{one}norm.weight", (WIDTH,)) for one in ("blk.0.post_attention_", "dflash_hidden_", "output_")]
    entries = [
        ggufs.entry("dflash-draft.dflash.target_layer_ids", "AI", reads),
        ggufs.entry("dflash-draft.dflash.n_target_features", "I", len(reads) * WIDTH),
        ggufs.entry("dflash-draft.dflash.block_size", "I", 8),
        ggufs.entry("dflash-draft.dflash.mask_token_id", "I", 0),
    ]
    layer = [(name, shape) for name, shape in _layer(0) if "ffn_norm" not in name]
    return _file("dflash-draft", 1, [*layer, ("dflash_fc.weight", (len(reads) * WIDTH, WIDTH)), *norms], entries)


def with_mtp() -> bytes:
    """Another model that says nothing else, with a layer that guesses the next token."""
    more = [("blk.1.nextn.eh_proj.weight", (2 * WIDTH, WIDTH))]
    more += [(f"blk.1.nextn.{one}norm.weight", (WIDTH,)) for one in "eh"]
    entries = [
        ggufs.entry("mimo2.nextn_predict_layers", "I", 1),
        ggufs.entry("mimo2.expert_feed_forward_length", "I", WIDTH),
        ggufs.entry("mimo2.attention.sliding_window", "I", WIDTH),
        ggufs.entry("mimo2.attention.sliding_window_pattern", "AI", [1, 1]),
    ]
    layers = [*_layer(0, fused=True), *_layer(1, fused=True)]
    return _file("mimo2", 2, [EMBEDDING, NORM, OUTPUT, *layers, *more], entries)


def embeds(pooling: int | None = 3) -> bytes:
    """A model whose header states this kind of pooling, the vector of the last token by default."""
    return _qwen3([], pooling)


def ranks() -> bytes:
    """A model with a head for scores."""
    return _qwen3([("cls.output.weight", (WIDTH, 1))], 4)


def _qwen3(more: list[tuple[str, tuple[int, ...]]], pooling: int | None) -> bytes:
    norms = [(f"blk.0.attn_{one}_norm.weight", (WIDTH // 4,)) for one in "qk"]
    entries = [] if pooling is None else [ggufs.entry("qwen3.pooling_type", "I", pooling)]
    return _file("qwen3", 1, [EMBEDDING, NORM, OUTPUT, *_layer(0), *norms, *more], entries)


def _layer(number: int, reads: int = WIDTH, fused: bool = False) -> list[tuple[str, tuple[int, ...]]]:
    parts = {"qkv": 3 * WIDTH} if fused else dict.fromkeys("qkv", WIDTH)
    shapes = {
        "attn_norm": (WIDTH,),
        "ffn_norm": (WIDTH,),
        **{f"attn_{name}": (reads, rows) for name, rows in parts.items()},
        **dict.fromkeys(("attn_output", "ffn_gate", "ffn_up", "ffn_down"), (WIDTH, WIDTH)),
    }
    return [(f"blk.{number}.{name}.weight", shape) for name, shape in shapes.items()]


def _file(
    architecture: str, layers: int, tensors: list[tuple[str, tuple[int, ...]]], more: list[bytes] | None = None
) -> bytes:
    numbers = {
        "block_count": layers,
        "context_length": 512,
        "embedding_length": WIDTH,
        "feed_forward_length": WIDTH,
        "attention.head_count": 4,
        "attention.head_count_kv": 4,
        "rope.dimension_count": WIDTH // 4,
        "vocab_size": len(zero_model.TOKENS),
    }
    entries = [
        ggufs.entry("general.architecture", "8", architecture.encode()),
        *(ggufs.entry(f"{architecture}.{name}", "I", number) for name, number in numbers.items()),
        ggufs.entry(f"{architecture}.attention.layer_norm_rms_epsilon", "f", 1e-5),
        *TOKENIZER,
        *(more or []),
    ]
    described, weights = [], b""
    for name, shape in tensors:
        described.append(ggufs.tensor(name, shape, 0, len(weights)))
        weights += _weights(name, shape)
    return ggufs.gguf(entries, described) + weights


def _weights(name: str, shape: tuple[int, ...]) -> bytes:
    """Ones for norms and what tokens are, a row of ones for the letter, what hands its input on, and else zeros."""
    numbers = [0.0] * math.prod(shape)
    if "norm" in name or name == EMBEDDING[0]:
        numbers = [1.0] * len(numbers)
    elif name == OUTPUT[0]:
        numbers[LETTER * WIDTH : (LETTER + 1) * WIDTH] = [1.0] * WIDTH
    elif "fc.weight" in name or "eh_proj" in name:
        for row in range(shape[1]):
            numbers[row * shape[0] + row] = 1.0
    return struct.pack(f"<{len(numbers)}f", *numbers)
