# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arguments of a llama-server of llama.cpp, of whatever era, from what is wanted and what its --help says.

The table was read in the sources of August 2025 (with llama-cpp-python 0.3.16), of early 2026 (0.3.17) and of builds
9093 to 11434.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._models import draft_compatibility
from . import ik_llama, reserved_flags
from .capabilities import IK, PINS_SINCE
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
    "models": (("--models-preset", X),),
    "models_loaded": (("--models-max", X),),
    "alias": (("--alias", X),),
    "host": (("--host", X),),
    "port": (("--port", X),),
    "context": (("--ctx-size", X),),
    "slots": (("--parallel", X),),
    "task=embedding": (("--embedding",),),
    "task=rerank": (("--reranking",),),
    "projector": (("--mmproj", X),),
    "adapters": (("--lora-scaled", X),),
    "chat_template": (("--jinja", "--chat-template-file", X),),
    # A build without them keeps nothing of the kind.
    "prompt_cache": (("--cache-ram", X), ()),
    "checkpoints": (("--ctx-checkpoints", X), ()),
    "threads": (("--threads", X),),
    "threads_batch": (("--threads-batch", X),),
    # The masks for batches are the ones above only where no --threads-batch is given.
    "cpus": (("--cpu-mask", X, "--cpu-strict", "1", "--cpu-mask-batch", X, "--cpu-strict-batch", "1"),),
    "numa": (("--numa", X),),
    # Build 10108 deprecated the old flags and 10883 has them no more; in between their meaning together changed.
    "load=mmap": (("--load-mode", "mmap"), ("--mmap",), ()),
    "load=none": (("--load-mode", "none"), ("--no-mmap",)),
    "load=mlock": (("--load-mode", "mlock"), ("--no-mmap", "--mlock")),
    "load=dio": (("--load-mode", "dio"), ("--direct-io",)),
    "repack=True": (("--repack",), ()),
    "repack=False": (("--no-repack",),),
    # Without a value until August 2025: it would take the next argument for one today.
    "flash_attention=on": (("--flash-attn", "on"), ("--flash-attn",)),
    "flash_attention=off": (("--flash-attn", "off"), ()),
    "flash_attention=auto": (("--flash-attn", "auto"),),
    "cache_type_k": (("--cache-type-k", X),),
    "cache_type_v": (("--cache-type-v", X),),
    "batch": (("--batch-size", X),),
    "ubatch": (("--ubatch-size", X),),
    "experts": (("--override-kv", X),),
    **CHOOSING,
    "speculation": (("--spec-type", X),),
    "draft_model": (("--spec-draft-model", X), ("--model-draft", X)),
    "draft_threads": (("--spec-draft-threads", X), ("--threads-draft", X)),
    "draft_threads_batch": (("--spec-draft-threads-batch", X), ("--threads-batch-draft", X)),
    "draft_max": (("--spec-draft-n-max", X), ("--draft-max", X)),
    "draft_min": (("--spec-draft-n-min", X), ("--draft-min", X)),
    "draft_p_min": (("--spec-draft-p-min", X), ("--draft-p-min", X)),
    "draft_cache_type_k": (("--spec-draft-type-k", X), ("--cache-type-k-draft", X)),
    "draft_cache_type_v": (("--spec-draft-type-v", X), ("--cache-type-v-draft", X)),
    # Early in 2026 all kinds shared their flags, and no draft was longer than --draft-max.
    "ngram_lookup/ngram-simple": (("--spec-ngram-simple-size-n", X), ("--spec-ngram-size-n", X)),
    "ngram_lookup/ngram-map-k": (("--spec-ngram-map-k-size-n", X), ("--spec-ngram-size-n", X)),
    "ngram_lookup/ngram-mod": (("--spec-ngram-mod-n-match", X), ("--spec-ngram-size-n", X)),
    "ngram_max/ngram-simple": (("--spec-ngram-simple-size-m", X), ("--spec-ngram-size-m", X, "--draft-max", X)),
    "ngram_max/ngram-map-k": (("--spec-ngram-map-k-size-m", X), ("--spec-ngram-size-m", X, "--draft-max", X)),
    "ngram_max/ngram-mod": (
        ("--spec-ngram-mod-n-max", X, "--spec-ngram-mod-n-min", SHORTEST_MOD),
        ("--draft-max", X, "--draft-min", SHORTEST_MOD),
    ),
    "ngram_min_hits/ngram-simple": (("--spec-ngram-simple-min-hits", X), ("--spec-ngram-min-hits", X)),
    "ngram_min_hits/ngram-map-k": (("--spec-ngram-map-k-min-hits", X), ("--spec-ngram-min-hits", X)),
    "ngram_min_hits/ngram-mod=1": ((),),
    # Only the draft goes to the other process: without --device none the model would go there too.
    "rpc": (
        ("--rpc", X, "--device", "none", "--spec-draft-device", "RPC0", "--spec-draft-ngl", "99"),
        ("--rpc", X, "--device", "none", "--device-draft", "RPC0", "--gpu-layers-draft", "99"),
    ),
    # All layers that are not on the head go to them, in proportion to the memory that each of them says is free.
    "rpc_workers": (("--rpc", X),),
    "rpc_layers": (("--n-gpu-layers", X),),
    "metrics": (("--metrics",),),
    "slots_endpoint": (("--slots",), ()),
    "api_key_file": (("--api-key-file", X),),
}

#: What this collection calls the kinds of speculation, and what --spec-type calls them, where they differ.
SPEC_TYPES = {"draft": "draft-simple", **{kind: f"draft-{kind}" for kind in draft_compatibility.KINDS}}

#: The most CPUs that its masks hold.
MASK = 512


def arguments(wants: Mapping[str, Any], capabilities: Capabilities) -> list[str]:
    """Return the arguments for this binary, by the builder of its engine. BadRequest for what it cannot have."""
    if capabilities.engine == IK:
        return ik_llama.arguments(wants, capabilities)
    kinds = check(wants)
    if wants.get("cpus") and not capabilities.pins_work:
        raise BadRequest(
            f"{capabilities.name} is not known to bind threads to CPUs: llama-server took masks without effect until "
            f"build {PINS_SINCE}. Set GOMP_CPU_AFFINITY in its environment when it was built with OpenMP, or give the "
            "unit exactly these CPUs."
        )
    words: list[str] = []
    for want, value in to_say(wants):
        if want in NGRAM:
            for row in of_kinds(want, value, kinds, FLAGS):
                words += spelled(row, value, FLAGS, capabilities)
        else:
            words += spelled(want, _text(want, value), FLAGS, capabilities)
    extra = reserved_flags.checked(wants.get("extra", []), wants, FLAGS, capabilities)
    return [*words, *_speculation(kinds, capabilities), *extra]


def refuse_variables(variables: Mapping[str, str], wants: Mapping[str, Any], capabilities: Capabilities) -> None:
    """Raise BadRequest for variables that say what an option does, as a flag of the user's own would be refused."""
    table = ik_llama.FLAGS if capabilities.engine == IK else FLAGS
    reserved_flags.refuse_variables(variables, wants, table, capabilities)


def _text(want: str, value: Any) -> object:
    if want == "cpus":
        if max(value) >= MASK:
            raise BadRequest(f"CPU {max(value)} has no place in the masks of llama-server, which end at {MASK - 1}.")
        return hex(sum(1 << cpu for cpu in value))
    if want == "experts":
        architecture, count = value
        return f"{architecture}.expert_used_count=int:{count}"
    return value


def _speculation(kinds: list[str], capabilities: Capabilities) -> list[str]:
    """Return --spec-type as this era has it: for each kind, or only for n-grams, or not at all."""
    flag = "--spec-type"
    drafts_by_model = SPEC_TYPES["draft"] not in capabilities.values(flag)
    if not kinds or (kinds == ["draft"] and drafts_by_model):
        # Up to build 9113 a draft model was all it took.
        return []
    if len(kinds) > 1 and not capabilities.takes_many(flag):
        raise BadRequest(
            f"{capabilities.name} has one kind of speculation at a time, and {', '.join(kinds)} are wanted. Take one "
            "of them, or a build that takes several in --spec-type."
        )
    names = ",".join(SPEC_TYPES.get(kind, kind) for kind in kinds)
    return spelled("speculation", names, FLAGS, capabilities)
