# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about data of a wrong shape, whatever the data is."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._notation.shape import first_misfit_message


def levels(count: int) -> list[Any]:
    value: list[Any] = []
    for dummy in range(count):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("x" * 100, f"'{'x' * 39}..."),
        (10**5000, "a number of thousands of digits"),
        (levels(100_000), "a value of too many levels"),
    ],
    ids=["long", "digits", "levels"],
)
def test_a_wrong_value_is_shown_shortened(value: object, words: str) -> None:
    assert first_misfit_message({"seed": value}, {"seed": bool}) == f"seed is {words} and should be true or false"
