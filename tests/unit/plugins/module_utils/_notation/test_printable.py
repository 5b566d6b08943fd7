# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a terminal would obey, as escapes."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_unprintable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("L3 domain 0, Straße 中", "L3 domain 0, Straße 中"),
        ("\x1b[31m\x07\r\n\t\0\x7f", r"\x1b[31m\x07\r\n\t\x00\x7f"),
        ("\u202e\u200b\u2028\x85", r"\u202e\u200b\u2028\x85"),
        ("\udcff", r"\udcff"),
    ],
)
def test_what_is_not_printable_is_escaped(text: str, shown: str) -> None:
    assert escape_unprintable(text) == shown
