# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attributes without secrets, to be shown, kept, or made a recording of."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .registry import Registry, Value

#: Passwords, and what names people or one machine.
SECRET = re.compile(
    r"passw|pwd|secret|hash|AdminName|AdminPhone|AdminEmail|AdminOther|OwnerTag|AssetTag|ServiceTag|SerialNumber",
    re.IGNORECASE,
)
PLACE = "(removed)"


def scrubbed(values: Mapping[str, Value], registry: Registry | None) -> dict[str, Value]:
    """Return the values, with those that are secret or name somebody replaced; an empty one stays."""
    out: dict[str, Value] = {}
    for name, value in values.items():
        attribute = registry.get(name) if registry else None
        secret = bool(SECRET.search(name)) or (attribute is not None and attribute.secret)
        out[name] = PLACE if secret and value not in (None, "", True, False) else value
    return out
