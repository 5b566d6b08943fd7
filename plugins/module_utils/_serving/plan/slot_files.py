# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Estimates how large the saved prompt of a slot is, and says which requests gain from it."""

from __future__ import annotations

from .instance_plan import SlotBytes
from .kv_cache import compute_kv_cache_size
from .memory_need import build_cache_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..._models.model import Model
    from ..options.options import Options
    from .placement import ServerCapabilities

#: A slot file has this many bytes for each token beside its keys and values: its number, position and sequence.
TOKEN_BYTES = 16


def estimate_slot_bytes(options: Options, server: ServerCapabilities, model: Model) -> SlotBytes:
    """Return the size of a slot file; without the part of a KV cache that the header of the model does not state."""
    cache = compute_kv_cache_size(
        model, build_cache_settings(options, server, (options.cache_type_k, options.cache_type_v), model)
    )
    tokens = options.context // options.slots
    if cache is None:
        return SlotBytes(0, TOKEN_BYTES, tokens)
    whole = cache.bytes // options.slots - cache.checkpoint
    return SlotBytes(cache.checkpoint, TOKEN_BYTES + -(-whole // cache.tokens), tokens)


def list_slot_file_remarks(options: Options, size: SlotBytes) -> list[str]:
    """Return remarks on prompts that are too large to be saved, and on requests that gain nothing from saved ones."""
    remarks = []
    if size.most > options.slot_files_bytes:
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
