# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the arguments of a llama-server of ik_llama.cpp from server parameters and the flags of its --help.

The flag table covers the sources in ik-llama-cpp-python 0.1.5 and the sources of August 2026. The latter take all
settings of a kind of speculation inside of the value of --spec-type, and refuse the earlier flags.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..options.speculation_kinds import DRAFTING_KINDS
from . import reserved_flags
from .flags import COMMON_FLAGS, EARLY_FLAGS, SHORTEST_NGRAM_MOD_DRAFT, VALUE, choose_accepted_arguments
from .server_parameters import (
    NGRAM_PARAMETERS,
    list_flag_rows_for_kinds,
    list_set_parameters_that_have_flags,
    validate_and_list_speculation_kinds,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .capabilities import Capabilities
    from .flags import Candidate

FLAGS: dict[str, tuple[Candidate, ...]] = {
    "load=mmap": ((),),
    "load=none": (("--no-mmap",),),
    "load=mlock": (("--no-mmap", "--mlock"),),
    "repack=False": ((),),
    "repack_at_start": (("--run-time-repack",),),
    "flash_attention=on": (("--flash-attn", "on"),),
    "flash_attention=off": (("--flash-attn", "off"),),
    **COMMON_FLAGS,
    **{name: (candidate,) for name, candidate in EARLY_FLAGS.items()},
    "ngram_max/ngram-mod": (("--draft-max", VALUE),),
    "fused_moe=True": (("--fused-moe",), ()),
    "fused_moe=False": (("--no-fused-moe",), ()),
    "slots_endpoint": ((),),
    "reuse_port": ((),),
    "fit": ((),),
}
#: How --spec-type of August 2026 writes the parameters of each kind of speculation.
STAGE_SETTINGS = {
    **{f"draft_max/{kind}": "n_max={}" for kind in DRAFTING_KINDS},
    **{f"draft_min/{kind}": "n_min={}" for kind in DRAFTING_KINDS},
    **{f"draft_p_min/{kind}": "p_min={}" for kind in DRAFTING_KINDS},
    "ngram_lookup/ngram-simple": "ngram_size_n={}",
    "ngram_lookup/ngram-map-k": "ngram_size_n={}",
    "ngram_lookup/ngram-mod": "ngram_size_n={}",
    "ngram_max/ngram-simple": "ngram_size_m={0},n_max={0}",
    "ngram_max/ngram-map-k": "ngram_size_m={0},n_max={0}",
    "ngram_max/ngram-mod": f"n_max={{}},n_min={SHORTEST_NGRAM_MOD_DRAFT}",
    "ngram_min_hits/ngram-simple": "ngram_min_hits={}",
    "ngram_min_hits/ngram-map-k": "ngram_min_hits={}",
    "ngram_min_hits/ngram-mod=1": "",
    "suffix_corpus/suffix": "suffix_corpus={}",
}
STAGE_PARAMETERS = ("draft_max", "draft_min", "draft_p_min", *NGRAM_PARAMETERS, "suffix_corpus")
MOST_STAGES = 2
#: Flags that all builds have, although --help does not list these flags, or lists no values. --smart-expert-reduction
#: takes the least number of experts, and the probability, relative to the first expert, that a further expert needs;
#: with 1, there are no further experts.
FLAGS_WITHOUT_HELP = {
    "alias": ("--alias", "{}"),
    "experts": ("--smart-expert-reduction", "{0[1]},1"),
    "mla": ("--mla-use", "{}"),
    "attention_buffer": ("--attention-max-batch", "{}"),
}


def build_arguments(parameters: Mapping[str, Any], capabilities: Capabilities) -> list[str]:
    """Return the arguments for a binary of ik_llama.cpp; BadRequest for a parameter that the binary lacks."""
    kinds = validate_and_list_speculation_kinds(parameters)
    _require_supported_parameters(parameters, capabilities)
    in_stages = bool(kinds) and "draft" in capabilities.offered_values("--spec-type")
    words: list[str] = []
    for name, value in list_set_parameters_that_have_flags(parameters):
        if name in FLAGS_WITHOUT_HELP:
            flag, template = FLAGS_WITHOUT_HELP[name]
            words += [flag, template.format(value)]
        elif in_stages and name in STAGE_PARAMETERS:
            continue
        elif name in NGRAM_PARAMETERS:
            for row in list_flag_rows_for_kinds(name, value, kinds, FLAGS):
                words += choose_accepted_arguments(row, value, FLAGS, capabilities)
        else:
            words += choose_accepted_arguments(name, value, FLAGS, capabilities)
    kind_arguments = (
        _spec_type_arguments_per_kind(parameters, kinds, capabilities)
        if in_stages
        else _older_spec_type_arguments(kinds, capabilities)
    )
    unshown = {name: ((flag,),) for name, (flag, dummy) in FLAGS_WITHOUT_HELP.items()}
    return [
        *words,
        *kind_arguments,
        *reserved_flags.refuse_reserved_or_secret_flags(
            parameters.get("extra", []), parameters, {**FLAGS, **unshown}, capabilities
        ),
    ]


def _require_supported_parameters(parameters: Mapping[str, Any], capabilities: Capabilities) -> None:
    if parameters.get("models"):
        raise BadRequest(f"{capabilities.title} is no router: it serves one model. Make an instance for each.")
    if parameters.get("cpus"):
        raise BadRequest(
            f"{capabilities.title} cannot bind threads to CPUs by an argument. Set GOMP_CPU_AFFINITY in its "
            "environment when it was built with OpenMP, or give the unit exactly these CPUs."
        )


def _older_spec_type_arguments(kinds: list[str], capabilities: Capabilities) -> list[str]:
    if len(kinds) > 1:
        raise BadRequest(
            f"{capabilities.title} has one kind of speculation at a time, and {', '.join(kinds)} are requested. Take "
            "one kind, or a build of August 2026 or later, which takes two."
        )
    if not kinds or kinds == ["draft"]:
        return []
    return choose_accepted_arguments("speculation", kinds[0], FLAGS, capabilities)


def _spec_type_arguments_per_kind(
    parameters: Mapping[str, Any], kinds: list[str], capabilities: Capabilities
) -> list[str]:
    offered = capabilities.offered_values("--spec-type")
    for kind in kinds:
        if kind not in offered:
            raise BadRequest(f"{capabilities.title} has no speculation {kind}; it has {', '.join(offered)}.")
    if len(kinds) > MOST_STAGES:
        raise BadRequest(
            f"ik_llama.cpp chains at most {MOST_STAGES} kinds of speculation, and {', '.join(kinds)} are requested. "
            f"Leave {', '.join(kinds[MOST_STAGES:])} out."
        )
    settings_by_kind: dict[str, list[str]] = {kind: [] for kind in kinds}
    for name in STAGE_PARAMETERS:
        value = parameters.get(name)
        if value is not None:
            for row in list_flag_rows_for_kinds(name, value, kinds, STAGE_SETTINGS):
                settings_by_kind[row.partition("/")[2]].append(
                    STAGE_SETTINGS.get(row, "").format(_escape_commas(value))
                )
    words = []
    for kind in kinds:
        settings = ",".join(text for text in settings_by_kind[kind] if text)
        words += ["--spec-type", f"{kind}:{settings}" if settings else kind]
    return words


def _escape_commas(value: object) -> str:
    """Return a value for use inside of --spec-type, where an unescaped comma would end a setting."""
    return str(value).replace("\\", "\\\\").replace(",", "\\,")
