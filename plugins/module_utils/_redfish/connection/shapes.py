# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts of resources in the shape that the standard gives them, because a BMC may have anything in their place."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def list_or_empty(value: object) -> list[Any]:
    """Return a list as it is, and [] in place of anything else."""
    return value if isinstance(value, list) else []


def object_or_empty(value: object) -> dict[str, Any]:
    """Return an object as it is, and {} in place of anything else."""
    return value if isinstance(value, dict) else {}


def nested_object_or_empty(value: object, *keys: str) -> dict[str, Any]:
    """Return the object under nested keys, and {} where there is none."""
    for key in keys:
        value = object_or_empty(value).get(key)
    return object_or_empty(value)
