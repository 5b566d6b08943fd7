# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tensor types and architectures that the build of an engine does not have.

llama.cpp and ik_llama.cpp have most types in common. Where the tables of tensor_types.py leave a doubt, the program is
asked: its file holds the name of each type and of each architecture that it knows.
"""

from __future__ import annotations

from ..tensor_types import (
    IK_TYPES,
    LAST_KNOWN_NUMBER,
    LLAMA_TYPES,
    NEW_TYPES,
    UNKNOWN_TYPE_PREFIX,
    can_belong_to_newer_engine,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..model import Model

    #: Whether a program holds a name: None where the program cannot be asked.
    HoldsName = Callable[[str], "bool | None"]

LLAMA, IK = "llama.cpp", "ik_llama.cpp"
TAKE_OTHER_FILE = "or another file of this model"


def unreadable_type_reasons(
    model: Model, engine: str, binary: str, holds_name: HoldsName = lambda name: None
) -> Iterator[str]:
    """Yield why an engine cannot read the tensors of a model: for each reason the types that it concerns."""
    types = sorted({tensor.type for tensor in model.tensors})
    foreign = [name for name in types if name in IK_TYPES.values()] if engine == LLAMA else []
    if foreign:
        yield (
            f"{model.path} has tensors of types that only {IK} reads ({', '.join(foreign)}), and {binary} is {engine}. "
            f"Take a build of {IK}, {TAKE_OTHER_FILE}."
        )
    lacking = [name for name in types if name in LLAMA_TYPES and engine == IK and not holds_name(name.lower())]
    if lacking:
        yield (
            f"{model.path} has tensors of types that only {LLAMA} reads ({', '.join(lacking)}), and {binary} is "
            f"{engine}. Take a build of {LLAMA}, {TAKE_OTHER_FILE}."
        )
    newer = [name for name in types if name in NEW_TYPES and engine == LLAMA and holds_name(name.lower()) is False]
    if newer:
        yield (
            f"{model.path} has tensors of types that this build of {engine} does not know ({', '.join(newer)}): "
            f"{binary} does not hold their names. Take a newer build, {TAKE_OTHER_FILE}."
        )
    unknown = [name for name in types if name.startswith(UNKNOWN_TYPE_PREFIX) and not can_belong_to_newer_engine(name)]
    if unknown:
        yield (
            f"{model.path} has tensors of a type that no engine knows ({', '.join(unknown)}): {LLAMA} has the types 0 "
            f"to {LAST_KNOWN_NUMBER}. The file is damaged or for another program. Get it again, {TAKE_OTHER_FILE}."
        )


def unknown_architecture_reasons(model: Model, title: str, holds_name: HoldsName) -> Iterator[str]:
    """Yield why a server cannot serve the architecture of a model; nothing where the program cannot be asked."""
    if holds_name(model.architecture) is False:
        yield (
            f"{model.path} is a model of the architecture {model.architecture}, which {title} does not know: the "
            "program does not hold this name. Take a newer build or the other engine, or another model."
        )
