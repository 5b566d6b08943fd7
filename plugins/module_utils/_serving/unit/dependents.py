# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the installed instances that depend on settings which an undo of some layers puts back."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._kernel.partitions import SLICE
from ..._knobs.layers import LAYERS
from .installed import list_installed_instances

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

#: How the addresses of settings that made pools of huge pages begin, by layer.
POOL_ADDRESS_PREFIXES = {"numa": "hugepages:node", "grub_params": "cmdline:hugepages"}


def require_undo_possible(layers: Collection[str], originals: Collection[str], root: str = "/") -> list[str]:
    """Raise BadRequest where an instance cannot start after an undo of these layers; return remarks on other losses.

    ``originals`` are the addresses in the ledger. An instance cannot start again where an undone layer made the pools
    of huge pages that hold its memory.
    """
    undone = [layer for layer in LAYERS if layer in layers]
    pools = [
        layer
        for layer in undone
        if layer in POOL_ADDRESS_PREFIXES and _has_address_with_prefix(originals, POOL_ADDRESS_PREFIXES[layer])
    ]
    remarks = []
    for instance in list_installed_instances(root):
        name, text = instance.name, instance.text
        expected = list(_list_planned_placements(instance.plan or {}))
        sizes = [str(row["hugepages"]["hugetlb"]) for row in expected if "hugetlb" in (row.get("hugepages") or {})]
        if pools and sizes:
            all_layers = ", ".join(f'"{layer}"' for layer in [*undone, "llama"])
            raise BadRequest(
                f"The instance {name} has {sizes[0]} of its memory in pools of huge pages, which {pools[0]} made and "
                f"without which it may not start again. Nothing was changed. Have it planned without them (hugepages: "
                f'thp) or removed first; restore.yml with -e \'{{"epyc_restore_layers": [{all_layers}], '
                '"epyc_restore_instances": true}\' removes all instances.'
            )
        if (
            "grub_params" in layers
            and f"\nSlice={SLICE}\n" in text
            and _has_address_with_prefix(originals, "partition:")
        ):
            remarks.append(f"{name} runs on in {SLICE}, whose CPUs other programs may use from now on.")
        if (
            "cat" in layers
            and any(row.get("group") for row in expected)
            and _has_address_with_prefix(originals, "resctrl:")
        ):
            remarks.append(f"{name} runs on, and shares its L3 caches with other programs from now on.")
    again = "Run site.yml with the layers that stay: it plans the instances anew, and verify.yml is right about them."
    return [*remarks, again] if remarks else []


def _has_address_with_prefix(addresses: Collection[str], prefix: str) -> bool:
    return any(address.startswith(prefix) for address in addresses)


def _list_planned_placements(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for process in (plan, plan.get("rpc") or {}):
        expected = process.get("expect")
        if isinstance(expected, dict):
            yield expected
