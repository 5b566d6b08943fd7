# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Heads that draft: each is made for one model, because it reads what that model computes on its way to a token.

EAGLE-3 and DFlash are files of their own. MTP is one or more layers at the end of a model, in its file or beside it.
ik_llama.cpp has another form of DFlash, and no EAGLE-3.
Source: src/models/eagle3.cpp, src/models/dflash.cpp and common/speculative.cpp of llama.cpp, build 11434;
src/llama-hparams.cpp of ik_llama.cpp (8337e4c, August 2026).
"""

from __future__ import annotations

from .token_cost import OUTPUT, Layers, Work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .model import Model

EAGLE3, MTP, DFLASH = "eagle3", "mtp", "dflash"
KINDS = (EAGLE3, MTP, DFLASH)
#: The architecture of a head's file, and the key with the layers that it reads.
FORMS = {EAGLE3: (EAGLE3, "eagle3.target_layers"), DFLASH: (DFLASH, "dflash.target_layers")}
FORMS_OF_IK = {**FORMS, DFLASH: ("dflash-draft", "dflash-draft.dflash.target_layer_ids")}
#: How many layers at the end of a model guess the next tokens.
AHEAD = "nextn_predict_layers"
WIDTH = "embedding_length"


def refusals(kind: str, model: Model, head: Model | None, ik: bool = False) -> list[str]:
    """Return why a server, of ik_llama.cpp with ``ik``, would not start, or not guess, with this head; else nothing."""
    if kind == MTP:
        return _of_layers(model, head or model)
    if head is None:
        return [f"speculation {kind} needs the file of a head. Name it with draft_model."]
    name = f"{head.path} is no {kind} head of {model.path}"
    architecture, key = (FORMS_OF_IK if ik else FORMS)[kind]
    if head.architecture != architecture:
        return [
            f"{name}: its architecture is {head.architecture or 'not said'}. Name a file of the architecture "
            f"{architecture}, which {'ik_llama.cpp' if ik else 'llama.cpp'} reads."
        ]
    width = head.of_architecture("target_hidden_size" if kind == EAGLE3 else WIDTH)
    own = model.of_architecture(WIDTH)
    if width != own:
        return [f"{name}: it was made for a model of the width {width}, and this one has {own}. Take the one for it."]
    found: Any = head.values.get(key)
    reads = [number for number in found if isinstance(number, int)] if isinstance(found, list) else []
    layers = Layers(model).layers
    # What comes out of the last layer counts as one more, which only EAGLE-3 reads.
    if not reads or not 0 <= min(reads) <= max(reads) <= layers - (kind == DFLASH):
        said = ", ".join(map(str, reads)) or "none"
        return [f"{name}: it reads the layers {said}, and the model has {layers}. Take the one for it."]
    return []


def _of_layers(model: Model, head: Model) -> list[str]:
    if not head.of_architecture(AHEAD):
        return [
            f"{head.path} has no layers that guess the next tokens ({head.architecture}.{AHEAD}), which speculation "
            "mtp uses. Take a file of the model that has kept them, or another kind of speculation."
        ]
    for key in ("general.architecture", f"{model.architecture}.{WIDTH}"):
        if head.values.get(key) != model.values.get(key):
            return [
                f"{head.path} is no mtp head of {model.path}: {key} is {head.values.get(key)} there, and "
                f"{model.values.get(key)} in the model. Take the one for it."
            ]
    return []


def work(model: Model, head: Model | None) -> Work:
    """Return the work of a guessed token. A head without an output of its own uses that of the model."""
    if head is None:
        return Work.ahead(model)
    own = Work.ahead(head) if head.of_architecture(AHEAD) else Work.of(head)
    if not any(tensor.name == OUTPUT for tensor in head.tensors):
        theirs = Work.of(model)
        own.dense += theirs.output
        own.output += theirs.output
    return own
