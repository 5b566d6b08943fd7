# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Models of every kind of memory in their real widths, with few layers and words, which a real server loads.

Headers are whole and weights are holes, so that a file takes no room. The names of values and tensors are those of
src/llama-arch.cpp of llama.cpp, and the widths those of the models that are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._models import zero_model
from ansible_collections.sovereign.epyc.plugins.module_utils._models.model import Model, read_model
from ansible_collections.sovereign.epyc.plugins.module_utils._models.tensor_types import TENSOR_TYPES
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs

#: Types by their numbers: one for vectors, the smallest for rows of 256, one for shorter rows, and a
#: usual one.
F32, IQ1_S, Q8_0, Q4_K, MXFP4 = 0, 19, 8, 12, 39
WORDS = 2000
#: A word that is in the vocabulary and that no text gives.
UNUSED = 5
EPSILON = "attention.layer_norm_rms_epsilon"

Shape = tuple[int, ...]
Tensors = Iterator[tuple[str, Shape]]

#: The numbers in a header of DeepSeek V3 that describes its 128 heads, as ik_llama.cpp and older converters write it.
HEADS_OF_MLA = {
    "block_count": 61,
    "attention.head_count": 128,
    "attention.head_count_kv": 128,
    "attention.key_length": 192,
    "attention.value_length": 128,
    "attention.kv_lora_rank": 512,
    "rope.dimension_count": 64,
}
#: The numbers of each header, by the name that a test has for it.
NUMBERS: dict[str, dict[str, Any]] = {
    # Llama 2 7B: a head of keys for each head.
    "dense": {
        "architecture": "llama",
        "block_count": 2,
        "embedding_length": 4096,
        "feed_forward_length": 11008,
        "attention.head_count": 32,
        "attention.head_count_kv": 32,
    },
    # Llama 3 70B: eight heads share the keys of one.
    "gqa": {
        "architecture": "llama",
        "block_count": 1,
        "embedding_length": 8192,
        "feed_forward_length": 28672,
        "attention.head_count": 64,
        "attention.head_count_kv": 8,
    },
    # Gemma 3 4B: five of six layers see a window.
    "swa": {
        "architecture": "gemma3",
        "block_count": 7,
        "embedding_length": 2560,
        "feed_forward_length": 10240,
        "attention.head_count": 8,
        "attention.head_count_kv": 4,
        "attention.key_length": 256,
        "attention.value_length": 256,
        "attention.sliding_window": 1024,
    },
    # DeepSeek V3: all heads share one row of compressed keys, and there are no values.
    "mla": {
        "architecture": "deepseek2",
        "block_count": 2,
        "embedding_length": 7168,
        "feed_forward_length": 18432,
        "leading_dense_block_count": 1,
        "attention.head_count": 128,
        "attention.head_count_kv": 1,
        "attention.q_lora_rank": 1536,
        "attention.kv_lora_rank": 512,
        "attention.key_length": 576,
        "attention.value_length": 512,
        "attention.key_length_mla": 192,
        "attention.value_length_mla": 128,
        "rope.dimension_count": 64,
        "expert_count": 16,
        "expert_used_count": 8,
        "expert_shared_count": 1,
        "expert_feed_forward_length": 2048,
    },
    # Qwen 3.5 27B: three of four layers keep a state of one size for any number of tokens.
    "hybrid": {
        "architecture": "qwen35",
        "block_count": 4,
        "embedding_length": 5120,
        "feed_forward_length": 17408,
        "attention.head_count": 24,
        "attention.head_count_kv": 4,
        "attention.key_length": 256,
        "attention.value_length": 256,
        "full_attention_interval": 4,
        "rope.dimension_count": 64,
        "ssm.conv_kernel": 4,
        "ssm.state_size": 128,
        "ssm.group_count": 16,
        "ssm.time_step_rank": 48,
        "ssm.inner_size": 6144,
    },
    # Qwen 3 235B: each token goes through 8 experts.
    "moe": {
        "architecture": "qwen3moe",
        "block_count": 2,
        "embedding_length": 4096,
        "feed_forward_length": 12288,
        "attention.head_count": 64,
        "attention.head_count_kv": 4,
        "attention.key_length": 128,
        "attention.value_length": 128,
        "expert_count": 16,
        "expert_used_count": 8,
        "expert_feed_forward_length": 1536,
    },
}


#: Models in all their layers, of the sizes that people serve.
WHOLE: dict[str, dict[str, Any]] = {
    # Llama 3.2 1B, which drafts for larger ones.
    "dense 1B": {
        **NUMBERS["gqa"],
        "block_count": 16,
        "embedding_length": 2048,
        "feed_forward_length": 8192,
        "attention.head_count": 32,
    },
    # Llama 3.1 8B.
    "dense 8B": {
        **NUMBERS["gqa"],
        "block_count": 32,
        "embedding_length": 4096,
        "feed_forward_length": 14336,
        "attention.head_count": 32,
    },
    # Qwen 2.5 32B.
    "dense 32B": {
        **NUMBERS["gqa"],
        "architecture": "qwen2",
        "block_count": 64,
        "embedding_length": 5120,
        "feed_forward_length": 27648,
        "attention.head_count": 40,
    },
    "dense 70B": {**NUMBERS["gqa"], "block_count": 80},
    # Qwen 3 30B-A3B: each token goes through 3 of 30 billion weights.
    "moe 30B-A3B": {
        **NUMBERS["moe"],
        "block_count": 48,
        "embedding_length": 2048,
        "feed_forward_length": 6144,
        "attention.head_count": 32,
        "expert_count": 128,
        "expert_feed_forward_length": 768,
    },
    # gpt-oss 120B: each token goes through 4 of 128 experts, and every other layer sees a window.
    "moe 120B": {
        "architecture": "gpt-oss",
        "block_count": 36,
        "embedding_length": 2880,
        "feed_forward_length": 2880,
        "attention.head_count": 64,
        "attention.head_count_kv": 8,
        "attention.key_length": 64,
        "attention.value_length": 64,
        "attention.sliding_window": 128,
        "expert_count": 128,
        "expert_used_count": 4,
        "expert_feed_forward_length": 2880,
    },
    # DeepSeek V3.
    "moe 671B": {**NUMBERS["mla"], "block_count": 61, "leading_dense_block_count": 3, "expert_count": 256},
}


def write_and_read(folder: Path, names: Iterable[str]) -> dict[str, Model]:
    """Write the models of these names into a folder, and return each as its header is read."""
    return {name: read_model(str(write(folder / f"{name}.gguf", name))) for name in names}


def write(path: Path, name: str, rows: int = IQ1_S) -> Path:
    """Write the model of this name, with rows of whole blocks of this type; its weights are holes."""
    numbers = {**NUMBERS, **WHOLE}[name]
    words = [*zero_model.TOKENS, *(b"word %d" % word for word in range(WORDS - len(zero_model.TOKENS)))]
    unused = [UNUSED] * (WORDS - len(zero_model.TOKENS))
    shapes = {
        "token_embd.weight": (numbers["embedding_length"], WORDS),
        "output_norm.weight": (numbers["embedding_length"],),
        **{
            f"blk.{layer}.{kind}": shape
            for layer in range(numbers["block_count"])
            for kind, shape in _layer(numbers, layer)
        },
    }
    entries = [
        ggufs.entry("general.architecture", "8", numbers["architecture"].encode()),
        *_entries({"context_length": 131072, "vocab_size": WORDS, EPSILON: 1e-6, **numbers}),
        ggufs.entry("tokenizer.ggml.model", "8", b"llama"),
        ggufs.entry("tokenizer.ggml.tokens", "A8", words),
        ggufs.entry("tokenizer.ggml.scores", "Af", [0.0] * WORDS),
        ggufs.entry("tokenizer.ggml.token_type", "Ai", [*zero_model.TOKEN_KINDS, *unused]),
        ggufs.entry("tokenizer.ggml.bos_token_id", "I", 1),
        ggufs.entry("tokenizer.ggml.eos_token_id", "I", 2),
    ]
    if numbers["architecture"] == "qwen35":
        entries.append(ggufs.entry("qwen35.rope.dimension_sections", "Ai", [11, 11, 10, 0]))
    tensors, end = [], 0
    for tensor, shape in shapes.items():
        is_narrow = shape[0] % TENSOR_TYPES[rows][1] != 0
        kind = F32 if len(shape) == 1 or "ssm_conv1d" in tensor else Q8_0 if is_narrow else rows
        tensors.append(ggufs.tensor(tensor, shape, kind, end))
        dummy, block, size = TENSOR_TYPES[kind]
        elements = 1
        for length in shape:
            elements *= length
        end += -(-elements // block * size // 32) * 32
    head = ggufs.gguf(entries, tensors)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + end)
    return path


def _entries(numbers: dict[str, Any]) -> Iterator[bytes]:
    for key, value in numbers.items():
        if key != "architecture":
            yield ggufs.entry(f"{numbers['architecture']}.{key}", "f" if isinstance(value, float) else "I", value)


def _layer(numbers: dict[str, Any], layer: int) -> Tensors:
    """The tensors of a layer, and their shapes."""
    width = numbers["embedding_length"]
    yield "attn_norm.weight", (width,)
    if numbers["architecture"] == "qwen35" and (layer + 1) % numbers["full_attention_interval"]:
        yield from _recurrent(numbers)
    elif numbers["architecture"] == "deepseek2":
        yield from _compressed(numbers)
    else:
        yield from _attention(numbers)
    if numbers["architecture"] in ("gemma3", "qwen35"):
        yield "post_attention_norm.weight", (width,)
    if numbers["architecture"] == "gemma3":
        yield "post_ffw_norm.weight", (width,)
    if numbers["architecture"] != "qwen35":
        yield "ffn_norm.weight", (width,)
    if "expert_count" in numbers and layer >= numbers.get("leading_dense_block_count", 0):
        yield from _experts(numbers)
    else:
        inner = numbers["feed_forward_length"]
        yield "ffn_gate.weight", (width, inner)
        yield "ffn_up.weight", (width, inner)
        yield "ffn_down.weight", (inner, width)


def _attention(numbers: dict[str, Any]) -> Tensors:
    width, heads = numbers["embedding_length"], numbers["attention.head_count"]
    head = numbers.get("attention.key_length", width // heads)
    # The queries of one architecture have a gate of the same width.
    gated = 2 if numbers["architecture"] == "qwen35" else 1
    yield "attn_q.weight", (width, gated * head * heads)
    yield "attn_k.weight", (width, head * numbers["attention.head_count_kv"])
    yield "attn_v.weight", (width, head * numbers["attention.head_count_kv"])
    yield "attn_output.weight", (head * heads, width)
    if numbers["architecture"] != "llama":
        yield "attn_q_norm.weight", (head,)
        yield "attn_k_norm.weight", (head,)


def _compressed(numbers: dict[str, Any]) -> Tensors:
    width, heads = numbers["embedding_length"], numbers["attention.head_count"]
    query, latent = numbers["attention.q_lora_rank"], numbers["attention.kv_lora_rank"]
    key, value = numbers["attention.key_length_mla"], numbers["attention.value_length_mla"]
    turned = numbers["rope.dimension_count"]
    yield "attn_q_a_norm.weight", (query,)
    yield "attn_kv_a_norm.weight", (latent,)
    yield "attn_q_a.weight", (width, query)
    yield "attn_q_b.weight", (query, heads * key)
    yield "attn_kv_a_mqa.weight", (width, latent + turned)
    yield "attn_k_b.weight", (key - turned, latent, heads)
    yield "attn_v_b.weight", (latent, value, heads)
    yield "attn_output.weight", (heads * value, width)


def _recurrent(numbers: dict[str, Any]) -> Tensors:
    width, inner, rank = numbers["embedding_length"], numbers["ssm.inner_size"], numbers["ssm.time_step_rank"]
    convolved = inner + 2 * numbers["ssm.group_count"] * numbers["ssm.state_size"]
    yield "attn_qkv.weight", (width, convolved)
    yield "attn_gate.weight", (width, inner)
    yield "ssm_conv1d.weight", (numbers["ssm.conv_kernel"], convolved)
    yield "ssm_dt.bias", (rank,)
    yield "ssm_a", (rank,)
    yield "ssm_beta.weight", (width, rank)
    yield "ssm_alpha.weight", (width, rank)
    yield "ssm_norm.weight", (numbers["ssm.state_size"],)
    yield "ssm_out.weight", (inner, width)


def _experts(numbers: dict[str, Any]) -> Tensors:
    width, inner, experts = (numbers[key] for key in ("embedding_length", "expert_feed_forward_length", "expert_count"))
    yield "ffn_gate_inp.weight", (width, experts)
    yield "ffn_gate_exps.weight", (width, inner, experts)
    yield "ffn_up_exps.weight", (width, inner, experts)
    yield "ffn_down_exps.weight", (inner, width, experts)
    if "expert_shared_count" in numbers:
        yield "ffn_gate_shexp.weight", (width, inner)
        yield "ffn_up_shexp.weight", (width, inner)
        yield "ffn_down_shexp.weight", (inner, width)
