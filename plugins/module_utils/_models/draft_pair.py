# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether one model can draft for another.

A server that gets a draft model with another vocabulary reports it in one line of its log, answers normally, and never
speculates. The rules here are those of the server, so that a pair can be checked before the server starts.
Source: common_speculative_are_compatible() in common/speculative.cpp of llama.cpp.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Model

#: By how many tokens the sizes of the vocabularies may differ, and the first token that is compared.
MAY_DIFFER = 128
FIRST = 5


def refusals(model: Model, draft: Model) -> list[str]:
    """Return why a server would not speculate with this pair; empty when it would."""
    pair = f"{draft.path} cannot draft for {model.path}"
    for name, one in (("draft", draft), ("model", model)):
        if not one.tokens:
            return [f"{pair}: the {name} holds no vocabulary."]
    reasons = _refusals(model, draft)
    return [f"{pair}: {reason} It needs a draft of the same family of models." for reason in reasons]


def _refusals(model: Model, draft: Model) -> list[str]:
    reasons = []
    kinds = [one.values.get("tokenizer.ggml.model") for one in (model, draft)]
    if kinds[0] != kinds[1]:
        reasons.append(f"the model has a vocabulary of the kind {kinds[0]}, the draft one of the kind {kinds[1]}.")
    for name in ("bos", "eos"):
        reasons += _special(name, model, draft)
    theirs, ours = model.tokens or [], draft.tokens or []
    if abs(len(theirs) - len(ours)) > MAY_DIFFER:
        reasons.append(f"the model has {len(theirs)} tokens and the draft {len(ours)}, more than {MAY_DIFFER} apart.")
    elif theirs[FIRST:] != ours[FIRST:]:
        shared = min(len(theirs), len(ours))
        at = next((number for number in range(FIRST, shared) if theirs[number] != ours[number]), None)
        if at is not None:
            reasons.append(f"token {at} is {_text(theirs[at])} in the model and {_text(ours[at])} in the draft.")
    return reasons


def _special(name: str, model: Model, draft: Model) -> list[str]:
    """Compare what both files say; where a file says nothing, the server decides by its architecture."""
    add, number = f"tokenizer.ggml.add_{name}_token", f"tokenizer.ggml.{name}_token_id"
    adds = [one.values.get(add) for one in (model, draft)]
    numbers = [one.values.get(number) for one in (model, draft)]
    if None not in adds and adds[0] != adds[1]:
        return [f"only one of the two adds a {name} token to a text."]
    if adds[0] and None not in numbers and numbers[0] != numbers[1]:
        return [f"the {name} token is {numbers[0]} in the model and {numbers[1]} in the draft."]
    return []


def _text(token: bytes) -> str:
    return repr(token.decode("utf-8", "replace"))


def remarks(model: Model, draft: Model) -> list[str]:
    """Return reasons against this pair although a server accepts it."""
    found = []
    if model.experts:
        found.append(
            f"{model.path} is a mixture of {model.experts} experts: tokens that are verified together use different "
            "experts, so that more weights are read for each. On a CPU a draft mostly gains nothing then; n-gram "
            "speculation costs nothing when it finds no match."
        )
    sizes = [sum(part.data for part in one.parts) for one in (model, draft)]
    if sizes[1] * 4 > sizes[0]:
        found.append(
            f"{draft.path} has more than a quarter of the bytes of {model.path}. Drafting and verifying take turns, so "
            "that a large draft may take more time than it saves: measure both."
        )
    return found
