# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cache_masks import (
    CacheAmount,
    allocate_cache_masks,
    count_ways,
    find_overlapping_masks,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.sizes import format_bytes

MIB = 1 << 20
FULL = 0xFFFF


@pytest.mark.parametrize(
    ("text", "ways_of_16", "ways_of_32"),
    [
        ("12MiB", 12, 6),
        ("12 ways", 12, 12),
        ("1 way", 1, 1),
        ("75%", 12, 12),
        ("fff0", 12, 12),
        ("0x00f0", 4, 4),
        ("1.5 MiB", 2, 1),
    ],
)
def test_an_amount_means_its_ways(text: str, ways_of_16: int, ways_of_32: int) -> None:
    amount = CacheAmount.from_text(text)
    assert amount.to_ways(16, 16 * MIB) == ways_of_16
    assert amount.to_ways(16, 32 * MIB) == ways_of_32


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("12MB", "no amount"),
        ("0", "no way in it"),
        ("0000", "no way in it"),
        ("0 ways", "at least 1 way"),
        ("1.5 ways", "must be whole"),
        ("101%", "more than the whole"),
        ("nan MiB", "no amount"),
        ("1..5MiB", "no amount"),
        ("", "no amount"),
        (12, "quotes"),
        (True, "quotes"),
        (None, "quotes"),
    ],
)
def test_what_could_be_misread_is_refused(value: object, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        CacheAmount.from_text(value)


def test_rounding_is_told() -> None:
    assert CacheAmount.from_text("12MiB").rounded_up_message(16, 16 * MIB) is None
    assert CacheAmount.from_text("3MiB").rounded_up_message(16, 32 * MIB) == (
        "3MiB of L3 is no whole way of 2 MiB: rounded up to 2 ways, 4 MiB."
    )


def test_named_groups_stack_from_the_top_and_the_default_from_the_bottom() -> None:
    wants = [("draft", CacheAmount.from_text("4 ways")), ("verify", CacheAmount.from_text("6 ways"))]
    masks = allocate_cache_masks(FULL, 16 * MIB, wants, ("default", CacheAmount.from_text("25%")), "L3 domain 0")
    assert masks == {"draft": 0xF000, "verify": 0x0FC0, "default": 0x000F}


def test_amounts_keep_off_exact_masks() -> None:
    wants = [("fixed", CacheAmount.from_text("ff00")), ("draft", CacheAmount.from_text("4 ways"))]
    assert allocate_cache_masks(FULL, 16 * MIB, wants, None, "L3 domain 0") == {"fixed": 0xFF00, "draft": 0x00F0}


def test_too_many_ways_are_refused_with_the_sum() -> None:
    wants = [("draft", CacheAmount.from_text("12 ways")), ("verify", CacheAmount.from_text("6 ways"))]
    with pytest.raises(
        BadRequest, match=r"L3 domain 3: draft 12 \+ verify 6 = 18 ways, but the domain has 16 ways of 1 MiB"
    ):
        allocate_cache_masks(FULL, 16 * MIB, wants, None, "L3 domain 3")


def test_a_mask_wider_than_the_domain_is_refused() -> None:
    with pytest.raises(BadRequest, match="'1ffff' of draft is wider than the domain, which has 16 ways"):
        allocate_cache_masks(FULL, 16 * MIB, [("draft", CacheAmount.from_text("1ffff"))], None, "L3 domain 0")


@given(st.lists(st.integers(1, 16), min_size=1, max_size=5), st.integers(1, 16))
def test_amounts_never_overlap_and_are_never_short(counts: list[int], floor: int) -> None:
    wants = [(f"g{number}", CacheAmount.from_text(f"{count} ways")) for number, count in enumerate(counts)]
    default = ("default", CacheAmount.from_text(f"{floor} ways"))
    try:
        masks = allocate_cache_masks(FULL, 16 * MIB, wants, default, "here")
    except BadRequest:
        assert sum(counts) + floor > 16
        return
    assert find_overlapping_masks(masks) == []
    assert [count_ways(masks[f"g{number}"]) for number in range(len(counts))] == counts
    assert masks["default"] == (1 << floor) - 1


def test_sizes_read_well() -> None:
    assert [format_bytes(n) for n in (16 * MIB, 1536 * 1024, 1 << 30, 7)] == ["16 MiB", "1536 KiB", "1 GiB", "7 B"]
