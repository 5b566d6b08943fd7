# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parameters and the environment of a server that is planned, and the pages in which its weights must be found."""

from __future__ import annotations

from ..._errors import BadRequest
from ..catalogue import LLAMA
from ..options import router, rpc_endpoints
from ..options.adapters import format_lora_scaled_value
from ..options.options import POLICIES_BY_THREAD
from ..options.unit_names import api_key_path_in_unit, instance_unit_name
from . import rpc_workers
from .instance_plan import staged_paths
from .model_task import choose_batch_sizes
from .placement import NGRAM_MAX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..._models.model import Model
    from ..options.options import Options
    from .instance_plan import MemoryNeed, Placement
    from .memory.free_memory import FreeMemory
    from .speculation_plan import SpeculationPlan

#: By value of the option hugepages: the tunable of glibc, the kind of pages, and the least percentage of the weights
#: that verify.yml must find in such pages.
TUNABLES = {"thp": ("glibc.malloc.hugetlb=1", "thp", 80), "pool": ("glibc.malloc.hugetlb=2", "hugetlb", 95)}
#: Options that become server parameters of the same name.
PARAMETERS_NAMED_AS_OPTIONS = (
    *("alias", "host", "port", "context", "slots", "pooling", "flash_attention", "cache_type_k", "projector"),
    *("mla", "attention_buffer", "fused_moe"),
)


def build_server_parameters(
    options: Options, model: Model, draft: Model | None, speculation: SpeculationPlan, shared: bool
) -> dict[str, Any]:
    """Return the parameters that follow from options and models; ``shared`` says that slots share one KV cache."""
    server_parameters: dict[str, Any] = {
        key: getattr(options, key) for key in (*PARAMETERS_NAMED_AS_OPTIONS, "cache_type_v")
    }
    server_parameters.update(router.build_router_parameters(options) if options.models else {"model": model.path})
    server_parameters.update(metrics=True, slots_endpoint=True, reuse_port=True, speculation=list(speculation.kinds))
    if not (options.rpc_workers or speculation.has_draft_process):
        # To fit a model into the memory of GPUs, a server reads its header twice, and logs errors that are none.
        server_parameters["fit"] = "off"
    if speculation.draft_max:
        server_parameters.update(draft_max=speculation.draft_max, draft_min=0, draft_p_min=speculation.p_min)
        server_parameters["draft_model"] = draft.path if draft else None
        server_parameters.update(
            draft_cache_type_k=options.draft_cache_type_k, draft_cache_type_v=options.draft_cache_type_v
        )
        if speculation.has_draft_process:
            server_parameters["rpc"] = f"127.0.0.1:{options.rpc_port}"
    if options.rpc_workers:
        server_parameters["rpc_workers"] = rpc_endpoints.format_rpc_flag_value(options.rpc_workers)
        server_parameters["rpc_layers"] = rpc_workers.count_layers_on_workers(options, model)
    server_parameters["batch"], server_parameters["ubatch"] = choose_batch_sizes(options, model)
    if not options.generates_text:
        server_parameters["task"] = options.task
    server_parameters["checkpoints"] = options.checkpoints_per_slot
    if shared:
        server_parameters.update(kv_unified=True, slot_limit=options.context_per_slot)
    if options.slot_files:
        server_parameters["slot_files"] = LLAMA.state_folders(options.name)[0]
    if speculation.uses_ngrams:
        for key in ("ngram_lookup", "ngram_min_hits"):
            server_parameters[key] = getattr(options, key)
        server_parameters["ngram_max"] = options.ngram_max or max(NGRAM_MAX, options.ngram_lookup)
    server_parameters.update(options.sampling, chat_template=options.chat_template, suffix_corpus=options.suffix_corpus)
    if options.adapters:
        server_parameters["adapters"] = format_lora_scaled_value(options.adapters)
    if options.experts:
        server_parameters["experts"] = (model.architecture, options.experts)
    if options.api_key_file:
        server_parameters["api_key_file"] = api_key_path_in_unit(instance_unit_name(options.name))
    if options.extra_arguments:
        server_parameters["extra"] = list(options.extra_arguments)
    return {key: value for key, value in server_parameters.items() if value is not None}


def add_weight_loading_parameters(
    options: Options,
    server_parameters: dict[str, Any],
    placement: Placement,
    staged: Sequence[Model],
    free: FreeMemory,
    remarks: list[str],
) -> None:
    """Add how the server loads and repacks the weights, and the paths of staged models, to the parameters."""
    server_parameters["load"] = "mmap"
    if options.repack_at_start or placement.policy == "mirror":
        server_parameters["load"] = "none"
    if options.hugepages in TUNABLES:
        server_parameters["load"] = "none"
        placement.environment["GLIBC_TUNABLES"] = TUNABLES[options.hugepages][0]
    if options.lock:
        server_parameters["load"] = "mlock"
    if options.direct_io:
        server_parameters["load"] = "dio"
    if options.repack is not None:
        server_parameters["repack"] = options.repack
    if options.repack_at_start:
        server_parameters["repack_at_start"] = True
    if options.hugepages == "thp" and free.thp == "never":
        raise BadRequest(
            "hugepages thp: transparent huge pages are switched off (never). Set epyc_numa_thp to madvise, or use pool."
        )
    if staged:
        for key, model in zip(("model", "draft_model"), staged):
            server_parameters[key] = staged_paths(options, model)[0]
    if staged or placement.policy in POLICIES_BY_THREAD:
        server_parameters["repack"] = False
        remarks.append(
            "The weights are not repacked, because the copy would not be on the nodes of the file's pages. With types "
            "that the server can repack, such as Q4_K, each token takes more work; compare with hugepages thp."
        )


def add_environment(options: Options, placement: Placement) -> None:
    """Add the variables of a router and of extra_environment; BadRequest for one that the plan sets itself."""
    if options.models:
        placement.environment.update(router.ENVIRONMENT)
    for name, value in options.extra_environment.items():
        if name in placement.environment:
            raise BadRequest(
                f"extra_environment: {name} is set by the plan, to '{placement.environment[name]}'. Leave it out."
            )
        placement.environment[name] = value


def least_memory_in_huge_pages(options: Options, need: MemoryNeed, staged: Sequence[Model]) -> dict[str, str]:
    """Return the least memory that verify.yml must find in huge pages, by kind of pages; empty for ordinary pages."""
    if options.hugepages in TUNABLES:
        dummy, kind, percent = TUNABLES[options.hugepages]
        return {kind: f"{need.weights * percent // 100 >> 20}MiB"}
    size = sum(model.weight_bytes for model in staged)
    return {"hugetlb": f"{size * 95 // 100 >> 20}MiB"} if staged else {}
