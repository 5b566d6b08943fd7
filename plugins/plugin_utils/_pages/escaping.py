# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts of hosts with escapes for characters that a terminal, a page or a shell would obey."""

from __future__ import annotations

import shlex
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_unprintable


def escape_unprintable_in_texts(data: Any) -> Any:
    """Return plain data with unprintable characters escaped in all texts; keys and counts are left as they are."""
    if isinstance(data, str):
        return escape_unprintable(data)
    if isinstance(data, list):
        return [escape_unprintable_in_texts(item) for item in data]
    if isinstance(data, dict):
        return {key: value if key == "coverage" else escape_unprintable_in_texts(value) for key, value in data.items()}
    return data


def quote_for_shell(word: str) -> str:
    """Return a word quoted for bash, with unprintable characters as escapes such as $'\\u202e'."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_escape_shell_character, word)) + "'"


def _escape_shell_character(char: str) -> str:
    number = ord(char)
    if char in "'\\":
        return f"\\{char}"
    if char.isprintable():
        return char
    if 0xDC80 <= number <= 0xDCFF:  # Python decodes a byte that is no UTF-8 to such a character.
        return f"\\x{number - 0xDC00:02x}"
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
