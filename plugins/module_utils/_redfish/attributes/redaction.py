# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removes secrets from values of attributes, so that the values may be shown, stored or recorded."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .registry import Registry, Value

#: Names of attributes whose values are passwords, or identify people or one machine.
SECRET_NAMES = re.compile(
    r"passw|pwd|secret|hash|AdminName|AdminPhone|AdminEmail|AdminOther|OwnerTag|AssetTag|ServiceTag|SerialNumber|"
    r"NvmeofHost|InitiatorName",
    re.IGNORECASE,
)
PLACEHOLDER = "(removed)"


def redact_secret_values(values: Mapping[str, Value], registry: Registry | None) -> dict[str, Value]:
    """Return the values with a placeholder in place of each secret or identifying value; empty values stay."""
    redacted: dict[str, Value] = {}
    for name, value in values.items():
        attribute = registry.find_attribute(name) if registry else None
        secret = bool(SECRET_NAMES.search(name)) or (attribute is not None and attribute.is_secret)
        redacted[name] = PLACEHOLDER if secret and value not in (None, "", True, False) else value
    return redacted
