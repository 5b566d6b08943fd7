# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Estimates the memory that an instance of llama-server needs, from the headers of its models.

The compute buffers are an estimate that is never too small; all other parts are exactly what the server allocates. The
prompt cache and the checkpoints grow, and count with their limits, because the kernel kills a server that is bound to
nodes when the memory of these nodes is full.
"""

from __future__ import annotations

from ...._models.draft_compatibility import MTP_LAYERS
from ...._models.known_architectures import unknown_architecture_remark
from ...._models.tensor_types import mean_bytes_per_element
from ...._models.token_cost import DEFAULT_MLA, ModelLayers
from ...._notation.sizes import UNITS, format_bytes_short
from ...options.slot_context import reason_against_shared_cache
from ..instance_plan import MemoryNeed
from ..model_task import choose_batch_sizes
from .kv_cache import CacheSettings, compute_kv_cache_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...._models.model import Model
    from ...options.options import Options
    from ..placement import ServerCapabilities

#: The default sizes of a logical and of a physical batch, in tokens.
BATCH, UBATCH = 2048, 512
#: The type of the keys and values of a draft where no option sets this type.
DEFAULT_CACHE_TYPE = "f16"
#: The bytes that each process needs for libraries, HTTP buffers and the heaps of threads.
PROCESS_BYTES = 256 * UNITS["MiB"]
#: Bytes of the buffers for a large picture.
PICTURE_BYTES = 2 * UNITS["GiB"]
#: A server that has the first flag stores only a window of tokens for layers with a sliding window, unless the flag is
#: given. A llama.cpp that has the second flag stores no values where a model has compressed keys.
FULL_WINDOWS_FLAG, COMPRESSED_CACHE_FLAG = "--swa-full", "--spec-type"
#: The ends of the names of the matrices for compressed keys: of keys and values together, of keys, and of values.
MLA_MATRICES = ("attn_kv_b.weight", "attn_k_b.weight", "attn_v_b.weight")
PROMPT_CACHE_FLAG, CHECKPOINTS_FLAG = "--cache-ram", "--ctx-checkpoints"
#: How many times the memory of a divided context a KV cache that all slots share may need, to be the default.
MOST_COST_OF_SHARING = 1.25


def estimate_memory_need(
    options: Options,
    server: ServerCapabilities,
    model: Model,
    draft: Model | None = None,
    draft_is_separate: bool = False,
    projector: Model | None = None,
    adapters: Sequence[Model] = (),
    mtp_layers_draft: bool = False,
    shared: bool | None = None,
) -> tuple[MemoryNeed, MemoryNeed | None, list[str]]:
    """Return the memory need of an instance, the need of its draft process, and remarks on unknown parts.

    The second need is None unless the draft computes in its own process (``draft_is_separate``). ``mtp_layers_draft``
    is True where the MTP layers of the model draft, and there is no draft model. ``shared`` says whether the slots
    share one KV cache; by default it follows from the options, the server and this model. A prompt cache without a size
    in the options counts nothing here.
    """
    remarks = []
    needs = []
    checkpoint = 0
    recurrent = False
    drafted = options.draft_cache_type_k or DEFAULT_CACHE_TYPE, options.draft_cache_type_v or DEFAULT_CACHE_TYPE
    shared = shares_kv_cache(options, server, [model]) if shared is None else shared
    for member, types in ((model, (options.cache_type_k, options.cache_type_v)), (draft, drafted)):
        if member is None:
            continue
        sizes = build_cache_settings(options, server, types, member, shared)
        cache = compute_kv_cache_size(member, sizes)
        if cache is None:
            remarks.append(
                f"{member.path} does not state its layers and heads, so the memory check leaves out its KV cache."
            )
        elif reason := unknown_architecture_remark(member):
            remarks.append(f"{member.path}: {reason}")
        if member.unknown_tensor_types:
            remarks.append(
                f"{member.path} has tensors of types that are not known here "
                f"({', '.join(member.unknown_tensor_types)}). Their size is taken from the file."
            )
        if member is model and mtp_layers_draft and draft is None and cache:
            cache.bytes += (
                cache.bytes * (model.header_number_of_architecture(MTP_LAYERS) or 0) // max(1, ModelLayers(model).count)
            )
        needs.append(
            MemoryNeed(
                member.weight_bytes + (_bytes_of_made_mla_matrices(member) if sizes.mla else 0),
                cache.bytes if cache else 0,
                PROCESS_BYTES + _estimate_compute_buffer_bytes(options, member, sizes),
            )
        )
        checkpoint += cache.checkpoint if cache else 0
        recurrent = recurrent or bool(cache and cache.recurrent)
    whole, draft_need = needs[0], needs[1] if draft_is_separate else None
    if len(needs) > 1 and not draft_is_separate:
        whole = MemoryNeed.sum_of_needs(needs)
        whole.compute -= PROCESS_BYTES
    if projector:
        whole.weights += projector.weight_bytes
        whole.compute += PICTURE_BYTES
    whole.weights += sum(adapter.weight_bytes for adapter in adapters)
    if server.has_flag(PROMPT_CACHE_FLAG):
        whole.prompt_cache = (options.prompt_cache_mib or 0) * UNITS["MiB"]
    if server.has_flag(CHECKPOINTS_FLAG):
        # To speculate with a recurrent model, the server keeps one more checkpoint.
        checkpoints = options.checkpoints_per_slot + bool(recurrent and options.can_speculate)
        whole.checkpoints = checkpoints * options.slots * checkpoint
    return whole, draft_need, remarks


def sum_of_largest_needs(needs: Sequence[MemoryNeed], count: int) -> MemoryNeed:
    """Return the sum of the ``count`` largest needs, for a router with at most ``count`` models in memory."""
    return MemoryNeed.sum_of_needs(sorted(needs, key=lambda need: need.total, reverse=True)[:count])


def shares_kv_cache(options: Options, server: ServerCapabilities, models: Sequence[Model]) -> bool:
    """Return whether the slots of an instance share one KV cache: as kv_unified says, else where it is of use.

    An instance with context_per_slot divides the context by default, so that each request has its part for certain.
    """
    if options.slots == 1:
        return False
    if options.kv_unified is not None:
        return bool(options.kv_unified)
    return options.context_per_slot is None and not reason_to_divide_context(options, server, models)


def reason_to_divide_context(options: Options, server: ServerCapabilities, models: Sequence[Model]) -> str:
    """Return why each slot gets its own part of the context by default; "" where all slots share one KV cache.

    In a shared cache, the sliding windows of all slots have room for one slot, and each checkpoint may be that large.
    """
    reason = reason_against_shared_cache(options, server, models)
    if reason:
        return reason
    divided, shared = (
        sum(_estimate_cache_and_checkpoint_bytes(options, server, model, sharing) for model in models)
        for sharing in (False, True)
    )
    if shared <= MOST_COST_OF_SHARING * divided:
        return ""
    return (
        f"one KV cache for all of them would need {format_bytes_short(shared - divided)} more, mostly for the "
        "checkpoints of sliding windows"
    )


def _estimate_cache_and_checkpoint_bytes(
    options: Options, server: ServerCapabilities, model: Model, shared: bool
) -> int:
    types = options.cache_type_k, options.cache_type_v
    cache = compute_kv_cache_size(model, build_cache_settings(options, server, types, model, shared))
    if cache is None:
        return 0
    checkpoints: int = options.slots * options.checkpoints_per_slot if server.has_flag(CHECKPOINTS_FLAG) else 0
    return cache.bytes + checkpoints * cache.checkpoint


def build_cache_settings(
    options: Options, server: ServerCapabilities, types: tuple[str, str], model: Model, shared: bool
) -> CacheSettings:
    """Return the settings of a server that decide the size of the KV cache with these types of keys and values.

    ``shared`` says whether the slots share one KV cache.
    """
    batch, ubatch = choose_batch_sizes(options, model)
    batch = min(ubatch or UBATCH, batch or BATCH, options.context)
    return CacheSettings(
        options.context,
        options.slots,
        batch,
        types,
        windows=server.has_flag(FULL_WINDOWS_FLAG) and FULL_WINDOWS_FLAG not in options.extra_arguments,
        compressed=server.engine != "llama.cpp" or server.has_flag(COMPRESSED_CACHE_FLAG),
        flat=options.flash_attention == "off",
        mla=0 if server.engine == "llama.cpp" else DEFAULT_MLA if options.mla is None else options.mla,
        shared=shared,
    )


def _bytes_of_made_mla_matrices(model: Model) -> int:
    """Return the bytes of the matrices that ik_llama.cpp makes at its start to compute with compressed keys.

    A file has either the matrices of keys and of values, or both as one; from these the server makes the other form, in
    Q8_0 where they are quantized. Source: llm_prepare_mla() in src/llama.cpp of ik_llama.cpp.
    """
    matrices = [tensor for tensor in model.tensors if tensor.name.endswith(MLA_MATRICES)]
    if len({tensor.name.rpartition("attn_")[2] for tensor in matrices}) == len(MLA_MATRICES):
        return 0
    made_types = {name: name for name in ("F32", "F16", "BF16")}
    return int(sum(item.elements * mean_bytes_per_element(made_types.get(item.type, "Q8_0")) for item in matrices))


def _estimate_compute_buffer_bytes(options: Options, model: Model, sizes: CacheSettings) -> int:
    embedding: int = model.header_number_of_architecture("embedding_length") or 0
    inner = model.largest_header_number_of_layers("feed_forward_length") or 4 * embedding
    heads = model.largest_header_number_of_layers("attention.head_count")
    width = embedding // heads if heads else 0
    keys = model.header_number_of_architecture("attention.key_length") or width
    values = model.header_number_of_architecture("attention.value_length") or width
    expert = embedding + 2 * model.largest_header_number_of_layers("expert_feed_forward_length")
    numbers = len(model.tokens or ()) + 10 * embedding + 3 * inner + heads * (keys + values)
    numbers += model.largest_header_number_of_layers("expert_used_count") * expert
    # The mask takes six bytes for each token of the context, because some builds keep it in f32 and in f16.
    seen = sizes.slot_tokens * (4 * heads + 4 if options.flash_attention == "off" else 6)
    return sizes.batch * (4 * numbers + seen)
