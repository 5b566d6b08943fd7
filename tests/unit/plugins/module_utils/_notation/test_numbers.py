# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.intent import Intent
from ansible_collections.sovereign.epyc.plugins.module_utils._notation import numbers, sizes
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cache_masks import CacheAmount
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import parse_cpulist

#: What Python's int or float takes, and no person means, or no kernel holds.
NO_NUMBERS = ["", "+5", "1_000", "\u0663", "\uff15", "\u00b2", "5 ", "1e3", "inf", "nan", "9" * 400, "9" * 5000]


def test_a_whole_number_is_of_plain_digits() -> None:
    assert [numbers.parse_whole_number(text) for text in ("0", "007", "8080", str(2**64 - 1))] == [
        0,
        7,
        8080,
        2**64 - 1,
    ]
    assert [numbers.parse_whole_number(value) for value in (0, 8080)] == [0, 8080]
    for value in (*NO_NUMBERS, "-1", "5.0", -1, 10**400, True, 5.0, None, ["5"], b"5"):
        assert numbers.parse_whole_number(value) is None, value


def test_a_decimal_number_is_finite() -> None:
    assert [numbers.parse_decimal(text) for text in ("0.5", "-2", ".5", "5.", "007")] == [0.5, -2, 0.5, 5, 7]
    assert [numbers.parse_decimal(value) for value in (0.5, -2)] == [0.5, -2]
    for value in (*NO_NUMBERS, ".", "-", "--1", "1.2.3", float("inf"), float("nan"), 1e308, 10**400, True, None, [0.5]):
        assert numbers.parse_decimal(value) is None, value


def test_digits_of_other_bases_have_at_most_64_bits() -> None:
    texts = ("0x19", "19", "0XfF", "f" * 16)
    assert [numbers.parse_hexadecimal(text) for text in texts] == [0x19, 0x19, 0xFF, 2**64 - 1]
    assert [numbers.parse_hexadecimal(text) for text in ("", "0x", "f" * 17, "f_f", "-1", "\u0663")] == [None] * 6
    assert [numbers.parse_with_base_prefix(text) for text in ("25", "0x19", "0b101")] == [25, 25, 5]
    assert [numbers.parse_with_base_prefix(text) for text in ("0b", "0b2", "0b" + "1" * 65, "0o7", "1_0")] == [None] * 5


@pytest.mark.parametrize("digits", ["\u0663", "1_0", "+5", "9" * 400, "9" * 5000])
def test_whoever_reads_a_number_refuses_what_is_none(digits: str) -> None:
    for call in (
        lambda: numbers.require_whole_number(digits, "threads"),
        lambda: sizes.parse_bytes(f"{digits}GiB", "kv_cache"),
        lambda: CacheAmount.from_text(f"{digits} ways"),
        lambda: Intent.from_options({"draft": {"ccds": digits}}),
    ):
        with pytest.raises(BadRequest) as refusal:
            call()
        assert len(str(refusal.value)) < 1000
    with pytest.raises(ValueError, match="is no CPU number"):
        parse_cpulist(f"0-{digits}")
