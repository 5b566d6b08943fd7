# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How values are shown: without characters that would control a terminal or a page, and in quotes.

Characters that Python counts as not printable are escaped: control characters, as for colours and bells, marks that
change the direction of writing, characters without width or meaning, and bytes that could not be decoded.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def escape_unprintable(text: str) -> str:
    """Replace characters that are not printable, newlines included, by escapes such as \\x1b, \\n and \\u202e."""
    if text.isprintable():
        return text
    return text.translate(_ESCAPES)


def escape_lines(text: str) -> str:
    """Replace characters that are not printable, except newlines, by escapes."""
    return "\n".join(map(escape_unprintable, text.split("\n")))


def escape_lines_in_data(data: Any) -> Any:
    """Return plain data with escape_lines applied to all texts in it, also to the keys of tables.

    Ansible shows results of modules and filters, and escapes at most the control characters in them.
    """
    if isinstance(data, str):
        return escape_lines(data)
    if isinstance(data, dict):
        return {escape_lines_in_data(key): escape_lines_in_data(value) for key, value in data.items()}
    return [*map(escape_lines_in_data, data)] if isinstance(data, (list, tuple)) else data


def quote_value(value: str | None) -> str:
    """Return a value in quotes for a message; "nothing" for None."""
    return "nothing" if value is None else f"'{value}'"


class _Escapes(dict):  # type: ignore[type-arg]
    """By code point, the text that is shown; escapes of common characters are stored, which keeps long texts cheap."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char.isprintable():
            return char
        escape = char.encode("unicode_escape").decode("ascii")
        if code < LAST_STORED:
            self[code] = escape
        return escape


LAST_STORED = 256
_ESCAPES = _Escapes()
