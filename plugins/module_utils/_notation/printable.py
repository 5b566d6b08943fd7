# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts as a person may see them: what a terminal or a page would obey becomes an escape.

That is what Python counts as not printable: control characters as in colours and bells, marks that turn the direction
of writing, characters without a width or without a meaning, and bytes that were no text at all.
"""

from __future__ import annotations


def escape_unprintable(text: str) -> str:
    """Return a text with escapes such as \\x1b, \\n and \\u202e for what is not printable."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def escape_lines(text: str) -> str:
    """Return a text of several lines with escapes in each of them, and its newlines as they are."""
    return "\n".join(map(escape_unprintable, text.split("\n")))
