# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chooses the engine that a model needs, and proposes ik_llama.cpp for models that it was measured to serve faster.

A model with types of tensors that only ik_llama.cpp reads needs this engine. For any other model the proposal is only a
remark, because the measurements are of other hosts and of other builds.
"""

from __future__ import annotations

from ..._models.known_architectures import MLA_ARCHITECTURES
from ..._models.serving_checks.engine_support import IK, LLAMA
from ..._models.tensor_types import IK_TYPES
from ..llama_cpp.capabilities import find_engine_of_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._models.model import Model

#: The architecture of GLM-4.5 to 4.7, whose number of heads for each key head suits few kernels for attention.
GLM = "glm4moe"
#: The beginning of the names of types whose weights are looked up in tables.
TABLE_TYPES = "IQ"
MLA_REASON = (
    "its keys are compressed (MLA). On an EPYC 9V45, ik_llama.cpp decoded Kimi K2 at 11.2 to 11.4 tokens per second, "
    "llama.cpp at 9.4 to 10.0, and ik_llama.cpp read prompts about four times as fast (ik_llama.cpp #1752, July 2026)"
)
GLM_REASON = (
    "its attention suits the kernels of ik_llama.cpp. On 16 cores of Zen 4, behind 16,000 tokens, with keys in q8_0, "
    "ik_llama.cpp decoded GLM-4.5-Air 2.25 times as fast as llama.cpp (ik_llama.cpp #899, November 2025)"
)
TABLE_TYPES_REASON = (
    "most of its weights have IQ types. On 16 cores of Zen 4, ik_llama.cpp with repack_at_start decoded an 8B in such "
    "types 1.1 to 1.7 times as fast as llama.cpp, and read prompts 2.2 to 5.2 times as fast (ik_llama.cpp discussion "
    "#164, December 2024; llama.cpp has newer kernels since)"
)
HOW_TO_BUILD = (
    "epyc_llama_install: source, epyc_llama_engine: ik_llama.cpp, and epyc_llama_source_archive with "
    "epyc_llama_source_checksum, as docs/engines.md has them"
)


def engine_for_model(model: Model) -> str:
    """Return ik_llama.cpp for a model with types that only this engine reads, and llama.cpp for any other model."""
    return IK if list_types_of_ik_llama(model) else LLAMA


def list_types_of_ik_llama(model: Model) -> list[str]:
    """Return the types of a model's tensors that only ik_llama.cpp reads."""
    names = set(IK_TYPES.values())
    return sorted({tensor.type for tensor in model.tensors if tensor.type in names})


def engine_option_reason(model: Model) -> str:
    """Return why an instance needs ik_llama.cpp, and how to get it, as the reason of its option ``engine``."""
    return (
        f"Only ik_llama.cpp reads its types of weights ({', '.join(list_types_of_ik_llama(model))}). Costs a build on "
        f"the host: {HOW_TO_BUILD}."
    )


def list_engine_remarks(models: Sequence[Model], program: str | None) -> list[str]:
    """Return a remark for each model that ik_llama.cpp may serve faster; empty where ``program`` is this engine."""
    if program and find_engine_of_program([program]) == IK:
        return []
    reasons = {model.path: _faster_with_ik_llama_reason(model) for model in models}
    return [
        f"{path}: ik_llama.cpp may serve it faster than llama.cpp, because {reason}. Nothing of it was measured here. "
        f"To try it, build it ({HOW_TO_BUILD}), and have ablation.yml prove it with epyc_ablation_arms: "
        "[{engine: ik_llama.cpp, binary: PATH}]."
        for path, reason in reasons.items()
        if reason
    ]


def _faster_with_ik_llama_reason(model: Model) -> str:
    """Return why ik_llama.cpp may be faster, with a source; "" where nothing is known, or where nothing else works."""
    if engine_for_model(model) == IK:
        return ""
    if model.architecture in MLA_ARCHITECTURES:
        return MLA_REASON
    if model.architecture == GLM:
        return GLM_REASON
    in_tables = sum(tensor.bytes for tensor in model.tensors if tensor.type.startswith(TABLE_TYPES))
    return TABLE_TYPES_REASON if 2 * in_tables >= max(1, model.weight_bytes) else ""
