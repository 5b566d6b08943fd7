# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parameters of a llama-server by names that both engines share, and which parameters exclude each other.

The planner makes a dictionary of parameters, from which the arguments are built. The server has its default for each
missing parameter.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._models import draft_compatibility
from ..options import sampling
from ..options.speculation_kinds import DRAFTING_KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: The kinds of speculation that need the file of a draft model or of a head.
KINDS_WITH_DRAFT_FILE = tuple(kind for kind in DRAFTING_KINDS if kind != draft_compatibility.MTP)
#: Parameters that have an effect only with a kind of speculation that drafts.
DRAFT_PARAMETERS = (
    *("draft_model", "draft_threads", "draft_threads_batch", "draft_max", "draft_min", "draft_p_min"),
    *("draft_cache_type_k", "draft_cache_type_v", "rpc"),
)
NGRAM_PARAMETERS = ("ngram_lookup", "ngram_max", "ngram_min_hits")
SAMPLING_PARAMETERS = tuple(sampling.RANGES)
#: All parameters, in the order of the arguments.
PARAMETERS = (
    *("model", "models", "models_loaded", "alias", "host", "port", "context", "slots", "kv_unified", "slot_limit"),
    *("task", "pooling", "projector", "adapters", "chat_template", "prompt_cache", "keep_idle_slots", "slot_files"),
    *("checkpoints", "threads", "threads_batch", "cpus"),
    *("numa", "load", "repack", "repack_at_start", "flash_attention", "cache_type_k", "cache_type_v"),
    *(
        "batch",
        "ubatch",
        "experts",
        "mla",
        "attention_buffer",
        "fused_moe",
        *SAMPLING_PARAMETERS,
        "rpc_workers",
        "rpc_layers",
        "speculation",
    ),
    *(*DRAFT_PARAMETERS, *NGRAM_PARAMETERS, "suffix_corpus", "metrics", "slots_endpoint"),
    *("reuse_port", "fit", "api_key_file", "extra"),
)


def validate_and_list_speculation_kinds(parameters: Mapping[str, Any]) -> list[str]:
    """Return the kinds of speculation; BadRequest for unknown parameters, and for ones that exclude each other."""
    for name in parameters:
        if name not in PARAMETERS:
            raise BadRequest(f"A server has no parameter {name}; it has {', '.join(PARAMETERS)}.")
    kinds = list(parameters.get("speculation") or [])
    if set(KINDS_WITH_DRAFT_FILE) & set(kinds) and not parameters.get("draft_model"):
        raise BadRequest(
            "Speculation with a draft needs a draft model; name one, or take a kind of n-gram speculation."
        )
    lost = [name for name in DRAFT_PARAMETERS if name in parameters and not set(DRAFTING_KINDS) & set(kinds)]
    if lost:
        raise BadRequest(
            f"{lost[0]} is of no use without speculation of the kind draft: the server would load a draft and never "
            f"use the draft. Add the kind, or leave {lost[0]} out."
        )
    idle = [
        name for name in NGRAM_PARAMETERS if name in parameters and not any(kind.startswith("ngram") for kind in kinds)
    ]
    if idle:
        raise BadRequest(f"{idle[0]} is of no use without n-gram speculation. Add such a kind, or leave {idle[0]} out.")
    if parameters.get("cpus") and parameters.get("numa"):
        raise BadRequest(
            f"A CPU for each thread and numa {parameters['numa']} exclude each other: the server moves its threads to "
            "whole nodes for every graph, and the pins are lost. Ask for one of them."
        )
    return kinds


def list_set_parameters_that_have_flags(parameters: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return name and value of each parameter that is set, except for speculation and extra, which have no flags."""
    rows = [(name, parameters.get(name)) for name in PARAMETERS if name not in ("speculation", "extra")]
    return [
        (name, value)
        for name, value in rows
        if value not in (None, [], "") and (value is not False or name in ("repack", "fused_moe"))
    ]


def list_flag_rows_for_kinds(parameter: str, value: object, kinds: list[str], rows: Mapping[str, object]) -> list[str]:
    """Return the names of a parameter's rows in a flag table, one for each kind of speculation that has the parameter.

    BadRequest when no kind has it.
    """
    names = [
        f"{parameter}/{kind}"
        for kind in kinds
        if f"{parameter}/{kind}" in rows or f"{parameter}/{kind}={value}" in rows
    ]
    if not names:
        raise BadRequest(
            f"{' and '.join(kind for kind in kinds if kind != 'draft')} cannot have {parameter} {value}: there is no "
            "such setting. Leave it out, or take ngram-simple."
        )
    return names
