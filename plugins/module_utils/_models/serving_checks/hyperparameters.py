# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values of a header that every server needs: present, of the type that servers read, and within their limits.

llama.cpp and ik_llama.cpp read a value only in the type that the converter writes, and abort on a number that is out of
their limits.
Source: llama_model_base::load_hparams() in src/llama-model.cpp and src/llama-model-loader.cpp of llama.cpp.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model import Model

#: The most layers of a model in both engines.
MOST_LAYERS = 512
LAYERS, CONTEXT, EMBEDDING = "block_count", "context_length", "embedding_length"
HEADS, KV_HEADS = "attention.head_count", "attention.head_count_kv"
#: Numbers that every model has, and numbers that have a value for all layers or a list with a value for each layer.
REQUIRED = (LAYERS, CONTEXT, EMBEDDING)
BY_LAYER = (HEADS, KV_HEADS, "feed_forward_length")
NUMBER, LISTS = "uint32", ("array of uint32", "array of int32")
#: Tensors that only a model with attention heads has.
ATTENTION = (".attn_q.weight", ".attn_k.weight", ".attn_qkv.weight")
#: The vocabulary of a model that says that it has none.
NO_VOCABULARY = ("no_vocab", "none")
TOKENIZER, TOKENS = "tokenizer.ggml.model", "tokenizer.ggml.tokens"
#: The value types that servers insist on, of keys without the architecture.
TYPES = {
    "general.architecture": "text",
    "general.alignment": NUMBER,
    TOKENIZER: "text",
    TOKENS: "array of text",
}


def unusable_header_value_reasons(model: Model, overrides: str = "") -> Iterator[str]:
    """Yield why no server can use the values of a model's header.

    ``overrides`` is the text of arguments that replace values; a key in it is not checked.
    """
    for key, name in TYPES.items():
        yield from _wrong_type_reasons(model, key, (name,))
    for key in (*REQUIRED, *BY_LAYER):
        whole_key = f"{model.architecture}.{key}"
        if whole_key in overrides:
            continue
        yield from _wrong_type_reasons(model, whole_key, (NUMBER, *(LISTS if key in BY_LAYER else ())))
        value = model.values.get(whole_key)
        if key in REQUIRED and whole_key not in model.values:
            yield f"{model.path} has no value {whole_key}, which every server needs. {GET_AGAIN}"
        elif key in REQUIRED and value == 0:
            yield f"{model.path} says {whole_key} 0, with which no server computes. {GET_AGAIN}"
        elif key == LAYERS and isinstance(value, int) and value > MOST_LAYERS:
            yield f"{model.path} says {whole_key} {value}, and servers have at most {MOST_LAYERS} layers. {GET_AGAIN}"
        elif key in (HEADS, KV_HEADS) and not value and (key == HEADS or value == 0) and _has_attention(model):
            number = "0" if value == 0 else "nothing"
            yield f"{model.path} has tensors of attention, and says {number} of {whole_key}. {GET_AGAIN}"


def unusable_tokenizer_reasons(model: Model) -> Iterator[str]:
    """Yield why a server cannot turn text into tokens with this model."""
    kind = model.header_text(TOKENIZER)
    if not kind:
        yield f"{model.path} has no tokenizer ({TOKENIZER}), so a server cannot read text with it. {CONVERT_AGAIN}"
    elif kind in NO_VOCABULARY:
        yield f"{model.path} has no vocabulary ({TOKENIZER} is {kind}), so it cannot read text. {CONVERT_AGAIN}"
    elif not model.tokens:
        yield f"{model.path} has a tokenizer without tokens ({TOKENS}). {CONVERT_AGAIN}"


def _wrong_type_reasons(model: Model, key: str, names: tuple[str, ...]) -> Iterator[str]:
    found = model.parts[0].value_types.get(key)
    if found is not None and found not in names:
        yield f"{model.path} has {key} as {found}, and servers read it as {names[0]} only. {CONVERT_AGAIN}"


def _has_attention(model: Model) -> bool:
    return any(tensor.name.endswith(ATTENTION) for tensor in model.tensors)


GET_AGAIN = "The file is damaged or badly converted: get it again, or take another file of this model."
CONVERT_AGAIN = "Convert the model again with a current convert_hf_to_gguf.py of llama.cpp, or take another file of it."
