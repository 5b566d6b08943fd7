# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that values of an inventory are lists, dictionaries or texts, with error sentences for authors of YAML.

``place`` is the name of the value in a sentence, such as "epyc-07: epyc_llama_instances".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest


def require_list(value: Any, place: str, item_word: str) -> Sequence[Any]:
    """Return a value that is a list; None and an empty text are an empty list. ``item_word`` names the items in a
    sentence.

    Raises BadRequest for any other value.
    """
    if value is None or value == "":
        return []
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        kind = describe_yaml_kind(value)
        raise BadRequest(f"{place} is {kind}; it is a list of {item_word}, so each begins with a dash.")
    return value


def require_table(value: Any, place: str) -> Mapping[str, Any]:
    """Return a value that is a dictionary with texts for keys; raises BadRequest otherwise."""
    if not isinstance(value, Mapping):
        raise BadRequest(f"{place} is {describe_yaml_kind(value)}; it is a dictionary of names and values.")
    for key in value:
        if not isinstance(key, str):
            raise BadRequest(f"{place} has '{key}' for a name, which is {describe_yaml_kind(key)}; put it in quotes.")
    return value


def require_tables(value: Any, place: str, item_word: str) -> list[Mapping[str, Any]]:
    """Return a value that is a list of dictionaries; raises BadRequest otherwise."""
    rows = enumerate(require_list(value, place, item_word), 1)
    return [require_table(row, f"{place}: entry {number}") for number, row in rows]


def require_printable_text(value: Any, place: str) -> str:
    """Return a text or a number as a printable text of one line; raises BadRequest otherwise."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise BadRequest(f"{place} is {describe_yaml_kind(value)}; it is one text.")
    text = str(value)
    if not text.isprintable():
        raise BadRequest(f"{place} is {text!r}, with characters that cannot be seen: leave them out.")
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
