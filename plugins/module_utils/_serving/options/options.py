# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of an instance of llama-server, with their types, defaults and choices, and which options conflict."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._models import draft_compatibility
from ..._notation.sizes import UNITS, parse_bytes
from . import (
    adapters,
    catalogue_model,
    router,
    rpc_endpoints,
    sampling,
    slot_context,
    speculation_kinds,
    unit_settings,
)
from .option_table import COMMON_FIELDS, Field, OptionTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

ENGINES = ("llama.cpp", "ik_llama.cpp")
TASKS = ("completion", "embedding", "rerank")
#: How the vectors of the tokens of a text become one vector. The value none of llama-server is left out: a server that
#: gives a vector for each token answers requests to /v1/embeddings with an error.
POOLINGS = ("mean", "cls", "last", "rank")
PLACEMENTS = ("shared", "first_ccd", "own_ccd")
MEMORY_POLICIES = ("bind", "interleave", "distribute", "rows", "mirror", "local")
#: Memory policies with which the server binds each thread to a NUMA node, and uses the mapped file without repacking.
POLICIES_BY_THREAD = ("distribute", "rows")
#: By memory policy with which the server itself places its threads or weights: the value of its flag --numa.
NUMA_MODES = {"distribute": "distribute", "rows": "distribute", "mirror": "mirror"}
HUGEPAGES = ("none", "thp", "pool", "hugetlbfs")
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")


FIELDS = {
    **COMMON_FIELDS,
    # The server and its models
    "binary": Field("path", required=True),
    "rpc_binary": Field("path"),
    "engine": Field("str", None, ENGINES),
    "model": Field("path"),
    "models": Field("dict", {}),
    "models_loaded": Field("int", low=1),
    "draft_model": Field("path"),
    "projector": Field("path"),
    "adapters": Field("dict", {}),
    "chat_template": Field("path"),
    "task": Field("str", "completion", TASKS),
    "pooling": Field("str", None, POOLINGS),
    "context": Field("int", low=1),
    "context_per_slot": Field("int", low=1),
    "slots": Field("int", 1, low=1),
    "kv_unified": Field("bool"),
    "cache_type_k": Field("str", "f16", CACHE_TYPES),
    "cache_type_v": Field("str", "f16", CACHE_TYPES),
    "flash_attention": Field("str", None, ("on", "off", "auto")),
    "batch": Field("int", low=1),
    "ubatch": Field("int", low=1),
    "experts": Field("int", low=1),
    "sampling": Field("dict", {}),
    "catalogue_model": Field("dict", {}),
    # Options of ik_llama.cpp only
    "mla": Field("int", low=0, high=3),
    "attention_buffer": Field("int", low=1),
    "fused_moe": Field("bool"),
    "repack_at_start": Field("bool", False),
    # RPC workers on other hosts
    "rpc_workers": Field("list", ()),
    "rpc_layers": Field("int", low=1),
    # Speculation
    "speculation": Field("list", ("ngram",), speculation_kinds.WORDS),
    "draft_max": Field("int", low=1, high=64),
    "draft_p_min": Field("float", low=0, high=1),
    "draft_cache_type_k": Field("str", None, CACHE_TYPES),
    "draft_cache_type_v": Field("str", None, CACHE_TYPES),
    "draft_placement": Field("str", "shared", PLACEMENTS),
    "draft_cpus": Field("str"),
    "rpc_port": Field("int", low=1024, high=65535),
    "ngram_lookup": Field("int", 6, low=1, high=1024),
    "ngram_max": Field("int", low=1, high=1024),
    "ngram_min_hits": Field("int", 1, low=1),
    "suffix_corpus": Field("path"),
    # CPUs
    "threads": Field("int", low=1, high=512),
    "threads_batch": Field("int", low=1, high=512),
    "draft_threads": Field("int", low=1, high=512),
    "l3_group": Field("str"),
    "draft_l3_group": Field("str"),
    # Memory
    "nodes": Field("str"),
    "memory": Field("str", None, MEMORY_POLICIES),
    "hugepages": Field("str", "none", HUGEPAGES),
    "hugetlbfs": Field("path", "/dev/hugepages"),
    "lock": Field("bool", False),
    "direct_io": Field("bool", False),
    "repack": Field("bool"),
    "prompt_cache": Field("str"),
    "slot_files": Field("str"),
    "checkpoints": Field("int", 32, low=0, high=1000),
    "bandwidth": Field("float", low=1, high=10000),
}
#: Options that only have an effect with a draft model.
DRAFT_OPTIONS = (
    *("draft_model", "draft_max", "draft_p_min", "draft_cache_type_k", "draft_cache_type_v", "draft_cpus"),
    *("draft_threads", "draft_l3_group", "rpc_port", "rpc_binary"),
)
#: Options that need a kind of speculation, and the value of the option speculation with which they have an effect.
KIND_NEEDED_BY_OPTION = {**dict.fromkeys(DRAFT_OPTIONS, "draft or cascade"), "suffix_corpus": "suffix"}
PARSERS: dict[str, Callable[[object], Any]] = {
    "adapters": adapters.parse_adapter_scales,
    "catalogue_model": catalogue_model.parse_catalogue_model,
    "models": router.parse_router_models,
    "sampling": sampling.parse_sampling_settings,
    "speculation": speculation_kinds.parse_speculation_kinds,
    "unit_settings": unit_settings.parse_unit_settings,
}


class Options(OptionTable):
    """The options of one instance of llama-server: an attribute for each of ``FIELDS``, None where it is not set."""

    __slots__ = tuple(FIELDS)

    fields = FIELDS
    value_parsers = PARSERS
    engine_key = "llama"

    @property
    def model_paths(self) -> list[str]:
        """The path of each model that the instance serves; the first file of a model in several files."""
        return list(self.models.values()) if self.models else [self.model]

    @property
    def uses_draft(self) -> bool:
        """Whether the options request a draft model, or a head that drafts."""
        return self.drafting_kind is not None

    @property
    def drafting_kind(self) -> str | None:
        """The requested kind of speculation that drafts with a model or a head, None where there is none."""
        return next((word for word in self.speculation if word in speculation_kinds.DRAFTING_KINDS), None)

    @property
    def speculation_text(self) -> str:
        """The kinds of speculation as an inventory writes them, such as "ngram,draft" or "none"."""
        return ",".join(self.speculation) or "none"

    @property
    def can_speculate(self) -> bool:
        """Whether the server may speculate: it must generate text, and take no pictures."""
        return bool(self.speculation and self.generates_text and not self.projector)

    @property
    def generates_text(self) -> bool:
        """Whether the server generates text; else it computes embeddings, or ranks texts."""
        return bool(self.task == "completion")

    @property
    def prompt_cache_mib(self) -> int | None:
        """The size of the prompt cache in MiB; None where the plan chooses it, 0 for a server that makes no text."""
        if not self.generates_text:
            return 0
        return parse_bytes(self.prompt_cache, "prompt_cache") // UNITS["MiB"] if self.prompt_cache else None

    @property
    def slot_files_bytes(self) -> int:
        """The largest size of the saved prompts on the disk; 0 for a server that saves none."""
        return parse_bytes(self.slot_files, "slot_files") if self.slot_files else 0

    @property
    def checkpoints_per_slot(self) -> int:
        """The number of checkpoints that the server keeps for each slot; 0 for a server that generates no text."""
        return int(self.checkpoints) if self.generates_text else 0

    def validate(self) -> None:
        super().validate()
        _refuse_conflicting_options(self)
        slot_context.set_context_of_slots(self)


def options_refused_for_kinds(kinds: Sequence[str]) -> list[str]:
    """Return the options that have no effect, and are refused, with these kinds of speculation."""
    drafts = any(word in speculation_kinds.DRAFTING_KINDS for word in kinds)
    return [key for key in KIND_NEEDED_BY_OPTION if not (drafts if key in DRAFT_OPTIONS else "suffix" in kinds)]


def _refuse_conflicting_options(options: Options) -> None:
    if options.name.endswith("-rpc"):
        raise BadRequest(
            f"name is '{options.name}'; names that end in -rpc are reserved for the units of drafts. Choose "
            "another name."
        )
    router.validate_one_or_several_models(options)
    for key in ("binary", "rpc_binary"):
        # systemd expands variables everywhere except in the path of the program.
        if "$" in (getattr(options, key) or ""):
            raise BadRequest(f"{key}: systemd runs no program with a $ in its path; rename the file.")
    if options.prompt_cache and parse_bytes(options.prompt_cache, "prompt_cache") % UNITS["MiB"]:
        raise BadRequest(f"prompt_cache: '{options.prompt_cache}' is no whole number of MiB, in which a server counts.")
    _refuse_slot_files_without_effect(options)
    if options.uses_draft and not options.generates_text:
        raise BadRequest(f"task is {options.task}, which guesses no tokens: leave speculation out.")
    if options.sampling and not options.generates_text:
        raise BadRequest(f"task is {options.task}, which chooses no tokens: leave sampling out.")
    if options.chat_template and not options.generates_text:
        raise BadRequest(f"task is {options.task}, which has no conversations: leave chat_template out.")
    if options.projector and not options.generates_text:
        raise BadRequest(f"projector has no effect with task {options.task}. Leave one of them out.")
    if options.pooling and (options.generates_text or (options.pooling == "rank") != (options.task == "rerank")):
        raise BadRequest(
            f"pooling {options.pooling} has no effect with task {options.task}: mean, cls and last are for task "
            "embedding, and rank is for task rerank. Leave it out, or change the task."
        )
    if options.uses_draft and not options.draft_model and options.drafting_kind != draft_compatibility.MTP:
        raise BadRequest(f"speculation is {options.speculation_text}, which needs a draft_model; or say ngram.")
    for key in options_refused_for_kinds(options.speculation):
        if getattr(options, key) is not None:
            raise BadRequest(
                f"{key} has no effect, because speculation is {options.speculation_text}: say "
                f"{KIND_NEEDED_BY_OPTION[key]}, or leave {key} out."
            )
    if "ngram" in options.speculation and options.ngram_max and options.ngram_max < options.ngram_lookup:
        raise BadRequest(
            f"ngram_max is {options.ngram_max} and ngram_lookup {options.ngram_lookup}: the server never guesses fewer "
            "tokens than it looks up, so it would guess none. Make ngram_max as large, or ngram_lookup smaller."
        )
    if options.drafting_kind in draft_compatibility.HEAD_KINDS and options.draft_placement != "shared":
        raise BadRequest(
            f"draft_placement {options.draft_placement} is for a draft model: a head reads what the model computes, "
            "and runs where the model runs. Leave it out."
        )
    if options.draft_cpus and options.draft_placement == "shared":
        raise BadRequest(
            "draft_cpus has no effect with draft_placement shared, where the draft has all CPUs: say own_ccd or "
            "first_ccd."
        )
    rpc_endpoints.refuse_options_impossible_with_workers(options)
    if options.draft_placement == "own_ccd" and options.uses_draft and options.rpc_port in (None, options.port):
        raise BadRequest("draft_placement own_ccd runs a second server; set rpc_port to its port.")
    if options.lock and options.hugepages in ("pool", "hugetlbfs"):
        raise BadRequest(f"lock: hugepages {options.hugepages} are never swapped out, so leave lock out.")
    if options.memory in POLICIES_BY_THREAD and (options.hugepages != "none" or options.lock):
        raise BadRequest(
            f"memory {options.memory} has each part of the mapped file read on the node of its thread. With hugepages "
            "or lock something else reads it first: take interleave, or leave them out."
        )
    if options.direct_io and (options.memory in POLICIES_BY_THREAD or options.hugepages == "hugetlbfs" or options.lock):
        raise BadRequest(
            "direct_io reads the weights past the page cache into memory of the server's own: leave it out beside "
            "lock, hugepages hugetlbfs, and memory distribute or rows, which need the mapped file."
        )
    _refuse_repacking_of_mapped_weights(options)
    if options.memory == "mirror" and (options.hugepages != "none" or options.lock or options.nodes):
        raise BadRequest(
            "memory mirror has the server itself copy the weights to every node of the host: nodes cannot limit the "
            "copies, and hugepages and lock do not reach them. Leave nodes, hugepages and lock out."
        )


def _refuse_repacking_of_mapped_weights(options: Options) -> None:
    copied = options.hugepages == "hugetlbfs"
    for key in ("repack", "repack_at_start"):
        if getattr(options, key) and (options.memory in POLICIES_BY_THREAD or copied):
            other = "hugepages hugetlbfs" if copied else f"memory {options.memory}"
            raise BadRequest(
                f"{key} copies the weights into memory of the server's own, and {other} needs the mapped file. Leave "
                "one of them out."
            )


def _refuse_slot_files_without_effect(options: Options) -> None:
    """Raise BadRequest where a server could not restore the saved prompts of its slots."""
    if options.slot_files is None:
        return
    if not options.slot_files_bytes:
        raise BadRequest("slot_files is 0; leave it out where no prompt shall be saved.")
    reasons = {
        "models runs a router, whose servers save no slots": options.models,
        "rpc_workers keep parts of the slots on other hosts": options.rpc_workers,
        f"task {options.task} keeps no prompts": not options.generates_text,
        f"the draft of speculation {options.speculation_text} would lack what it has computed for these prompts": (
            options.uses_draft
        ),
    }
    for reason in (text for text, holds in reasons.items() if holds):
        raise BadRequest(f"slot_files saves the prompts of slots, and {reason}. Leave one of them out.")
