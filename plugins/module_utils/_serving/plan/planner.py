# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans one instance of llama-server from its options, the plan of the host and the headers of its models.

Drafting and verifying take turns, so that by default both use all cores. A request that is impossible on this host is
refused with the reason.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._models import draft_compatibility
from ..._models.model_shape import shape_of_model
from ..._models.serving_checks.engine_support import unreadable_type_reasons
from ..._notation.ip_addresses import LOOPBACK
from ..._notation.sizes import UNITS, format_bytes_short
from ..options import router
from ..options.adapters import validate_adapters
from ..options.catalogue_model import never_fetched_remark
from ..options.options import ENGINES
from ..prediction.decode_rate import predict_plan_rate
from . import cpu_assignment, planned_parameters, rpc_workers, socket_choice
from . import placement as placing
from .decode_threads import plan_decode_threads
from .default_choices import list_catalogue_choices
from .instance_plan import InstancePlan
from .memory import free_memory, slot_state
from .memory.memory_need import estimate_memory_need, shares_kv_cache, sum_of_largest_needs
from .model_task import batch_remarks, task_refusal_reason
from .speculation_plan import plan_speculation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._models.model import Model
    from ..options.options import Options
    from .default_choices import DefaultChoice
    from .instance_plan import MemoryNeed, Placement, SlotBytes
    from .memory.free_memory import FreeMemory
    from .placement import ServerCapabilities

    GivenModels = tuple[Model, Model | None, Model | None, Sequence[Model], Sequence[Model]]


def plan_instance(
    options: Options,
    host: Host,
    server: ServerCapabilities,
    model: Model,
    draft: Model | None,
    free: FreeMemory,
    projector: Model | None = None,
    adapters: Sequence[Model] = (),
    more_models: Sequence[Model] = (),
    running_prompt_cache_mib: int | None = None,
) -> InstancePlan:
    """Return the plan of an instance; BadRequest when the instance is impossible on this host.

    ``more_models`` are all models of a router but the first, which is ``model``. ``running_prompt_cache_mib`` is the
    prompt cache of the installed version of the instance, None without one. ``free`` is not changed.
    """

    def plan_on_cpus(busy: Sequence[int], left: FreeMemory, choices: list[DefaultChoice]) -> InstancePlan:
        models = model, draft, projector, adapters, more_models
        return _plan_on_cpus(options, host, server, models, left, busy, choices, running_prompt_cache_mib)

    return socket_choice.plan_on_best_socket_or_all_cpus(options, host, free, model, plan_on_cpus)


def _plan_on_cpus(
    options: Options,
    host: Host,
    server: ServerCapabilities,
    models: GivenModels,
    free: FreeMemory,
    busy: Sequence[int],
    choices: list[DefaultChoice],
    running_prompt_cache_mib: int | None,
) -> InstancePlan:
    """Return the plan of an instance that computes on the CPUs ``busy``; ``choices`` were made for it before."""
    model, draft, projector, adapters, more_models = models
    if options.engine not in (None, server.engine):
        raise BadRequest(f"{options.binary} is {server.engine}, but engine is {options.engine}. Change one of them.")
    given = [item for item in (model, draft, projector, *adapters, *more_models) if item]
    for item in given:
        for reason in unreadable_type_reasons(item, server.engine, options.binary):
            raise BadRequest(reason)
    _refuse_options_of_another_build(options, server)
    slot_state.require_possible_sharing(options, server)
    shared = shares_kv_cache(options, server, [model, *more_models])
    choices += list_catalogue_choices(options)
    context_choices, remarks = slot_state.describe_context(options, server, [model, *more_models], shared)
    choices += context_choices
    remarks += [
        remark for item in (model, *more_models) for remark in _validate_model_and_draft(options, server, item, draft)
    ]
    if options.catalogue_model and not options.catalogue_model["fetched"]:
        remarks.append(never_fetched_remark(options.catalogue_model["name"]))
    validate_adapters(adapters, model)
    speculation = plan_speculation(options, host, busy, model, draft if options.uses_draft else None)
    if not speculation.busy:
        raise BadRequest("draft_placement own_ccd leaves no CPU to the model. Give the instance more CPUs.")
    nodes = cpu_assignment.choose_memory_nodes(options, host, speculation.busy)
    policy = placing.choose_memory_policy(options, host.topology, nodes)
    remarks += [
        *cpu_assignment.far_and_housekeeping_cpu_remarks(options, host, speculation.busy, nodes),
        *speculation.remarks,
    ]
    drafts = draft if speculation.draft_max else None
    whole, draft_need, unknown = estimate_memory_need(
        options,
        server,
        model,
        drafts,
        speculation.has_draft_process,
        projector,
        adapters,
        mtp_layers_draft=bool(speculation.draft_max),
        shared=shared,
    )
    if more_models:
        each = [estimate_memory_need(options, server, item, shared=shared) for item in more_models]
        whole = sum_of_largest_needs(
            [whole, *(item for item, dummy, more in each)], router.max_models_in_memory(options)
        )
        unknown += [remark for item, dummy, more in each for remark in more]
    if policy == "mirror":
        whole.weights *= len(nodes)
        remarks.append(
            f"memory mirror keeps the weights on each of {len(nodes)} nodes, which takes "
            f"{format_bytes_short(whole.weights)} instead of {format_bytes_short(whole.weights // len(nodes))}."
        )
    remarks += [
        *unknown,
        *batch_remarks(options, [model, *more_models], whole),
        *(rpc_workers.subtract_memory_on_workers(options, model, whole) if options.rpc_workers else []),
    ]
    rpc = placing.plan_draft_process(options, host, server, speculation, draft_need, free) if draft_need else None
    server_parameters = planned_parameters.build_server_parameters(options, model, drafts, speculation, shared)
    choices += placing.shorten_default_drafts(options, policy, server_parameters)
    shapes = [shape_of_model(item, options.experts) for item in (model, *more_models)]
    threads = plan_decode_threads(
        options, host, server.openmp, [*zip((model, *more_models), shapes)], speculation, nodes, policy, remarks
    )
    choices += [threads] if threads else []
    placement = placing.place_server_threads(
        *(options, host, server, nodes, policy, speculation, server_parameters, free, remarks),
        threads.value if threads else None,
    )
    # The server sends the weights of a draft to the draft's own process, so it neither stages nor maps these weights.
    computed = [item for item in (model, drafts if not rpc else None) if item]
    staged = computed if options.hugepages == "hugetlbfs" else []
    if rpc:
        free_memory.require_ordinary_memory(rpc.need, rpc.placement, free, "The process of the draft")
        free.reserve(rpc.need.total, rpc.placement.nodes)
    slots = [slot_state.estimate_slot_bytes(options, server, item, shared, drafts) for item in (model, *more_models)]
    largest_slot = max(slots, key=lambda slot: slot.full_slot_file_bytes)
    remarks += _add_prompt_cache(
        options, host, server, largest_slot, whole, placement, free, staged, server_parameters, running_prompt_cache_mib
    )
    free_memory.require_enough_memory(options, whole, placement, free, staged)
    planned_parameters.add_weight_loading_parameters(options, server_parameters, placement, staged, free, remarks)
    planned_parameters.add_environment(options, placement)
    # Requests decide which models of a router are in memory, so the amount of huge pages in use cannot be predicted.
    expect = placement.options_to_verify_placement(
        {} if options.models else planned_parameters.least_memory_in_huge_pages(options, whole, staged)
    )
    if policy == "rows":
        readers = server_parameters["threads"], server_parameters.get("draft_threads")
        # A model that is its own draft has one entry, with the number of the model's threads, which read more than the
        # threads of the draft. The entry of the model is the last, so it replaces the entry of the draft.
        expect["rows"] = {item.path: number for item, number in reversed([*zip(computed, readers)])}
    read = [item for item in (model, drafts, projector, *adapters, *more_models) if item]
    plan = InstancePlan(options, placement, whole, server_parameters, rpc, read, staged, expect, remarks, choices)
    plan.remarks += socket_choice.list_nps_remarks(options, host, nodes, policy, model)
    plan.draft_left_out_reason = speculation.draft_left_out_reason
    plan.port_reuse = _port_socket_option_of_server(server)
    plan.shape = shapes[0]
    plan.predicted_rate = predict_plan_rate(host, plan)
    if options.slot_files:
        plan.slot_bytes = largest_slot
        plan.remarks += slot_state.list_slot_file_remarks(options, largest_slot)
    return plan


def _refuse_options_of_another_build(options: Options, server: ServerCapabilities) -> None:
    """Raise BadRequest for an option that only the other engine has, or that this build does not have yet."""
    is_llama = server.engine == ENGINES[0]
    if options.memory == "rows" and not is_llama:
        raise BadRequest(
            f"memory rows needs llama.cpp, which gives rows to threads in a known way, and {options.binary} is "
            f"{server.engine}. Take memory distribute or interleave."
        )
    if options.memory == "mirror" and "mirror" not in server.offered_values("--numa"):
        raise BadRequest(
            f"memory mirror needs a build whose flag --numa offers mirror, and {options.binary} offers "
            f"{', '.join(server.offered_values('--numa')) or 'no such flag'}. Take memory interleave, or such a build."
        )
    if options.repack_at_start and is_llama:
        raise BadRequest(
            f"repack_at_start is an option of {ENGINES[1]}, and {options.binary} is {server.engine}, whose option for "
            "this is repack. Leave repack_at_start out."
        )
    if options.repack is not None and not is_llama:
        raise BadRequest(
            f"repack is an option of {ENGINES[0]}, and {options.binary} is {server.engine}, whose option for this is "
            "repack_at_start. Leave repack out."
        )


def _validate_model_and_draft(
    options: Options, server: ServerCapabilities, model: Model, draft: Model | None
) -> list[str]:
    """Return remarks on a model and its draft; BadRequest where one of them does not fit, and for wrong experts."""
    remarks = []
    reason = task_refusal_reason(options, model)
    if reason:
        raise BadRequest(reason)
    if options.drafting_kind in draft_compatibility.HEAD_KINDS:
        for reason in draft_compatibility.draft_head_refusal_reasons(
            options.drafting_kind, model, draft, ik=server.engine != ENGINES[0]
        ):
            raise BadRequest(reason)
    elif options.uses_draft and draft:
        for reason in draft_compatibility.draft_model_refusal_reasons(model, draft):
            raise BadRequest(reason)
        remarks += draft_compatibility.useless_draft_model_remarks(model, draft)
    if options.experts:
        used = model.header_number_of_architecture("expert_used_count") or model.expert_count
        if not model.expert_count:
            raise BadRequest(f"experts: {model.path} is a dense model and has none. Leave experts out.")
        if options.experts >= used:
            raise BadRequest(f"experts: {model.path} uses {used} for each token. Say fewer, or leave experts out.")
        remarks.append(
            f"experts: {options.experts} instead of {used} for each token changes the answers of the model, for the "
            "worse. Compare the answers before you rely on this option."
        )
    trained = model.header_number_of_architecture("context_length")
    if trained and options.context > trained * options.slots:
        remarks.append(
            f"context: each of {options.slots} slots has more than the {trained} tokens that the model was trained for."
        )
    if options.models and options.api_key_file:
        remarks.append(
            "models: the servers of a router ask for no key, so that all programs of this host can use the ports of "
            "these servers on the loopback."
        )
    if options.host not in LOOPBACK and not options.clients:
        remarks.append(
            f"host {options.host}: whatever this host can reach, the server can call too, as for a picture that a "
            "request names by its address. Name in clients who uses the server, such as the gateways: the unit then "
            "exchanges packets with nobody else."
        )
    if options.host not in LOOPBACK and not options.api_key_file:
        remarks.append(f"host {options.host}: everyone who can reach port {options.port} can use it. Set api_key_file.")
    return remarks


def _port_socket_option_of_server(server: ServerCapabilities) -> str:
    """Return the socket option that a server sets for its port; "" for a server that sets both, with --reuse-port."""
    if server.engine != ENGINES[0]:
        return "port"
    return "" if server.has_flag("--reuse-port") else "address"


def _add_prompt_cache(
    options: Options,
    host: Host,
    server: ServerCapabilities,
    slot: SlotBytes,
    need: MemoryNeed,
    placement: Placement,
    free: FreeMemory,
    staged: Sequence[Model],
    server_parameters: dict[str, Any],
    running_mib: int | None,
) -> list[str]:
    """Choose the prompt cache of an instance, add it to its need and its parameters, and return remarks."""
    servers = router.max_models_in_memory(options) if options.models else 1
    need.prompt_cache = 0
    spare = free_memory.count_spare_bytes(options, need, placement, free, staged)
    node_bytes = sum(node.bytes for node in host.topology.nodes if node.id in placement.nodes)
    cache = slot_state.plan_prompt_cache(options, server, slot, need, node_bytes, spare, running_mib)
    need.prompt_cache = servers * cache.bytes
    server_parameters["prompt_cache"] = cache.bytes // UNITS["MiB"]
    if server_parameters.get("kv_unified") and (options.slot_files or (cache.bytes and not cache.holds_full_slot)):
        # A server copies idle slots into its prompt cache and clears them, even where the cache cannot hold them.
        server_parameters["keep_idle_slots"] = True
    return cache.remarks
