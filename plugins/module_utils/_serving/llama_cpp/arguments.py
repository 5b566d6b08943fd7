# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the arguments of a llama-server of llama.cpp, old or new, from server parameters and the flags of its --help.

The flag table covers the sources of August 2025 (in llama-cpp-python 0.3.16), of early 2026 (in 0.3.17), and builds
9093 to 11434.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._models import draft_compatibility
from . import ik_llama, reserved_flags
from .capabilities import FIRST_PINNING_BUILD, IK
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

#: The present flags of drafts and n-grams; older builds have EARLY_FLAGS.
NEWEST_FLAGS: dict[str, Candidate] = {
    "draft_model": ("--spec-draft-model", VALUE),
    "draft_threads": ("--spec-draft-threads", VALUE),
    "draft_threads_batch": ("--spec-draft-threads-batch", VALUE),
    "draft_max": ("--spec-draft-n-max", VALUE),
    "draft_min": ("--spec-draft-n-min", VALUE),
    "draft_p_min": ("--spec-draft-p-min", VALUE),
    "draft_cache_type_k": ("--spec-draft-type-k", VALUE),
    "draft_cache_type_v": ("--spec-draft-type-v", VALUE),
    "ngram_lookup/ngram-simple": ("--spec-ngram-simple-size-n", VALUE),
    "ngram_lookup/ngram-map-k": ("--spec-ngram-map-k-size-n", VALUE),
    "ngram_lookup/ngram-mod": ("--spec-ngram-mod-n-match", VALUE),
    "ngram_max/ngram-simple": ("--spec-ngram-simple-size-m", VALUE),
    "ngram_max/ngram-map-k": ("--spec-ngram-map-k-size-m", VALUE),
    "ngram_max/ngram-mod": ("--spec-ngram-mod-n-max", VALUE, "--spec-ngram-mod-n-min", SHORTEST_NGRAM_MOD_DRAFT),
    "ngram_min_hits/ngram-simple": ("--spec-ngram-simple-min-hits", VALUE),
    "ngram_min_hits/ngram-map-k": ("--spec-ngram-map-k-min-hits", VALUE),
    "rpc": ("--rpc", VALUE, "--device", "none", "--spec-draft-device", "RPC0", "--spec-draft-ngl", "99"),
}
FLAGS: dict[str, tuple[Candidate, ...]] = {
    "models": (("--models-preset", VALUE),),
    "models_loaded": (("--models-max", VALUE),),
    "alias": (("--alias", VALUE),),
    "kv_unified=True": (("--kv-unified",),),
    "slot_limit": (("--kv-unified-per-slot", VALUE),),
    "keep_idle_slots": (("--no-cache-idle-slots",), ()),
    "task=rerank": (("--reranking",),),
    "adapters": (("--lora-scaled", VALUE),),
    # With --threads-batch, batches do not use the CPU masks for decoding, so the same masks are passed for batches too.
    "cpus": (("--cpu-mask", VALUE, "--cpu-strict", "1", "--cpu-mask-batch", VALUE, "--cpu-strict-batch", "1"),),
    # Build 10108 deprecated the old flags and build 10883 removed them. In between, their combined meaning changed.
    "load=mmap": (("--load-mode", "mmap"), ("--mmap",), ()),
    "load=none": (("--load-mode", "none"), ("--no-mmap",)),
    "load=mlock": (("--load-mode", "mlock"), ("--no-mmap", "--mlock")),
    "load=dio": (("--load-mode", "dio"), ("--direct-io",)),
    "repack=True": (("--repack",), ()),
    "repack=False": (("--no-repack",),),
    # Until August 2025, --flash-attn took no value. A newer server would read the next argument as the value.
    "flash_attention=on": (("--flash-attn", "on"), ("--flash-attn",)),
    "flash_attention=off": (("--flash-attn", "off"), ()),
    "experts": (("--override-kv", VALUE),),
    # ik_llama.cpp has the flag too, and writes further files beside each slot file, which have no checksum.
    "slot_files": (("--slot-save-path", VALUE),),
    **COMMON_FLAGS,
    **{name: (newest, EARLY_FLAGS[name]) for name, newest in NEWEST_FLAGS.items()},
    # The server divides these layers between the workers in proportion to the free memory that each worker reports.
    "rpc_workers": (("--rpc", VALUE),),
    "rpc_layers": (("--n-gpu-layers", VALUE),),
    "slots_endpoint": (("--slots",), ()),
    "reuse_port": (("--reuse-port",), ()),
    "fit": (("--fit", VALUE), ()),
}

#: The names of kinds of speculation in --spec-type, where these names are others than the names in SERVER_KINDS.
SPEC_TYPES = {"draft": "draft-simple", **{kind: f"draft-{kind}" for kind in draft_compatibility.HEAD_KINDS}}

#: The number of CPUs for which --cpu-mask has bits.
MOST_CPUS_IN_MASK = 512


def build_arguments(parameters: Mapping[str, Any], capabilities: Capabilities) -> list[str]:
    """Return the arguments for a server binary of either engine; BadRequest for a parameter that the binary lacks."""
    if capabilities.engine == IK:
        return ik_llama.build_arguments(parameters, capabilities)
    kinds = validate_and_list_speculation_kinds(parameters)
    if parameters.get("cpus") and not capabilities.can_pin_threads:
        raise BadRequest(
            f"{capabilities.title} is not known to bind threads to CPUs: llama-server took masks without effect until "
            f"build {FIRST_PINNING_BUILD}. Set GOMP_CPU_AFFINITY in its environment when it was built with OpenMP, "
            "or give the unit exactly these CPUs."
        )
    words: list[str] = []
    for name, value in list_set_parameters_that_have_flags(parameters):
        if name in NGRAM_PARAMETERS:
            for row in list_flag_rows_for_kinds(name, value, kinds, FLAGS):
                words += choose_accepted_arguments(row, value, FLAGS, capabilities)
        else:
            words += choose_accepted_arguments(name, _format_value(name, value), FLAGS, capabilities)
    extra = reserved_flags.refuse_reserved_or_secret_flags(parameters.get("extra", []), parameters, FLAGS, capabilities)
    return [*words, *_speculation_kind_arguments(kinds, capabilities), *extra]


def refuse_reserved_or_secret_variables(
    variables: Mapping[str, str], parameters: Mapping[str, Any], capabilities: Capabilities
) -> None:
    table = ik_llama.FLAGS if capabilities.engine == IK else FLAGS
    reserved_flags.refuse_reserved_or_secret_variables(variables, parameters, table, capabilities)


def _format_value(name: str, value: Any) -> object:
    if name == "cpus":
        if max(value) >= MOST_CPUS_IN_MASK:
            raise BadRequest(
                f"CPU {max(value)} has no place in the masks of llama-server, which end at {MOST_CPUS_IN_MASK - 1}."
            )
        return hex(sum(1 << cpu for cpu in value))
    if name == "experts":
        architecture, count = value
        return f"{architecture}.expert_used_count=int:{count}"
    return value


def _speculation_kind_arguments(kinds: list[str], capabilities: Capabilities) -> list[str]:
    flag = "--spec-type"
    drafts_by_model = SPEC_TYPES["draft"] not in capabilities.offered_values(flag)
    if not kinds or (kinds == ["draft"] and drafts_by_model):
        # Builds up to 9113 draft whenever they get a draft model.
        return []
    if len(kinds) > 1 and not capabilities.takes_list(flag):
        raise BadRequest(
            f"{capabilities.title} has one kind of speculation at a time, and {', '.join(kinds)} are requested. Take "
            "one kind, or a build that takes several in --spec-type."
        )
    names = ",".join(SPEC_TYPES.get(kind, kind) for kind in kinds)
    return choose_accepted_arguments("speculation", names, FLAGS, capabilities)
