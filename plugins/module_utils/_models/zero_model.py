# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A test model of one layer whose weights are all zero: a server computes a token with it within milliseconds.

The model has weights of several types, because a server has separate code for each type and each kind of CPU.
Source: docs/gguf.md of ggml; the names of values and tensors are those of src/llama-arch.cpp of llama.cpp.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WIDTH = 256
#: The number of each tensor type in a GGUF file, and the bytes of a row of WIDTH weights.
F32, Q8_0, Q4_K, Q6_K = (0, 4 * WIDTH), (8, 272), (12, 144), (14, 210)
#: The numbers of value types in a GGUF file, and their format characters for struct.
UINT32, INT32, FLOAT32, TEXT, ARRAY = 4, 5, 6, 8, 9
STRUCT_FORMATS = {UINT32: "I", INT32: "i", FLOAT32: "f"}
ALIGNMENT = 32

#: The smallest vocabulary of the kind "llama": unknown, begin and end, then one token for each byte.
TOKENS = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % byte for byte in range(256))]
UNKNOWN, CONTROL, BYTE = 2, 3, 6
TOKEN_KINDS = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256]


def build_zero_model_file() -> bytes:
    """Return the content of the GGUF file of the test model."""
    values = [
        _pack_value("general.architecture", TEXT, b"llama"),
        _pack_value("general.name", TEXT, b"nothing"),
        _pack_value("llama.block_count", UINT32, 1),
        _pack_value("llama.context_length", UINT32, 512),
        _pack_value("llama.embedding_length", UINT32, WIDTH),
        _pack_value("llama.feed_forward_length", UINT32, WIDTH),
        _pack_value("llama.attention.head_count", UINT32, 4),
        _pack_value("llama.attention.head_count_kv", UINT32, 4),
        _pack_value("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        _pack_value("llama.rope.dimension_count", UINT32, WIDTH // 4),
        _pack_value("llama.vocab_size", UINT32, len(TOKENS)),
        _pack_value("tokenizer.ggml.model", TEXT, b"llama"),
        _pack_array("tokenizer.ggml.tokens", TEXT, TOKENS),
        _pack_array("tokenizer.ggml.scores", FLOAT32, [0.0] * len(TOKENS)),
        _pack_array("tokenizer.ggml.token_type", INT32, TOKEN_KINDS),
        _pack_value("tokenizer.ggml.unknown_token_id", UINT32, 0),
        _pack_value("tokenizer.ggml.bos_token_id", UINT32, 1),
        _pack_value("tokenizer.ggml.eos_token_id", UINT32, 2),
    ]
    tensors = [
        ("token_embd.weight", Q8_0, len(TOKENS)),
        ("output_norm.weight", F32, 0),
        ("output.weight", Q6_K, len(TOKENS)),
        ("blk.0.attn_norm.weight", F32, 0),
        ("blk.0.attn_q.weight", Q4_K, WIDTH),
        ("blk.0.attn_k.weight", Q8_0, WIDTH),
        ("blk.0.attn_v.weight", Q6_K, WIDTH),
        ("blk.0.attn_output.weight", Q4_K, WIDTH),
        ("blk.0.ffn_norm.weight", F32, 0),
        ("blk.0.ffn_gate.weight", Q4_K, WIDTH),
        ("blk.0.ffn_up.weight", Q4_K, WIDTH),
        ("blk.0.ffn_down.weight", Q4_K, WIDTH),
    ]
    described, size = b"", 0
    for name, (kind, row), rows in tensors:
        shape = (WIDTH, rows) if rows else (WIDTH,)
        described += _pack_text(name.encode()) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, size)
        size += -(-row * max(rows, 1) // ALIGNMENT) * ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join(values) + described
    return head + bytes(-len(head) % ALIGNMENT + size)


def _pack_text(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _pack_scalar(kind: int, value: Any) -> bytes:
    return _pack_text(value) if kind == TEXT else struct.pack(f"<{STRUCT_FORMATS[kind]}", value)


def _pack_value(key: str, kind: int, value: Any) -> bytes:
    return _pack_text(key.encode()) + struct.pack("<I", kind) + _pack_scalar(kind, value)


def _pack_array(key: str, kind: int, values: list[Any]) -> bytes:
    head = struct.pack("<IIQ", ARRAY, kind, len(values))
    return _pack_text(key.encode()) + head + b"".join(_pack_scalar(kind, value) for value in values)
