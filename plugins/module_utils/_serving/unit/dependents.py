# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The instances on a host that were planned with settings which an undo of some layers takes away."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._kernel.partitions import SLICE
from ..._knobs.layers import LAYERS
from .installed import list_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

#: How the addresses of pools of huge pages begin, in the ledger and among boot parameters.
POOL_ADDRESS_PREFIXES = {"numa": "hugepages:node", "grub_params": "cmdline:hugepages"}


def require_undo_possible(layers: Collection[str], originals: Collection[str], root: str = "/") -> list[str]:
    """Return sentences on what instances lose when the settings with these originals are put back.

    BadRequest where an instance could not start again: its memory is in pools of huge pages that an undone layer made.
    """
    undone = [one for one in LAYERS if one in layers]
    pools = [
        one
        for one in undone
        if one in POOL_ADDRESS_PREFIXES and any(name.startswith(POOL_ADDRESS_PREFIXES[one]) for name in originals)
    ]
    remarks = []
    for instance in list_installed(root):
        name, text = instance.name, instance.text
        expected = list(_list_expectations(instance.plan or {}))
        sizes = [str(one["hugepages"]["hugetlb"]) for one in expected if "hugetlb" in (one.get("hugepages") or {})]
        if pools and sizes:
            others = ", ".join(f'"{one}"' for one in [*undone, "llama"])
            raise BadRequest(
                f"The instance {name} has {sizes[0]} of its memory in pools of huge pages, which {pools[0]} made and "
                f"without which it may not start again. Nothing was changed. Have it planned without them (hugepages: "
                f'thp) or removed first; restore.yml with -e \'{{"epyc_restore_layers": [{others}], '
                '"epyc_restore_instances": true}\' removes all instances.'
            )
        if "grub_params" in layers and f"\nSlice={SLICE}\n" in text and _has_prefix(originals, "partition:"):
            remarks.append(f"{name} runs on in {SLICE}, whose CPUs other programs may use from now on.")
        if "cat" in layers and any(one.get("group") for one in expected) and _has_prefix(originals, "resctrl:"):
            remarks.append(f"{name} runs on, and shares its L3 caches with other programs from now on.")
    again = "Run site.yml with the layers that stay: it plans the instances anew, and verify.yml is right about them."
    return [*remarks, again] if remarks else []


def _has_prefix(originals: Collection[str], beginning: str) -> bool:
    return any(name.startswith(beginning) for name in originals)


def _list_expectations(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield where a server and its draft in a process of its own were planned."""
    for process in (plan, plan.get("rpc") or {}):
        expected = process.get("expect")
        if isinstance(expected, dict):
            yield expected
