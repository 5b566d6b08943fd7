# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Model files for tests: headers are written whole, and weights are holes of any size, which take no room."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._models import zero_model

LETTERS = "BbHhIif?8AQqd"
TOKENS = [b"<s>", b"</s>", b"<unk>", b"a", b"b", *(f"token {number}".encode() for number in range(200)), b"\xff\xfe"]


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def entry(key: str, letter: str, value: Any) -> bytes:
    """A value with its key. The letter is the one of struct, 8 for a text, and A before another for an array."""
    head = text(key.encode())
    if letter == "8":
        return head + struct.pack("<I", 8) + text(value)
    if letter == "A8":
        return head + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    if letter[0] == "A":
        kind = LETTERS.index(letter[1])
        return head + struct.pack("<IIQ", 9, kind, len(value)) + struct.pack(f"<{len(value)}{letter[1]}", *value)
    return head + struct.pack("<I", LETTERS.index(letter)) + struct.pack(f"<{letter}", value)


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    sizes = struct.pack(f"<{len(shape)}Q", *shape)
    return text(name.encode()) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, offset)


def gguf(
    entries: Sequence[bytes], tensors: Sequence[bytes] = (), data: int = 0, align: int = 32, version: int = 3
) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries)) + b"".join([*entries, *tensors])
    return head + bytes(-len(head) % align + data)


def model(
    tokens: list[bytes] | None = TOKENS, architecture: str = "llama", more: list[bytes] | None = None, **numbers: int
) -> list[bytes]:
    entries = [
        entry("general.architecture", "8", architecture.encode()),
        entry("general.name", "8", b"A Model"),
        entry("tokenizer.ggml.model", "8", b"gpt2"),
        *(entry(f"{architecture}.{key}", "I", value) for key, value in numbers.items()),
        *(more or []),
    ]
    return entries if tokens is None else [*entries, entry("tokenizer.ggml.tokens", "A8", tokens)]


def written(
    path: Path,
    weights: int,
    *,
    experts: int = 0,
    used: int = 0,
    expert_weights: int = 0,
    tokens: int = 0,
    kind: int = 12,
) -> gguf_model.Model:
    """Write a model in the shape of Llama 3 70B with so many bytes of Q4_K or another type, and of experts."""
    numbers: dict[str, Any] = {
        "block_count": 80,
        "context_length": 131072,
        "embedding_length": 8192,
        "feed_forward_length": 28672,
        "attention.head_count": 64,
        "attention.head_count_kv": 8,
    }
    if experts:
        numbers |= {"expert_count": experts, "expert_used_count": used}
    entries = model(TOKENS[: tokens or None], **numbers)
    tensors, end = [], 0
    for name, size in (("blk.0.attn_q.weight", weights), ("blk.0.ffn_up_exps.weight", expert_weights)):
        if size:
            tensors.append(tensor(name, (256, size // 144), kind, end))
            end += -(-(size // 144 * 144) // 32) * 32
    content = gguf(entries, tensors)
    with path.open("wb") as file:
        file.write(content)
        file.truncate(len(content) + end)
    return gguf_model.read_model(str(path))


def servable(path: Path) -> gguf_model.Model:
    """Write a small model that a server takes."""
    path.write_bytes(zero_model.build_zero_model_file())
    return gguf_model.read_model(str(path))


#: The tensors of a small model, and its whole file.
WEIGHTS = [
    tensor("token_embd.weight", (256, 4), 12, 0),
    tensor("blk.0.ffn_up_exps.weight", (32, 2, 8), 8, 576),
    tensor("output_norm.weight", (8,), 0, 1120),
]
WHOLE = gguf(model(block_count=80, context_length=8192, expert_count=8, expert_used_count=2), WEIGHTS, 1152)
