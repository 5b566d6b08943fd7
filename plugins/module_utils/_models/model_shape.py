# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The numbers of a model that decide its speed, from the header of its file or from an entry of the catalogue."""

from __future__ import annotations

from .._errors import BadRequest
from .known_architectures import (
    INTERVALS,
    MLA_ARCHITECTURES,
    STATE_AND_TOKENS,
    STATE_WITHOUT_KEY_HEADS,
    STATES_ONLY,
)
from .memory_traffic import compute_step_traffic
from .token_cost import ModelLayers, TokenWork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .model import Model

#: The share of a mixture's active parameters that are in routed experts, where an entry does not state its experts.
#: It is 0.55 for Qwen3-30B-A3B (8 experts of 4.7 million parameters in each of 48 layers) and for DeepSeek-V3.
USUAL_SHARE_IN_EXPERTS = 0.55
#: Architectures whose layers are joined by several parallel streams (hyper-connections), which takes many operations.
HYPER_CONNECTIONS = ("deepseek4", "qwen4exp")
#: Architectures with compressed keys that store them as llama.cpp's other attention layers do.
MORE_COMPRESSED_KEYS = ("deepseek32",)
#: The context in tokens over which the mean KV cache of a token is taken, because some layers see only a window.
TYPICAL_CONTEXT = 8192
#: A model that computes a token with less than this share of its parameters is a mixture of experts.
LEAST_DENSE_SHARE = 0.9
#: The numbers that each catalogue entry states.
REQUIRED_NUMBERS = ("parameters", "active_parameters", "file_bytes", "layers")


class ModelShape:
    """The numbers of a model in one quantization.

    ``bytes_per_token`` are the bytes of weights that one token reads, and ``kv_bytes_per_token`` the bytes that one
    token adds to an f16 KV cache. ``expert_share`` is the share of the routed experts that a token uses, and 0 for a
    dense model. ``trained_context`` is 0 where it is unknown.
    """

    __slots__ = (
        *("active_parameters", "architecture", "bytes_per_token", "expert_share", "file_bytes", "kv_bytes_per_token"),
        *("layers", "name", "parameters", "quantization", "trained_context"),
    )

    def __init__(
        self,
        name: str,
        quantization: str,
        architecture: str,
        parameters: float,
        active_parameters: float,
        file_bytes: float,
        bytes_per_token: float,
        layers: int,
        kv_bytes_per_token: float,
        trained_context: int,
        expert_share: float = 0.0,
    ) -> None:
        self.name = name
        self.quantization = quantization
        self.architecture = architecture
        self.parameters = parameters
        self.active_parameters = active_parameters
        self.file_bytes = file_bytes
        self.bytes_per_token = bytes_per_token
        self.layers = layers
        self.kv_bytes_per_token = kv_bytes_per_token
        self.trained_context = trained_context
        self.expert_share = expert_share

    @property
    def is_mixture(self) -> bool:
        """Whether the model is a mixture of experts."""
        return self.expert_share > 0

    @property
    def is_recurrent(self) -> bool:
        """Whether some layers keep a state in place of the keys and values of each token."""
        return self.architecture in (*INTERVALS, *STATE_WITHOUT_KEY_HEADS, *STATE_AND_TOKENS, *STATES_ONLY)

    @property
    def has_compressed_keys(self) -> bool:
        """Whether the attention computes with compressed keys (MLA)."""
        return self.architecture in (*MLA_ARCHITECTURES, *MORE_COMPRESSED_KEYS)

    @property
    def has_hyper_connections(self) -> bool:
        """Whether several parallel streams join the layers."""
        return self.architecture in HYPER_CONNECTIONS

    def bytes_read_by_streams(self, streams: int) -> float:
        """Return the bytes of weights that one step reads for some streams, each of which chooses its own experts."""
        if not self.is_mixture or streams <= 1:
            return self.bytes_per_token
        shared = max(0.0, (self.bytes_per_token - self.expert_share * self.file_bytes) / (1 - self.expert_share))
        experts = (self.bytes_per_token - shared) / self.expert_share
        return shared + experts * (1 - (1 - self.expert_share) ** streams)

    def to_dict(self) -> dict[str, object]:
        """Return the numbers as plain data, as ``shape_of_catalogue_entry`` reads them."""
        return {key: getattr(self, key) for key in sorted(self.__slots__) if key != "name"}


def shape_of_model(model: Model, experts_per_token: int | None = None) -> ModelShape:
    """Return the shape of a model; ``experts_per_token`` comes from the header by default."""
    work = TokenWork.of_model(model, experts_per_token)
    traffic = compute_step_traffic(model, TYPICAL_CONTEXT)
    return ModelShape(
        name=model.header_text("general.name") or model.path.rpartition("/")[2],
        quantization=model.quantization or "",
        architecture=model.architecture,
        parameters=sum(tensor.elements for tensor in model.tensors),
        active_parameters=work.parameters_per_token,
        file_bytes=model.weight_bytes,
        bytes_per_token=work.bytes_read_by_batch(1),
        layers=ModelLayers(model).count,
        kv_bytes_per_token=traffic.parts["kv"] / TYPICAL_CONTEXT if traffic else 0.0,
        trained_context=model.header_number_of_architecture("context_length") or 0,
        expert_share=work.used / work.experts if work.experts else 0.0,
    )


def shape_of_catalogue_entry(name: str, entry: Mapping[str, Any]) -> ModelShape:
    """Return the shape in a catalogue entry's key ``shape``; BadRequest where it lacks a number.

    Without ``bytes_per_token``, each active parameter counts with the mean bits of the file. That is a lower bound for
    a mixture whose attention is stored in more bits than its experts.
    """
    stated = entry.get("shape") or {}
    missing = [key for key in REQUIRED_NUMBERS if not stated.get(key)]
    if missing:
        raise BadRequest(f"{name}: its shape lacks {' and '.join(missing)}, so its speed cannot be predicted.")
    parameters, active, size = (float(stated[key]) for key in REQUIRED_NUMBERS[:3])
    usual_share = USUAL_SHARE_IN_EXPERTS * active / parameters if active < LEAST_DENSE_SHARE * parameters else 0.0
    return ModelShape(
        name=name,
        quantization=str(stated.get("quantization") or ""),
        architecture=str(stated.get("architecture") or ""),
        parameters=parameters,
        active_parameters=active,
        file_bytes=size,
        bytes_per_token=float(stated.get("bytes_per_token") or size * min(1.0, active / parameters)),
        layers=int(stated["layers"]),
        kv_bytes_per_token=float(stated.get("kv_bytes_per_token") or 0),
        trained_context=int(stated.get("trained_context") or 0),
        expert_share=float(stated.get("expert_share") or usual_share),
    )
