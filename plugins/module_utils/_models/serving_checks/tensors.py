# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tensors of a model: that none is missing, double or elsewhere in the file, and that shapes fit the header's numbers.

A rule for all architectures is one that holds in each model of llama.cpp: every block has a tensor, and the embedding
has the width of the header. Shapes of the blocks are checked for architectures whose blocks are all alike.
Source: ggml/src/gguf.cpp and src/models/*.cpp of llama.cpp.
"""

from __future__ import annotations

import re

from ..gguf import ALIGNMENT
from .engine_support import LLAMA
from .hyperparameters import EMBEDDING, GET_AGAIN, HEADS, KV_HEADS, LAYERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..gguf import GgufFile, Tensor
    from ..model import Model

BLOCK = re.compile(r"blk\.(\d+)\.(.+)")
#: The longest name of a tensor in llama.cpp, in bytes.
LONGEST_NAME = 63
#: The embedding of all architectures but those whose width has another key, and of heads that draft.
TOKEN_EMBEDDING = "token_embd.weight"
OTHER_WIDTHS = ("wavtokenizer-dec", "falcon-h1", "eagle3", "dflash", "dflash-draft", "pockettts", "qwen3tts", "clip")
#: Architectures whose blocks are all alike: each has norms, attention and a feed-forward network.
UNIFORM = (
    *("llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "mistral3", "granite", "internlm2", "smollm3", "olmo2"),
    *("qwen2moe", "qwen3moe"),
)
#: Tensors of a block that a block must have when all other blocks have it. attn_qkv stands for the three of attention.
IN_ALL_BLOCKS = {
    *("attn_norm.weight", "attn_output.weight", "ffn_norm.weight", "ffn_gate.weight", "ffn_up.weight"),
    *("ffn_down.weight", "ffn_gate_inp.weight", "ffn_up_exps.weight", "ffn_down_exps.weight"),
    *("attn_q.weight", "attn_k.weight", "attn_v.weight"),
}
FUSED, FUSED_PARTS = "attn_qkv.weight", {"attn_q.weight", "attn_k.weight", "attn_v.weight"}


def misplaced_tensor_reasons(model: Model, engine: str | None) -> Iterator[str]:
    """Yield why the tensors of a model are not where a server expects them. ``engine`` is None where it is unknown."""
    if not model.tensors:
        yield f"{model.path} has no tensors: it is a vocabulary or a header alone, not a model. Get the whole model."
    names: set[str] = set()
    for tensor in model.tensors:
        if tensor.name in names:
            yield f"{model.path} has the tensor {tensor.name} twice. {GET_AGAIN}"
            return
        names.add(tensor.name)
    for part in model.parts:
        if part.tensors and part.data_begin % ALIGNMENT:
            yield (
                f"{part.path} has its tensors from byte {part.data_begin} on, and servers need a multiple of "
                f"{ALIGNMENT} (general.alignment is {part.alignment}). {GET_AGAIN}"
            )
        if engine == LLAMA:
            yield from _gap_before_tensor_reasons(part)


def _gap_before_tensor_reasons(part: GgufFile) -> Iterator[str]:
    """Yield where a tensor of a file is not directly behind the one before it, which llama.cpp insists on."""
    end = 0
    for tensor in part.tensors:
        if len(tensor.name.encode()) > LONGEST_NAME:
            yield f"{part.path} has the tensor {tensor.name}, a name of more than {LONGEST_NAME} bytes. {GET_AGAIN}"
        if not tensor.has_known_type:
            return
        if tensor.offset != end:
            yield (
                f"{part.path} has the tensor {tensor.name} of type {tensor.type} at offset {tensor.offset}, and by the "
                f"types and shapes before it, it would be at {end}. {GET_AGAIN}"
            )
            return
        end += -(-tensor.bytes // part.alignment) * part.alignment


def missing_or_wrongly_shaped_tensor_reasons(model: Model) -> Iterator[str]:
    """Yield which tensors a model lacks, or has in another shape than the numbers of its header give."""
    blocks = _tensors_by_block(model)
    yield from _missing_tensor_reasons(model, blocks)
    width = model.header_number_of_architecture(EMBEDDING)
    if width and model.tokens and model.architecture not in OTHER_WIDTHS:
        embedding = {tensor.name: tensor for tensor in model.tensors if tensor.name == TOKEN_EMBEDDING}
        shape = (width, len(model.tokens))
        yield from _wrong_shape_reasons(model, embedding, {TOKEN_EMBEDDING: shape}, f"{EMBEDDING} and vocabulary")
    if model.architecture in UNIFORM:
        for number, block in blocks.items():
            wanted = {f"blk.{number}.{name}": shape for name, shape in _expected_tensor_shapes_of_block(model).items()}
            tensors = {tensor.name: tensor for tensor in block.values()}
            yield from _wrong_shape_reasons(model, tensors, wanted, "the numbers")


def _tensors_by_block(model: Model) -> dict[int, dict[str, Tensor]]:
    blocks: dict[int, dict[str, Tensor]] = {}
    for tensor in model.tensors:
        match = BLOCK.fullmatch(tensor.name)
        if match and len(match.group(1)) < 6:
            blocks.setdefault(int(match.group(1)), {})[match.group(2)] = tensor
    return blocks


def _missing_tensor_reasons(model: Model, blocks: Mapping[int, Mapping[str, Tensor]]) -> Iterator[str]:
    layers = model.header_number_of_architecture(LAYERS) or 0
    # A model may come without the layers that only draft, which are the last.
    count = layers - (model.header_number_of_architecture("nextn_predict_layers") or 0)
    if not blocks:
        return
    for number in range(count):
        if number not in blocks:
            yield (
                f"{model.path} has no tensor of layer {number}, and its header says {layers} layers "
                f"({model.architecture}.{LAYERS}). {GET_AGAIN}"
            )
            return
    if model.architecture not in UNIFORM:
        return
    beyond = max(blocks)
    if beyond >= layers:
        yield (
            f"{model.path} has tensors of layer {beyond}, and its header says {layers} layers "
            f"({model.architecture}.{LAYERS}). {GET_AGAIN}"
        )
    for number, block in blocks.items():
        others = [set(other) for key, other in blocks.items() if key != number]
        if not others:
            continue
        missing = sorted(IN_ALL_BLOCKS.intersection(*others) - set(block) - (FUSED_PARTS if FUSED in block else set()))
        for name in missing:
            yield f"{model.path} lacks the tensor blk.{number}.{name}, which all other layers have. {GET_AGAIN}"
            return


def _expected_tensor_shapes_of_block(model: Model) -> dict[str, tuple[int, int]]:
    """Return the shapes of the tensors of a block, as far as the header gives them: row length and number of rows."""
    width = model.header_number_of_architecture(EMBEDDING)
    heads = model.header_number_of_architecture(HEADS)
    kv_heads = (
        model.header_number_of_architecture(KV_HEADS)
        if model.values.get(f"{model.architecture}.{KV_HEADS}") is not None
        else heads
    )
    inner = model.header_number_of_architecture("feed_forward_length")
    shapes: dict[str, tuple[int, int]] = {}
    if not width:
        return shapes
    shapes["attn_norm.weight"] = shapes["ffn_norm.weight"] = (width, 1)
    if heads and kv_heads:
        keys = model.header_number_of_architecture("attention.key_length") or width // heads
        values = model.header_number_of_architecture("attention.value_length") or width // heads
        shapes["attn_q.weight"], shapes["attn_k.weight"] = (width, keys * heads), (width, keys * kv_heads)
        shapes["attn_v.weight"], shapes["attn_output.weight"] = (width, values * kv_heads), (values * heads, width)
    if inner:
        shapes["ffn_gate.weight"] = shapes["ffn_up.weight"] = (width, inner)
        shapes["ffn_down.weight"] = (inner, width)
    return shapes


def _wrong_shape_reasons(
    model: Model, tensors: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, int]], source: str
) -> Iterator[str]:
    for name, (row_length, rows) in shapes.items():
        tensor = tensors.get(name)
        if tensor and (tensor.row_length, tensor.rows * tensor.matrices) != (row_length, rows):
            yield (
                f"{model.path} has the tensor {name} of {tensor.row_length} x {tensor.rows * tensor.matrices} numbers, "
                f"and by {source} of its header it has {row_length} x {rows}. {GET_AGAIN}"
            )
            return
