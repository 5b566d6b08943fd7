# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wanted of a server, and what of it goes together; the same for every engine.

A missing key is not wanted: the server's own default stays.
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

#: The kinds of speculation that need a file to draft with.
OF_A_FILE = tuple(kind for kind in DRAFTING_KINDS if kind != draft_compatibility.MTP)
#: Needed with each of them, and of no effect without: a kind of speculation that drafts.
DRAFT = (
    "draft_model",
    "draft_threads",
    "draft_threads_batch",
    "draft_max",
    "draft_min",
    "draft_p_min",
    "draft_cache_type_k",
    "draft_cache_type_v",
    "rpc",
)
NGRAM = ("ngram_lookup", "ngram_max", "ngram_min_hits")
SAMPLING = tuple(sampling.RANGES)
WANTS = (
    "model",
    "models",
    "models_loaded",
    "alias",
    "host",
    "port",
    "context",
    "slots",
    "task",
    "projector",
    "adapters",
    "chat_template",
    "prompt_cache",
    "checkpoints",
    "threads",
    "threads_batch",
    "cpus",
    "numa",
    "load",
    "repack",
    "flash_attention",
    "cache_type_k",
    "cache_type_v",
    "batch",
    "ubatch",
    "experts",
    "mla",
    "attention_buffer",
    "fused_moe",
    *SAMPLING,
    "rpc_workers",
    "rpc_layers",
    "speculation",
    *DRAFT,
    *NGRAM,
    "suffix_corpus",
    "metrics",
    "slots_endpoint",
    "api_key_file",
    "extra",
)


def check(wants: Mapping[str, Any]) -> list[str]:
    """Return the kinds of speculation that are wanted; BadRequest for what does not go together on any server."""
    for want in wants:
        if want not in WANTS:
            raise BadRequest(f"Nothing called {want} can be wanted of a server; known are {', '.join(WANTS)}.")
    kinds = list(wants.get("speculation") or [])
    if set(OF_A_FILE) & set(kinds) and not wants.get("draft_model"):
        raise BadRequest(
            "Speculation with a draft needs a draft model; name one, or take a kind of n-gram speculation."
        )
    lost = [want for want in DRAFT if want in wants and not set(DRAFTING_KINDS) & set(kinds)]
    if lost:
        raise BadRequest(
            f"{lost[0]} is of no use without speculation of the kind draft: the server would load a draft and never "
            "use it. Add the kind, or leave it out."
        )
    idle = [want for want in NGRAM if want in wants and not any(kind.startswith("ngram") for kind in kinds)]
    if idle:
        raise BadRequest(f"{idle[0]} is of no use without n-gram speculation. Add a kind of it, or leave it out.")
    if wants.get("cpus") and wants.get("numa"):
        raise BadRequest(
            f"A CPU for each thread and numa {wants['numa']} exclude each other: the server moves its threads to whole "
            "nodes for every graph, and the pins are lost. Ask for one of them."
        )
    return kinds


def to_say(wants: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return what each row of a table is asked for; the kinds of speculation and the user's own words have none."""
    rows = [(want, wants.get(want)) for want in WANTS if want not in ("speculation", "extra")]
    return [
        (want, value)
        for want, value in rows
        if value not in (None, [], "") and (value is not False or want in ("repack", "fused_moe"))
    ]


def of_kinds(want: str, value: object, kinds: list[str], rows: Mapping[str, object]) -> list[str]:
    """Return the rows that say a want about n-grams for each kind that has it; BadRequest when none has."""
    found = [f"{want}/{kind}" for kind in kinds if f"{want}/{kind}" in rows or f"{want}/{kind}={value}" in rows]
    if not found:
        raise BadRequest(
            f"{' and '.join(kind for kind in kinds if kind != 'draft')} cannot have {want} {value}: there is no such "
            "setting. Leave it out, or take ngram-simple."
        )
    return found
