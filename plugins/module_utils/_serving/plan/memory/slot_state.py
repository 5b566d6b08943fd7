# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many tokens a request may have, how large the state of a slot is, and what holds it: the prompt cache or a file.

llama-server copies the state of a slot into the prompt cache before another request overwrites it. A state that is
larger than the whole prompt cache is not kept, so that the next turn of such a conversation reads all of it again.
Source: server_prompt_cache::alloc() in tools/server/server-task.cpp of llama.cpp, build 11434.
"""

from __future__ import annotations

from ...._errors import BadRequest
from ...._notation.sizes import UNITS, format_bytes_short
from ...options import router
from ...options.slot_context import REASONS_AGAINST_SHARING, shared_cache_refusal_reason, tokens_per_request
from ..default_choices import DefaultChoice
from ..instance_plan import SlotBytes
from .kv_cache import compute_kv_cache_size
from .memory_need import DEFAULT_CACHE_TYPE, PROMPT_CACHE_FLAG, build_cache_settings, reason_to_divide_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...._models.model import Model
    from ...options.options import Options
    from ..instance_plan import MemoryNeed
    from ..placement import ServerCapabilities

#: A slot file has this many bytes for each token beside its keys and values: its number, position and sequence.
TOKEN_BYTES = 16
#: The least default size of a prompt cache where memory is plentiful, in bytes; it is the default of llama-server.
USUAL_PROMPT_CACHE = 8 * UNITS["GiB"]
#: How many times the tokens of all slots a default prompt cache holds where memory is plentiful.
CONTEXTS_IN_PROMPT_CACHE = 2
#: A default prompt cache is at most this part of the memory of its nodes, unless a full slot needs more.
PROMPT_CACHE_DIVISOR = 8


def require_possible_sharing(options: Options, server: ServerCapabilities) -> None:
    """Raise BadRequest where kv_unified is true and the server cannot share one KV cache among its slots."""
    reason = shared_cache_refusal_reason(server)
    if options.kv_unified and options.slots > 1 and reason:
        raise BadRequest(
            f"kv_unified is true, and {reason}, so that each request has {options.context // options.slots} tokens. "
            "Leave kv_unified out, and say with context_per_slot how many tokens each request may have."
        )


def describe_context(
    options: Options, server: ServerCapabilities, models: Sequence[Model], shared: bool
) -> tuple[list[DefaultChoice], list[str]]:
    """Return the choice and remarks on how many tokens a request may have, where the options leave that open."""
    if options.slots == 1:
        return [], []
    trained = [model.header_number_of_architecture("context_length") or options.context for model in models]
    each = min(tokens_per_request(options, shared), *trained)
    divided = options.context // options.slots
    if shared and options.kv_unified is None:
        reason = (
            f"each request may then have up to {each} tokens instead of {divided}, as with llama-server's own "
            f"defaults. All {options.slots} requests together may have {options.context}; when they need more, the "
            f"server ends all of them with an error. 'context_per_slot: {divided}' gives each its own part instead"
        )
        return [DefaultChoice("kv_unified", "true", reason, "", "kv_unified: false")], []
    if shared:
        useless = [REASONS_AGAINST_SHARING.get(model.architecture, "") for model in models]
        return [], [f"kv_unified: {reason}. Set it to false." for reason in dict.fromkeys(useless) if reason]
    if options.context_per_slot is not None or options.kv_unified is not None:
        return [], []
    reason = reason_to_divide_context(options, server, models)
    return [], [
        f"Each request may have {each} tokens, because context is divided among {options.slots} slots: {reason}. Say "
        "with context_per_slot how many each request may have."
    ]


def estimate_slot_bytes(
    options: Options, server: ServerCapabilities, model: Model, shared: bool, draft: Model | None = None
) -> SlotBytes:
    """Return the size of the state of a slot, with that of its draft.

    The part of a KV cache that the header of a model does not state is left out. ``shared`` says whether the slots
    share one KV cache.
    """
    drafted = options.draft_cache_type_k or DEFAULT_CACHE_TYPE, options.draft_cache_type_v or DEFAULT_CACHE_TYPE
    tokens = tokens_per_request(options, shared)
    total = SlotBytes(0, 0, tokens)
    for member, types in ((model, (options.cache_type_k, options.cache_type_v)), (draft, drafted)):
        if member is None:
            continue
        cache = compute_kv_cache_size(member, build_cache_settings(options, server, types, member, shared))
        total.each += TOKEN_BYTES
        if cache is not None:
            total.fixed += cache.checkpoint
            total.each += -(-(cache.full_slot - cache.checkpoint) // cache.tokens)
    return total


def list_slot_file_remarks(options: Options, size: SlotBytes) -> list[str]:
    """Return remarks on prompts that are too large to be saved, and on requests that gain nothing from saved ones."""
    remarks = []
    if size.full_slot_file_bytes > options.slot_files_bytes:
        fitting = max(0, options.slot_files_bytes - size.fixed) // size.each
        remarks.append(
            f"slot_files {options.slot_files} holds {fitting} tokens, and each of {options.slots} slots has up to "
            f"{size.tokens}. Longer prompts are not saved."
        )
    if size.fixed:
        remarks.append(
            "slot_files: the model has sliding windows or recurrent layers, so a saved prompt helps only a request "
            "that continues this prompt. Any other request reads its whole prompt again."
        )
    return remarks


class PromptCachePlan:
    """The size of the prompt cache of each server in bytes, and remarks. ``holds_full_slot`` may be False."""

    __slots__ = ("bytes", "holds_full_slot", "remarks")

    def __init__(self, size: int, holds_full_slot: bool, remarks: Sequence[str] = ()) -> None:
        self.bytes = size
        self.holds_full_slot = holds_full_slot
        self.remarks = list(remarks)


def plan_prompt_cache(
    options: Options,
    server: ServerCapabilities,
    slot: SlotBytes,
    need: MemoryNeed,
    node_bytes: int,
    spare_bytes: int,
    running_mib: int | None = None,
) -> PromptCachePlan:
    """Return the prompt cache of an instance: as large as the option says, else chosen for what it must hold.

    ``slot`` is the state of a full slot, ``need`` the memory of the instance without a prompt cache, ``node_bytes`` the
    memory of its nodes, ``spare_bytes`` what is left of their free memory, and ``running_mib`` the prompt cache of the
    installed version of the instance. A size that serves is not changed, because that would restart the server.
    """
    if not options.generates_text or not server.has_flag(PROMPT_CACHE_FLAG):
        return PromptCachePlan(0, False)
    held = add_checkpoints(options, slot, need)
    if options.prompt_cache_mib is not None:
        size = options.prompt_cache_mib * UNITS["MiB"]
        return PromptCachePlan(
            size, size >= held.full_slot_file_bytes, _small_cache_remarks(options, size, held) if size else []
        )
    servers = router.max_models_in_memory(options) if options.models else 1
    spare = max(0, spare_bytes) // servers
    wanted = max(USUAL_PROMPT_CACHE, CONTEXTS_IN_PROMPT_CACHE * need.kv_cache // servers)
    # A kernel that does not state the memory of its nodes still states what is free.
    share = max(node_bytes, spare_bytes) // PROMPT_CACHE_DIVISOR // servers
    wanted = min(wanted, _round_down_to_power_of_two(share))
    chosen = _choose_prompt_cache_bytes(wanted, held.full_slot_file_bytes, spare)
    running = (running_mib or 0) * UNITS["MiB"]
    serves = running >= min(held.full_slot_file_bytes, chosen) and running <= max(chosen, USUAL_PROMPT_CACHE)
    if running and serves and running <= spare:
        chosen = running
    return PromptCachePlan(chosen, chosen >= held.full_slot_file_bytes, _small_cache_remarks(options, chosen, held))


def _choose_prompt_cache_bytes(wanted: int, full_slot: int, spare: int) -> int:
    """Return a size for a full slot, or more; less only where the ``spare`` bytes do not suffice for a full slot."""
    sizes_and_limits = (
        (round_up_cache_size(max(wanted, full_slot)), spare // 2),
        (round_up_cache_size(max(_round_down_to_power_of_two(spare // 2), full_slot)), spare),
        (_round_up(full_slot, UNITS["MiB"]), spare),
    )
    return next((size for size, limit in sizes_and_limits if size <= limit), _round_down_to_power_of_two(spare))


def add_checkpoints(options: Options, slot: SlotBytes, need: MemoryNeed) -> SlotBytes:
    """Return the state of a slot with its checkpoints, which the server copies into the prompt cache with it."""
    return SlotBytes(slot.fixed + need.checkpoints // options.slots, slot.each, slot.tokens)


def _small_cache_remarks(options: Options, size: int, held: SlotBytes) -> list[str]:
    if size >= held.full_slot_file_bytes:
        return []
    tokens = max(0, size - held.fixed) // held.each
    kept = f"a conversation of more than {tokens} tokens is not kept" if tokens else "no conversation is kept"
    reason = "" if options.prompt_cache else ", for want of memory"
    return [
        f"prompt_cache is {format_bytes_short(size)}{reason}, and a full slot of {held.tokens} tokens takes "
        f"{format_bytes_short(held.full_slot_file_bytes)}: {kept} when another request takes its slot, and its next "
        "turn is read from its beginning. Give it more memory, a smaller context, or "
        "cache_type_k and cache_type_v q8_0."
    ]


def round_up_cache_size(size: int) -> int:
    """Return a size of whole GiB, or of whole MiB below one GiB."""
    return _round_up(size, UNITS["GiB"] if size >= UNITS["GiB"] else UNITS["MiB"])


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _round_down_to_power_of_two(size: int) -> int:
    """Return the largest power of two that is at most ``size``, 0 below one MiB. Such a size seldom changes."""
    return 1 << (size.bit_length() - 1) if size >= UNITS["MiB"] else 0
