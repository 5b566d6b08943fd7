# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts of which every character can be seen: a terminal, or a reader of lines, obeys none of them."""

from __future__ import annotations


def escape_unprintable(text: str) -> str:
    """Return a text with escapes such as \\x1b, \\r and \\u202e in place of what is not printable.

    Those are control characters, other ends of lines than a newline, marks that turn the direction of writing, and
    bytes that were no text.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
