# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes a model of random weights, whose matrices are wide enough for the K types of quantization.

The small model of the lab has rows of 576 weights, and a block of a K type has 256. The speed of a server does not
depend on the values of the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, Keys, LlamaFileType

from .gguf_copy import copy_keys, write_file

_ARCHITECTURE = "llama"
_LAYERS, _WIDTH, _INNER, _HEADS, _KEY_HEADS = 8, 2048, 5632, 32, 4
_TOKENIZER = "tokenizer."


def write_with_random_weights(source: Path, target: Path) -> None:
    """Write a model in F16 to ``target``: the shape of TinyLlama with fewer layers, and the tokenizer of ``source``."""
    reader = GGUFReader(source)
    writer = GGUFWriter(target, _ARCHITECTURE)
    copy_keys(reader, writer, lambda name: name.startswith(_TOKENIZER))
    writer.add_file_type(LlamaFileType.MOSTLY_F16)
    writer.add_context_length(8192)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_KEY_HEADS)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    tokens = len(reader.fields[Keys.Tokenizer.LIST].contents())
    random = np.random.default_rng(1)
    for name, shape in _list_matrix_names_and_shapes(tokens):
        weights = random.standard_normal(shape, dtype=np.float32) / np.sqrt(shape[-1])
        writer.add_tensor(name, weights.astype(np.float16), raw_dtype=GGMLQuantizationType.F16)
    for name in (
        "output_norm",
        *(f"blk.{layer}.{norm}" for layer in range(_LAYERS) for norm in ("attn_norm", "ffn_norm")),
    ):
        writer.add_tensor(f"{name}.weight", np.ones(_WIDTH, np.float32))
    write_file(writer)


def _list_matrix_names_and_shapes(tokens: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the name of each matrix, and its numbers of rows and columns."""
    keys = _WIDTH // _HEADS * _KEY_HEADS
    yield "token_embd.weight", (tokens, _WIDTH)
    for layer in range(_LAYERS):
        shapes = {
            "attn_q": (_WIDTH, _WIDTH),
            "attn_k": (keys, _WIDTH),
            "attn_v": (keys, _WIDTH),
            "attn_output": (_WIDTH, _WIDTH),
            "ffn_gate": (_INNER, _WIDTH),
            "ffn_up": (_INNER, _WIDTH),
            "ffn_down": (_WIDTH, _INNER),
        }
        for name, shape in shapes.items():
            yield f"blk.{layer}.{name}.weight", shape
