# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules by which a draft model, or a head that drafts, fits a model.

A head is made for one model, because it reads intermediate results of this model. EAGLE-3 and DFlash heads are separate
files. MTP means one or more layers at the end of a model, in the model's file or in a separate file. ik_llama.cpp has
another form of DFlash, and no EAGLE-3.

A server with a draft model of another vocabulary writes a line to its log, answers normally, and never speculates. The
rules in this file are those of the server, so that a pair of models can be checked before the server starts.
Source: common_speculative_are_compatible() in common/speculative.cpp, src/models/eagle3.cpp and src/models/dflash.cpp
of llama.cpp, build 11434; src/llama-hparams.cpp of ik_llama.cpp (8337e4c, August 2026).
"""

from __future__ import annotations

from .token_cost import OUTPUT, ModelLayers, TokenWork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .model import Model

EAGLE3, MTP, DFLASH = "eagle3", "mtp", "dflash"
HEAD_KINDS = (EAGLE3, MTP, DFLASH)
#: By kind of head, the architecture of the head's file, and the key that lists the layers of the model that it reads.
HEAD_FORMS = {EAGLE3: (EAGLE3, "eagle3.target_layers"), DFLASH: (DFLASH, "dflash.target_layers")}
IK_HEAD_FORMS = {**HEAD_FORMS, DFLASH: ("dflash-draft", "dflash-draft.dflash.target_layer_ids")}
#: The key with the number of MTP layers at the end of a model.
MTP_LAYERS = "nextn_predict_layers"
WIDTH = "embedding_length"


def draft_head_refusal_reasons(kind: str, model: Model, head: Model | None, ik: bool = False) -> list[str]:
    """Return the reason why a server would not start, or not speculate, with this head; empty for a fitting head.

    ``ik`` is True for a server of ik_llama.cpp.
    """
    if kind == MTP:
        return _mtp_head_refusals(model, head or model)
    if head is None:
        return [f"speculation {kind} needs the file of a head. Name it with draft_model."]
    name = f"{head.path} is no {kind} head of {model.path}"
    architecture, key = (IK_HEAD_FORMS if ik else HEAD_FORMS)[kind]
    if head.architecture != architecture:
        return [
            f"{name}: its architecture is {head.architecture or 'unknown'}. Name a file of the architecture "
            f"{architecture}, which {'ik_llama.cpp' if ik else 'llama.cpp'} reads."
        ]
    width = head.header_number_of_architecture("target_hidden_size" if kind == EAGLE3 else WIDTH)
    model_width = model.header_number_of_architecture(WIDTH)
    if width != model_width:
        return [
            f"{name}: it was made for a model of the width {width}, and this one has {model_width}. "
            "Take the one for it."
        ]
    layer_list: Any = head.values.get(key)
    reads = [number for number in layer_list if isinstance(number, int)] if isinstance(layer_list, list) else []
    layers = ModelLayers(model).count
    # The number after the last layer means the output of the last layer. Only EAGLE-3 reads that output.
    if not reads or not 0 <= min(reads) <= max(reads) <= layers - (kind == DFLASH):
        layers_text = ", ".join(map(str, reads)) or "none"
        return [f"{name}: it reads the layers {layers_text}, and the model has {layers}. Take the one for it."]
    return []


def _mtp_head_refusals(model: Model, head: Model) -> list[str]:
    if not head.header_number_of_architecture(MTP_LAYERS):
        return [
            f"{head.path} has no layers that guess the next tokens ({head.architecture}.{MTP_LAYERS}), which "
            "speculation mtp uses. Take a file of the model that has kept them, or another kind of speculation."
        ]
    for key in ("general.architecture", f"{model.architecture}.{WIDTH}"):
        if head.values.get(key) != model.values.get(key):
            return [
                f"{head.path} is no mtp head of {model.path}: {key} is {head.values.get(key)} there, and "
                f"{model.values.get(key)} in the model. Take the one for it."
            ]
    return []


def work_per_drafted_token(model: Model, head: Model | None) -> TokenWork:
    """Return the work for a token that is drafted by a head, or by the model's MTP layers if ``head`` is None.

    A head without an output tensor uses the output tensor of the model.
    """
    if head is None:
        return TokenWork.of_mtp_layers(model)
    head_work = (
        TokenWork.of_mtp_layers(head) if head.header_number_of_architecture(MTP_LAYERS) else TokenWork.of_model(head)
    )
    if not any(tensor.name == OUTPUT for tensor in head.tensors):
        model_work = TokenWork.of_model(model)
        head_work.dense += model_work.output
        head_work.output += model_work.output
    return head_work


#: The vocabularies may differ by this many tokens in size. The tokens before FIRST_COMPARED_TOKEN may differ too.
MOST_SIZE_DIFFERENCE = 128
FIRST_COMPARED_TOKEN = 5


def draft_model_refusal_reasons(model: Model, draft: Model) -> list[str]:
    """Return the reasons why a server would not speculate with this draft model; empty for a fitting draft model."""
    pair = f"{draft.path} cannot draft for {model.path}"
    for name, candidate in (("draft", draft), ("model", model)):
        if not candidate.tokens:
            return [f"{pair}: the {name} holds no vocabulary."]
    reasons = _vocabulary_differences(model, draft)
    return [f"{pair}: {reason} It needs a draft of the same family of models." for reason in reasons]


def _vocabulary_differences(model: Model, draft: Model) -> list[str]:
    reasons = []
    kinds = [member.values.get("tokenizer.ggml.model") for member in (model, draft)]
    if kinds[0] != kinds[1]:
        reasons.append(f"the model has a vocabulary of the kind {kinds[0]}, the draft one of the kind {kinds[1]}.")
    for name in ("bos", "eos"):
        reasons += _special_token_differences(name, model, draft)
    model_tokens, draft_tokens = model.tokens or [], draft.tokens or []
    if abs(len(model_tokens) - len(draft_tokens)) > MOST_SIZE_DIFFERENCE:
        reasons.append(
            f"the model has {len(model_tokens)} tokens and the draft {len(draft_tokens)}, "
            f"more than {MOST_SIZE_DIFFERENCE} apart."
        )
    elif model_tokens[FIRST_COMPARED_TOKEN:] != draft_tokens[FIRST_COMPARED_TOKEN:]:
        shared = min(len(model_tokens), len(draft_tokens))
        at = next(
            (number for number in range(FIRST_COMPARED_TOKEN, shared) if model_tokens[number] != draft_tokens[number]),
            None,
        )
        if at is not None:
            reasons.append(
                f"token {at} is {_format_token(model_tokens[at])} in the model and "
                f"{_format_token(draft_tokens[at])} in the draft."
            )
    return reasons


def _special_token_differences(name: str, model: Model, draft: Model) -> list[str]:
    add, number = f"tokenizer.ggml.add_{name}_token", f"tokenizer.ggml.{name}_token_id"
    adds = [member.values.get(add) for member in (model, draft)]
    numbers = [member.values.get(number) for member in (model, draft)]
    if None not in adds and adds[0] != adds[1]:
        return [f"only one of the two adds a {name} token to a text."]
    if adds[0] and None not in numbers and numbers[0] != numbers[1]:
        return [f"the {name} token is {numbers[0]} in the model and {numbers[1]} in the draft."]
    return []


def _format_token(token: bytes) -> str:
    return repr(token.decode("utf-8", "replace"))


def useless_draft_model_remarks(model: Model, draft: Model) -> list[str]:
    """Return remarks on a draft model that a server accepts, but that may gain nothing."""
    remarks = []
    if model.expert_count:
        remarks.append(
            f"{model.path} is a mixture of {model.expert_count} experts: tokens that are verified together use "
            "different experts, so that more weights are read for each. On a CPU a draft mostly gains nothing then; "
            "n-gram speculation costs nothing when it finds no match."
        )
    if draft.weight_bytes * 4 > model.weight_bytes:
        remarks.append(
            f"{draft.path} has more than a quarter of the bytes of {model.path}. Drafting and verifying take turns, so "
            "that a large draft may take more time than it saves: measure both."
        )
    return remarks
