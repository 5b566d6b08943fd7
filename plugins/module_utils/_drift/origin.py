# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the variable of the inventory that decides the value of a setting."""

from __future__ import annotations

from .._knobs.catalogue import ROLES, find_knob_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._knobs.catalogue import RoleOf


def find_deciding_variable(request: str, address: str, wanted: str | None, role_of: RoleOf | None = None) -> str:
    """Return the variable that decides the value of a setting; "" where no variable of a role decides the value.

    ``role_of`` returns the role of a CPU in the plan: frequencies and prefetchers have a variable for each role.
    """
    row, rest = find_knob_row(address), address.partition(":")[2]
    if request not in ROLES or not rest or row is None:
        return ""
    return row.find_inventory_variable(rest, wanted, role_of)
