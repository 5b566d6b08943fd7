# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a setting comes from: the role that stored its request, and the variables of the inventory that decide on it.

A request of a task outside of our roles has a label of its own, and no role here.
"""

from __future__ import annotations

from .._knobs.catalogue import KNOBS, row_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._knobs.catalogue import RoleOf

#: Request -> role.
ROLES = {f"{row.name}/{label}": role for row in KNOBS.values() for label, role in row.roles.items()}


def role(request: str) -> str:
    """Return the role that stored a request, an empty text for none of ours."""
    return ROLES.get(request, "")


def of_unit(address: str) -> tuple[str, list[str], str]:
    """Return role, variables and repairing play of the address of a unit: an instance, or a worker."""
    parts = address.partition(":")[2].split("/")
    if any(part.startswith("vllm-") for part in parts):
        return "vllm", ["vllm_instances"], "sovereign.epyc.vllm"
    if any(part.startswith("llama-") for part in parts):
        return "llama", ["llama_instances"], "sovereign.epyc.site --tags llama"
    return "group", [], "sovereign.epyc.group"


def variable(request: str, address: str, wanted: str | None, role_of: RoleOf | None = None) -> str:
    """Return the variable that decides on a setting, an empty text where none of ours does.

    ``role_of`` returns the role of a CPU in the plan, which names the variables of frequencies and prefetchers.
    """
    row, rest = row_of(address), address.partition(":")[2]
    if not role(request) or not rest or row is None:
        return ""
    return row.variable(rest, wanted, role_of)
