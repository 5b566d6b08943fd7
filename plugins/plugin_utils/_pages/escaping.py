# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts of hosts as people may see them: what a terminal or a page would obey is shown as an escape instead."""

from __future__ import annotations

import shlex
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_unprintable


def document(data: Any) -> Any:
    """Return plain data with all its texts shown. Keys are ours, and so is all of a host's coverage."""
    if isinstance(data, str):
        return escape_unprintable(data)
    if isinstance(data, list):
        return [document(one) for one in data]
    if isinstance(data, dict):
        return {key: value if key == "coverage" else document(value) for key, value in data.items()}
    return data


def quoted(word: str) -> str:
    """Return a word for a shell such as bash, which reads $'\\u202e' as that character: all of it can be seen."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_in_quotes, word)) + "'"


def _in_quotes(char: str) -> str:
    number = ord(char)
    if char in "'\\":
        return f"\\{char}"
    if char.isprintable():
        return char
    if 0xDC80 <= number <= 0xDCFF:  # How Python keeps a byte that is no text.
        return f"\\x{number - 0xDC00:02x}"
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
