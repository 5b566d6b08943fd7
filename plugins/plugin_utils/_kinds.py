# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lists, dictionaries and texts of an inventory: each is of the kind that it has to be, or refused in a sentence.

``where`` is what the sentence calls the value, such as "epyc-07: llama_instances".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest


def require_list(value: Any, where: str, items: str) -> Sequence[Any]:
    """Return a list, which nothing is an empty one of; ``items`` says of what it is a list."""
    if value is None or value == "":
        return []
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise BadRequest(f"{where} is {name_kind(value)}; it is a list of {items}, so each begins with a dash.")
    return value


def require_table(value: Any, where: str) -> Mapping[str, Any]:
    """Return a dictionary whose keys are texts."""
    if not isinstance(value, Mapping):
        raise BadRequest(f"{where} is {name_kind(value)}; it is a dictionary of names and values.")
    for key in value:
        if not isinstance(key, str):
            raise BadRequest(f"{where} has '{key}' for a name, which is {name_kind(key)}; put it in quotes.")
    return value


def require_tables(value: Any, where: str, items: str) -> list[Mapping[str, Any]]:
    """Return a list of dictionaries."""
    rows = enumerate(require_list(value, where, items), 1)
    return [require_table(row, f"{where}: entry {number}") for number, row in rows]


def require_text(value: Any, where: str) -> str:
    """Return the text of one line that a text or a number is."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise BadRequest(f"{where} is {name_kind(value)}; it is one text.")
    text = str(value)
    if not text.isprintable():
        raise BadRequest(f"{where} is {text!r}, with characters that cannot be seen: leave them out.")
    return text


def name_kind(value: Any) -> str:
    """Return what a value is, in words of YAML."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    for kinds, words in (
        ((str, bytes), "a text"),
        ((int, float), "a number"),
        (Mapping, "a dictionary"),
        (Sequence, "a list"),
    ):
        if isinstance(value, kinds):
            return words
    return f"of the kind {type(value).__name__}"
