# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a model reads of its weights, and computes with them, for one token and for tokens that it takes together.

A table in which a token looks up a row is not read; the embedding is, where it is the output too. Layers at the end
that only guess the next tokens take no part.
"""

from __future__ import annotations

from .layers import Layers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .gguf import Tensor
    from .model import Model

#: Tables of rows: what a token is, what each layer adds to it, where it stands, of which text it is.
EMBEDDING = "token_embd.weight"
TABLES = ("per_layer_token_embd.weight", "position_embd.weight", "token_types.weight")
OUTPUT = "output.weight"


class Work:
    """What one token of a model reads, in bytes, and how many parameters it goes through.

    ``dense`` is what each token reads, ``output`` the part of it that belongs to no layer, and ``expert`` what all
    routed experts take, of which a token uses ``used`` of ``experts``.
    """

    __slots__ = ("dense", "dense_parameters", "expert", "expert_parameters", "experts", "output", "used")

    def __init__(
        self,
        dense: float,
        dense_parameters: float,
        expert: float = 0,
        expert_parameters: float = 0,
        experts: int = 0,
        used: int = 0,
        output: float = 0,
    ) -> None:
        self.dense = dense
        self.dense_parameters = dense_parameters
        self.expert = expert
        self.expert_parameters = expert_parameters
        self.experts = experts
        self.used = used
        self.output = output

    @classmethod
    def of(cls, model: Model, used: int | None = None) -> Work:
        """Return the work of a model; ``used`` experts for each token, None for as many as it says itself."""
        tensors = _read(model)
        experts = [tensor for tensor in tensors if "_exps." in tensor.name]
        rest = [tensor for tensor in tensors if "_exps." not in tensor.name]
        output = [tensor for tensor in rest if not tensor.name.startswith("blk.")]
        number = used or model.of_architecture("expert_used_count") or model.experts
        return cls(
            _bytes(rest), _elements(rest), _bytes(experts), _elements(experts), model.experts, number, _bytes(output)
        )

    def bytes(self, tokens: int) -> float:
        """Return the bytes that a batch reads: more tokens use more different experts."""
        return sum(self.parts(tokens).values())

    def parts(self, tokens: int) -> dict[str, float]:
        """Return the bytes that a batch reads, by name: ``layers`` with shared experts, ``experts``, ``output``."""
        unused = (1 - self.used / self.experts) ** tokens if self.experts else 1.0
        return {"layers": self.dense - self.output, "experts": self.expert * (1 - unused), "output": self.output}

    @property
    def parameters(self) -> float:
        """How many parameters each token goes through."""
        return self.dense_parameters + (self.expert_parameters * self.used / self.experts if self.experts else 0)


def _read(model: Model) -> list[Tensor]:
    """Return the tensors that decoding reads."""
    tensors = model.tensors
    tables = {*TABLES, EMBEDDING} if any(tensor.name == OUTPUT for tensor in tensors) else {*TABLES}
    layers = Layers(model).layers
    return [one for one in tensors if one.name not in tables and not (layers and _layer(one) >= layers)]


def _layer(tensor: Tensor) -> int:
    """Return the layer of a tensor, -1 for one of none."""
    first, dummy, rest = tensor.name.partition(".")
    number = rest.partition(".")[0]
    return int(number) if first == "blk" and number.isdecimal() else -1


def _bytes(tensors: Sequence[Tensor]) -> float:
    return float(sum(tensor.bytes for tensor in tensors))


def _elements(tensors: Sequence[Tensor]) -> float:
    return float(sum(tensor.elements for tensor in tensors))
