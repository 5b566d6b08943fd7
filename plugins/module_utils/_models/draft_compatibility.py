# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a draft model, or a head that drafts, fits a model.

A head is made for one model, because it reads what that model computes on its way to a token. EAGLE-3 and DFlash are
files of their own. MTP is one or more layers at the end of a model, in its file or beside it. ik_llama.cpp has another
form of DFlash, and no EAGLE-3.

A server that gets a draft model with another vocabulary reports it in one line of its log, answers normally, and never
speculates. The rules here are those of the server, so that a pair can be checked before the server starts.
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
#: By kind of head, the architecture of its file and the key of the layers of the model that it reads.
HEAD_FORMS = {EAGLE3: (EAGLE3, "eagle3.target_layers"), DFLASH: (DFLASH, "dflash.target_layers")}
IK_HEAD_FORMS = {**HEAD_FORMS, DFLASH: ("dflash-draft", "dflash-draft.dflash.target_layer_ids")}
#: The key of the number of MTP layers at the end of a model.
MTP_LAYERS = "nextn_predict_layers"
WIDTH = "embedding_length"


def head_refusals(kind: str, model: Model, head: Model | None, ik: bool = False) -> list[str]:
    """Return why a server would not start, or not speculate, with this head; empty where it would.

    ``ik`` is whether the server is one of ik_llama.cpp.
    """
    if kind == MTP:
        return _mtp_head_refusals(model, head or model)
    if head is None:
        return [f"speculation {kind} needs the file of a head. Name it with draft_model."]
    name = f"{head.path} is no {kind} head of {model.path}"
    architecture, key = (IK_HEAD_FORMS if ik else HEAD_FORMS)[kind]
    if head.architecture != architecture:
        return [
            f"{name}: its architecture is {head.architecture or 'not said'}. Name a file of the architecture "
            f"{architecture}, which {'ik_llama.cpp' if ik else 'llama.cpp'} reads."
        ]
    width = head.architecture_number("target_hidden_size" if kind == EAGLE3 else WIDTH)
    own = model.architecture_number(WIDTH)
    if width != own:
        return [f"{name}: it was made for a model of the width {width}, and this one has {own}. Take the one for it."]
    found: Any = head.values.get(key)
    reads = [number for number in found if isinstance(number, int)] if isinstance(found, list) else []
    layers = ModelLayers(model).count
    # The output of the last layer has a number of its own, one more than the last layer. Only EAGLE-3 reads it.
    if not reads or not 0 <= min(reads) <= max(reads) <= layers - (kind == DFLASH):
        said = ", ".join(map(str, reads)) or "none"
        return [f"{name}: it reads the layers {said}, and the model has {layers}. Take the one for it."]
    return []


def _mtp_head_refusals(model: Model, head: Model) -> list[str]:
    if not head.architecture_number(MTP_LAYERS):
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


def drafted_token_work(model: Model, head: Model | None) -> TokenWork:
    """Return the work of a token that a head, or the model's MTP layers, drafts.

    A head without an output tensor uses that of the model.
    """
    if head is None:
        return TokenWork.of_mtp_layers(model)
    own = TokenWork.of_mtp_layers(head) if head.architecture_number(MTP_LAYERS) else TokenWork.of_model(head)
    if not any(tensor.name == OUTPUT for tensor in head.tensors):
        theirs = TokenWork.of_model(model)
        own.dense += theirs.output
        own.output += theirs.output
    return own


#: The most tokens by which the sizes of the vocabularies may differ, and the first token that is compared.
MOST_SIZE_DIFFERENCE = 128
FIRST_COMPARED_TOKEN = 5


def draft_model_refusals(model: Model, draft: Model) -> list[str]:
    """Return why a server would not speculate with this draft model; empty where it would."""
    pair = f"{draft.path} cannot draft for {model.path}"
    for name, one in (("draft", draft), ("model", model)):
        if not one.tokens:
            return [f"{pair}: the {name} holds no vocabulary."]
    reasons = _vocabulary_differences(model, draft)
    return [f"{pair}: {reason} It needs a draft of the same family of models." for reason in reasons]


def _vocabulary_differences(model: Model, draft: Model) -> list[str]:
    reasons = []
    kinds = [one.values.get("tokenizer.ggml.model") for one in (model, draft)]
    if kinds[0] != kinds[1]:
        reasons.append(f"the model has a vocabulary of the kind {kinds[0]}, the draft one of the kind {kinds[1]}.")
    for name in ("bos", "eos"):
        reasons += _special_token_differences(name, model, draft)
    theirs, ours = model.tokens or [], draft.tokens or []
    if abs(len(theirs) - len(ours)) > MOST_SIZE_DIFFERENCE:
        reasons.append(
            f"the model has {len(theirs)} tokens and the draft {len(ours)}, more than {MOST_SIZE_DIFFERENCE} apart."
        )
    elif theirs[FIRST_COMPARED_TOKEN:] != ours[FIRST_COMPARED_TOKEN:]:
        shared = min(len(theirs), len(ours))
        at = next((number for number in range(FIRST_COMPARED_TOKEN, shared) if theirs[number] != ours[number]), None)
        if at is not None:
            reasons.append(
                f"token {at} is {_format_token(theirs[at])} in the model and {_format_token(ours[at])} in the draft."
            )
    return reasons


def _special_token_differences(name: str, model: Model, draft: Model) -> list[str]:
    """Return how the use of a special token, such as bos, differs; empty where a file does not state it."""
    add, number = f"tokenizer.ggml.add_{name}_token", f"tokenizer.ggml.{name}_token_id"
    adds = [one.values.get(add) for one in (model, draft)]
    numbers = [one.values.get(number) for one in (model, draft)]
    if None not in adds and adds[0] != adds[1]:
        return [f"only one of the two adds a {name} token to a text."]
    if adds[0] and None not in numbers and numbers[0] != numbers[1]:
        return [f"the {name} token is {numbers[0]} in the model and {numbers[1]} in the draft."]
    return []


def _format_token(token: bytes) -> str:
    return repr(token.decode("utf-8", "replace"))


def draft_model_remarks(model: Model, draft: Model) -> list[str]:
    """Return remarks on a draft model that a server accepts, but that may gain nothing."""
    found = []
    if model.expert_count:
        found.append(
            f"{model.path} is a mixture of {model.expert_count} experts: tokens that are verified together use "
            "different experts, so that more weights are read for each. On a CPU a draft mostly gains nothing then; "
            "n-gram speculation costs nothing when it finds no match."
        )
    if draft.weight_bytes * 4 > model.weight_bytes:
        found.append(
            f"{draft.path} has more than a quarter of the bytes of {model.path}. Drafting and verifying take turns, so "
            "that a large draft may take more time than it saves: measure both."
        )
    return found
