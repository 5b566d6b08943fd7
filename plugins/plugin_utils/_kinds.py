# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of the values of an inventory: each is a list, dictionary or text as it has to be, or refused in a sentence.

``where`` is the name of the value in the sentence, such as "epyc-07: epyc_llama_instances".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest


def require_list(value: Any, where: str, items: str) -> Sequence[Any]:
    """Return a value that is a list; None and an empty text are an empty list. ``items`` names its entries.

    Raises BadRequest for any other value.
    """
    if value is None or value == "":
        return []
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        kind = describe_yaml_kind(value)
        raise BadRequest(f"{where} is {kind}; it is a list of {items}, so each begins with a dash.")
    return value


def require_table(value: Any, where: str) -> Mapping[str, Any]:
    """Return a value that is a dictionary with texts for keys; raises BadRequest otherwise."""
    if not isinstance(value, Mapping):
        raise BadRequest(f"{where} is {describe_yaml_kind(value)}; it is a dictionary of names and values.")
    for key in value:
        if not isinstance(key, str):
            raise BadRequest(f"{where} has '{key}' for a name, which is {describe_yaml_kind(key)}; put it in quotes.")
    return value


def require_tables(value: Any, where: str, items: str) -> list[Mapping[str, Any]]:
    """Return a value that is a list of dictionaries; raises BadRequest otherwise."""
    rows = enumerate(require_list(value, where, items), 1)
    return [require_table(row, f"{where}: entry {number}") for number, row in rows]


def require_text(value: Any, where: str) -> str:
    """Return a text or a number as a printable text of one line; raises BadRequest otherwise."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise BadRequest(f"{where} is {describe_yaml_kind(value)}; it is one text.")
    text = str(value)
    if not text.isprintable():
        raise BadRequest(f"{where} is {text!r}, with characters that cannot be seen: leave them out.")
    return text


def describe_yaml_kind(value: Any) -> str:
    """Return the kind of a value in words of YAML, such as "a list"."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    for kinds, name in (
        ((str, bytes), "a text"),
        ((int, float), "a number"),
        (Mapping, "a dictionary"),
        (Sequence, "a list"),
    ):
        if isinstance(value, kinds):
            return name
    return f"of the kind {type(value).__name__}"
