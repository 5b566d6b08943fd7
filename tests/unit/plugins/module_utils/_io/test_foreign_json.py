# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""JSON of servers and of files of others: what is no JSON, or more than a program can hold."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io.foreign_json import parse_json


def test_json_is_read() -> None:
    assert parse_json(b'{"a": [1, -2.5e3, null, true, "\\u00e9"]}') == {"a": [1, -2500.0, None, True, "\u00e9"]}
    assert parse_json("[" * 500 + "]" * 500)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "no JSON", "NaN", "[Infinity]", "-Infinity", "1e999", '{"a": -1e999}', "9" * 5000),
        *("[" * 100_000, '{"a":' * 100_000, b"\xff\xfe", b"\x00"),
    ],
)
def test_all_else_is_one_kind_of_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(text)
