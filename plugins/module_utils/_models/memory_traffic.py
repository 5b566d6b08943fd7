# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bytes that decoding reads from memory, by what they are, and the operations that it computes with them.

The unit is a step: each stream gets one token, and with a draft model those of its guesses that are right. A step reads
the weights once for all its tokens, and what each stream keeps of its context once. Activations, what is written, and
the one row of the embedding are not counted; together they are far below one percent of a model that is worth tuning.
A layer that chooses the tokens it reads (an indexer) counts as if it read all of them.
Source: the graphs in src/models and the kernels in ggml/src/ggml-cpu of llama.cpp, build 11434.
"""

from __future__ import annotations

from .tensor_types import element
from .token_cost import NOTHING, STATE, Layers, Work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .model import Model

F16 = ("f16", "f16")


class Traffic:
    """One step. ``parts`` are bytes by name, ``flops`` floating point operations, ``tokens`` those that it takes.

    The names are ``layers`` (with shared experts), ``experts``, ``output``, ``kv`` (keys and values), ``state``, and
    of a draft model ``draft`` and ``draft_context``.
    """

    __slots__ = ("flops", "parts", "tokens")

    def __init__(self, parts: dict[str, float], flops: float, tokens: float) -> None:
        self.parts = parts
        self.flops = flops
        self.tokens = tokens

    @property
    def bytes(self) -> float:
        """All bytes together."""
        return sum(self.parts.values())

    def to_dict(self) -> dict[str, object]:
        """Return plain data in whole numbers."""
        parts = {name: round(size) for name, size in self.parts.items()}
        return {"parts": parts, "bytes": round(self.bytes), "flops": round(self.flops), "tokens": self.tokens}


class Draft:
    """A model that guesses ``drafted`` tokens in each step, one after the other, and the types of its cache."""

    __slots__ = ("drafted", "model", "types")

    def __init__(self, model: Model, drafted: float, types: tuple[str, str] = F16) -> None:
        self.model = model
        self.drafted = drafted
        self.types = types


def step(
    model: Model,
    context: int,
    types: tuple[str, str] = F16,
    streams: int = 1,
    draft: Draft | None = None,
    used: int | None = None,
    guessed: float = 0,
) -> Traffic | None:
    """Return what a step reads when each stream has ``context`` tokens; None where a header does not say enough.

    ``types`` are those of keys and of values, as llama.cpp calls them. ``used`` is how many experts each token uses,
    None for as many as the model says itself. ``guessed`` tokens a stream come from no draft model; a mean may have a
    fraction.
    """
    work, told = Work.of(model, used), _context(model, context, types)
    if told is None:
        return None
    keeps, attention = told
    tokens = streams * (1 + (draft.drafted if draft else guessed))
    parts = {**work.parts(tokens), **{name: streams * size for name, size in keeps.items()}}
    flops = tokens * (2 * work.parameters + attention)
    if draft:
        guess = step(draft.model, context, draft.types, streams)
        if guess is None:
            return None
        kept = guess.parts["kv"] + guess.parts["state"]
        parts |= {"draft": draft.drafted * (guess.bytes - kept), "draft_context": draft.drafted * kept}
        flops += draft.drafted * guess.flops
    return Traffic(parts, flops, tokens)


def _context(model: Model, tokens: int, types: tuple[str, str]) -> tuple[dict[str, float], float] | None:
    """Return the bytes of one stream's context by name, and the operations of one token with it."""
    if model.architecture in NOTHING:
        return {"kv": 0.0, "state": 0.0}, 0.0
    layers = Layers(model)
    if not layers.layers or not layers.says_enough:
        return None
    key, value = (element(name) for name in types)
    kept = attention = 0.0
    for layer in filter(layers.reads_tokens, range(layers.layers)):
        narrow = layers.window if layers.sees_window(layer) else 0
        seen = min(tokens, narrow or tokens)
        kept += seen * layers.keys(layer) * key + tokens * layers.indexer * key
        kept += 0 if layers.compressed else seen * layers.values(layer) * value
        attention += 2 * seen * layers.queries(layer)
    states = sum(1 for layer in range(layers.layers) if layers.keeps_state(layer))
    return {"kv": kept, "state": float(states * layers.state * STATE)}, attention
