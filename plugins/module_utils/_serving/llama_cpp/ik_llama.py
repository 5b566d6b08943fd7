# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arguments of a llama-server of ik_llama.cpp. It shares no flags with llama.cpp but by chance: it has a table of
its own, and says what it cannot have with the nearest thing that it has.

Read in the sources with ik-llama-cpp-python 0.1.5 and in those of August 2026, which take all settings of a kind of
speculation within --spec-type and refuse the flags of before.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..options.speculation_kinds import DRAFTING_KINDS
from . import reserved_flags
from .flags import CHOOSING, SHORTEST_MOD, X, spelled
from .server_parameters import NGRAM, check, of_kinds, to_say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .capabilities import Capabilities
    from .flags import Candidate

FLAGS: dict[str, tuple[Candidate, ...]] = {
    "model": (("--model", X),),
    "host": (("--host", X),),
    "port": (("--port", X),),
    "context": (("--ctx-size", X),),
    "slots": (("--parallel", X),),
    "task=embedding": (("--embedding",),),
    "projector": (("--mmproj", X),),
    "chat_template": (("--jinja", "--chat-template-file", X),),
    "prompt_cache": (("--cache-ram", X), ()),
    "checkpoints": (("--ctx-checkpoints", X), ()),
    "threads": (("--threads", X),),
    "threads_batch": (("--threads-batch", X),),
    "numa": (("--numa", X),),
    "load=mmap": ((),),
    "load=none": (("--no-mmap",),),
    "load=mlock": (("--no-mmap", "--mlock"),),
    "repack=True": (("--run-time-repack",),),
    "repack=False": ((),),
    "flash_attention=on": (("--flash-attn", "on"),),
    "flash_attention=off": (("--flash-attn", "off"),),
    "flash_attention=auto": (("--flash-attn", "auto"),),
    "cache_type_k": (("--cache-type-k", X),),
    "cache_type_v": (("--cache-type-v", X),),
    "batch": (("--batch-size", X),),
    "ubatch": (("--ubatch-size", X),),
    **CHOOSING,
    "draft_model": (("--model-draft", X),),
    "draft_threads": (("--threads-draft", X),),
    "draft_threads_batch": (("--threads-batch-draft", X),),
    "draft_max": (("--draft-max", X),),
    "draft_min": (("--draft-min", X),),
    "draft_p_min": (("--draft-p-min", X),),
    "draft_cache_type_k": (("--cache-type-k-draft", X),),
    "draft_cache_type_v": (("--cache-type-v-draft", X),),
    "speculation": (("--spec-type", X),),
    "ngram_lookup/ngram-simple": (("--spec-ngram-size-n", X),),
    "ngram_lookup/ngram-map-k": (("--spec-ngram-size-n", X),),
    "ngram_lookup/ngram-mod": (("--spec-ngram-size-n", X),),
    "ngram_max/ngram-simple": (("--spec-ngram-size-m", X, "--draft-max", X),),
    "ngram_max/ngram-map-k": (("--spec-ngram-size-m", X, "--draft-max", X),),
    "ngram_max/ngram-mod": (("--draft-max", X),),
    "ngram_min_hits/ngram-simple": (("--spec-ngram-min-hits", X),),
    "ngram_min_hits/ngram-map-k": (("--spec-ngram-min-hits", X),),
    "ngram_min_hits/ngram-mod=1": ((),),
    "rpc": (("--rpc", X, "--device", "none", "--device-draft", "RPC0", "--gpu-layers-draft", "99"),),
    "fused_moe=True": (("--fused-moe",), ()),
    "fused_moe=False": (("--no-fused-moe",), ()),
    "metrics": (("--metrics",),),
    "slots_endpoint": ((),),
    "api_key_file": (("--api-key-file", X),),
}
#: The settings within --spec-type of August 2026: of the draft, and of each kind of n-grams.
SETTINGS = {
    **{f"draft_max/{kind}": "n_max={}" for kind in DRAFTING_KINDS},
    **{f"draft_min/{kind}": "n_min={}" for kind in DRAFTING_KINDS},
    **{f"draft_p_min/{kind}": "p_min={}" for kind in DRAFTING_KINDS},
    "ngram_lookup/ngram-simple": "ngram_size_n={}",
    "ngram_lookup/ngram-map-k": "ngram_size_n={}",
    "ngram_lookup/ngram-mod": "ngram_size_n={}",
    "ngram_max/ngram-simple": "ngram_size_m={0},n_max={0}",
    "ngram_max/ngram-map-k": "ngram_size_m={0},n_max={0}",
    "ngram_max/ngram-mod": f"n_max={{}},n_min={SHORTEST_MOD}",
    "ngram_min_hits/ngram-simple": "ngram_min_hits={}",
    "ngram_min_hits/ngram-map-k": "ngram_min_hits={}",
    "ngram_min_hits/ngram-mod=1": "",
    "suffix_corpus/suffix": "suffix_corpus={}",
}
IN_STAGES = ("draft_max", "draft_min", "draft_p_min", *NGRAM, "suffix_corpus")
STAGES = 2
#: What its --help does not list, or shows without the value that it takes; all builds know them. The two numbers are
#: the fewest experts, and how likely the others must be against the first to be used too: at 1 none of them is.
UNSHOWN = {
    "alias": ("--alias", "{}"),
    "experts": ("--smart-expert-reduction", "{0[1]},1"),
    "mla": ("--mla-use", "{}"),
    "attention_buffer": ("--attention-max-batch", "{}"),
}


def arguments(wants: Mapping[str, Any], capabilities: Capabilities) -> list[str]:
    """Return the arguments for this binary. BadRequest for what it cannot have, with the nearest thing that it has."""
    kinds = check(wants)
    _refuse(wants, capabilities)
    in_stages = bool(kinds) and "draft" in capabilities.values("--spec-type")
    words: list[str] = []
    for want, value in to_say(wants):
        if want in UNSHOWN:
            flag, template = UNSHOWN[want]
            words += [flag, template.format(value)]
        elif in_stages and want in IN_STAGES:
            continue
        elif want in NGRAM:
            for row in of_kinds(want, value, kinds, FLAGS):
                words += spelled(row, value, FLAGS, capabilities)
        else:
            words += spelled(want, value, FLAGS, capabilities)
    said = _stages(wants, kinds, capabilities) if in_stages else _one_kind(kinds, capabilities)
    unshown = {want: ((flag,),) for want, (flag, dummy) in UNSHOWN.items()}
    return [*words, *said, *reserved_flags.checked(wants.get("extra", []), wants, {**FLAGS, **unshown}, capabilities)]


def _refuse(wants: Mapping[str, Any], capabilities: Capabilities) -> None:
    if wants.get("models"):
        raise BadRequest(f"{capabilities.name} is no router: it serves one model. Make an instance for each.")
    if wants.get("cpus"):
        raise BadRequest(
            f"{capabilities.name} cannot bind threads to CPUs by an argument. Set GOMP_CPU_AFFINITY in its environment "
            "when it was built with OpenMP, or give the unit exactly these CPUs."
        )
    if wants.get("repack") and wants.get("load") == "mmap":
        raise BadRequest(
            f"{capabilities.name} repacks weights only when it reads them into memory, not when it maps the file. "
            "Leave repack out, or take load none."
        )


def _one_kind(kinds: list[str], capabilities: Capabilities) -> list[str]:
    """Return --spec-type of the older builds: for n-grams only, and not beside a draft."""
    if len(kinds) > 1:
        raise BadRequest(
            f"{capabilities.name} has one kind of speculation at a time, and {', '.join(kinds)} are wanted. Take one "
            "of them, or a build of August 2026 or later, which takes two."
        )
    if not kinds or kinds == ["draft"]:
        return []
    return spelled("speculation", kinds[0], FLAGS, capabilities)


def _stages(wants: Mapping[str, Any], kinds: list[str], capabilities: Capabilities) -> list[str]:
    """Return one --spec-type for each kind, with its settings inside."""
    there = capabilities.values("--spec-type")
    for kind in kinds:
        if kind not in there:
            raise BadRequest(f"{capabilities.name} has no speculation {kind}; it has {', '.join(there)}.")
    if len(kinds) > STAGES:
        raise BadRequest(
            f"ik_llama.cpp chains at most {STAGES} kinds of speculation, and {', '.join(kinds)} are wanted. Leave "
            f"{', '.join(kinds[STAGES:])} out."
        )
    said: dict[str, list[str]] = {kind: [] for kind in kinds}
    for want in IN_STAGES:
        value = wants.get(want)
        if value is not None:
            for row in of_kinds(want, value, kinds, SETTINGS):
                said[row.partition("/")[2]].append(SETTINGS.get(row, "").format(_escaped(value)))
    words = []
    for kind in kinds:
        settings = ",".join(text for text in said[kind] if text)
        words += ["--spec-type", f"{kind}:{settings}" if settings else kind]
    return words


def _escaped(value: object) -> str:
    """Return a setting as it stands within --spec-type, where a comma ends one."""
    return str(value).replace("\\", "\\\\").replace(",", "\\,")
