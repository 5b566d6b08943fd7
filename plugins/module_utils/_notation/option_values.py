# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuses option values that are wrong for every module: numbers beyond 64 bits, and texts that no file can hold."""

from __future__ import annotations

from .._errors import BadRequest

#: The first number that is refused; it has more than 64 bits.
TOO_LARGE = 10**20


def refuse_impossible_values(value: object, name: str) -> None:
    """Raise BadRequest for an impossible text or number in a value, at any depth; the message begins with ``name``.

    Without this, opening a file with such a name, or formatting such a number, would raise an error of Python.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            refuse_impossible_values(key, f"a name in {name}" if name else "the name of an option")
            refuse_impossible_values(inner, f"{name}: {key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            refuse_impossible_values(inner, name)
    elif isinstance(value, (int, float)):
        # Two comparisons, because both are false for NaN.
        if not -TOO_LARGE < value < TOO_LARGE:
            raise BadRequest(f"{name} is a number beyond 64 bits. Nothing was changed.")
    elif isinstance(value, str) and ("\0" in value or not _is_encodable(value)):
        raise BadRequest(f"{name} holds a character that no file or unit can hold: {value!r}. Nothing was changed.")


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
