# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import (
    LARGEST_CPU,
    format_cpulist,
    format_cpumask,
    parse_boot_cpulist,
    parse_cpulist,
    parse_cpumask,
)


@given(st.sets(st.integers(0, LARGEST_CPU)))
def test_what_is_rendered_parses_back(cpus: set[int]) -> None:
    assert parse_cpulist(format_cpulist(cpus)) == tuple(sorted(cpus))


@given(st.text(alphabet="0123456789,- \n", max_size=20))
def test_any_text_parses_or_is_refused_with_a_sentence(text: str) -> None:
    try:
        cpus = parse_cpulist(text)
    except ValueError as error:
        assert str(error).startswith(("'", "the range"))
    else:
        assert parse_cpulist(format_cpulist(cpus)) == cpus


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("", ()), ("\n", ()), ("5", (5,)), ("0-3,8", (0, 1, 2, 3, 8)), (" 8 , 0-1", (0, 1, 8)), ("1,1", (1,))],
)
def test_notation(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpulist(text) == cpus


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3-1", "backwards"),
        ("a", "no CPU number"),
        ("1-", "no CPU number"),
        ("-1", "no CPU number"),
        ("99999", "beyond"),
    ],
)
def test_refusals(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_cpulist(text)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("all", range(16)),
        ("ALL:1/2", range(0, 16, 2)),
        ("1-15:1/2", range(1, 16, 2)),
        ("12-N", range(12, 16)),
        ("N", [15]),
        ("1-10:8/12,8-15", range(1, 16)),
        ("0-15:0/3", []),
        ("0-7:2/2", range(8)),
        ("9-15:2/5", [9, 10, 14, 15]),
        ("0-1,5", [0, 1, 5]),
        ("", []),
    ],
)
def test_lists_of_boot_parameters(text: str, cpus: list[int]) -> None:
    assert parse_boot_cpulist(text, 15) == tuple(cpus)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1:1/2", "is no range with a pattern"),
        ("1-15:1", "is no range with a pattern"),
        ("1-15:a/2", "is no range with a pattern"),
        ("1-15:1/0", "at most all 0 CPUs"),
        ("1-15:3/2", "at most all 2 CPUs"),
        ("allof", "no CPU number"),
        ("N-3", "backwards"),
    ],
)
def test_refused_lists_of_boot_parameters(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_boot_cpulist(text, 15)


def test_rendering_is_the_shortest_form() -> None:
    assert format_cpulist([3, 1, 2, 7, 9, 8]) == "1-3,7-9"


@given(st.sets(st.integers(0, 767)), st.integers(768, 1024))
def test_a_rendered_mask_parses_back(cpus: set[int], width: int) -> None:
    assert parse_cpumask(format_cpumask(cpus, width)) == tuple(sorted(cpus))


@given(st.text(alphabet="0123456789abcdefABCDEFx,- \n", max_size=40))
def test_any_mask_parses_or_is_refused_with_a_sentence(text: str) -> None:
    try:
        cpus = parse_cpumask(text)
    except ValueError as error:
        assert str(error).startswith("'")
    else:
        assert sum(1 << cpu for cpu in cpus) == sum(
            int(group, 16) << 32 * at for at, group in enumerate(reversed(text.strip().split(",")))
        )


@pytest.mark.parametrize(
    ("cpus", "width", "mask"),
    [
        ([], 1, "0"),
        ([0], 1, "1"),
        (range(16), 16, "ffff"),
        ([0, 1], 16, "0003"),
        (range(32), 32, "ffffffff"),
        ([32], 33, "1,00000000"),
        ([0, 33], 48, "0002,00000001"),
        (range(96), 128, "00000000,ffffffff,ffffffff,ffffffff"),
        ([5], 6, "20"),
    ],
)
def test_masks_are_written_as_the_kernel_pads_them(cpus: list[int], width: int, mask: str) -> None:
    assert format_cpumask(cpus, width) == mask
    assert parse_cpumask(mask) == tuple(cpus)


def test_short_and_padded_masks_mean_the_same() -> None:
    assert parse_cpumask("f\n") == parse_cpumask("00000000,0000000f") == (0, 1, 2, 3)


@pytest.mark.parametrize("text", ["", "0xff", "fffffffff", "1,,1", "g", "-1", ",".join(["ffffffff"] * 257)])
def test_refused_masks(text: str) -> None:
    with pytest.raises(ValueError, match=r"no group|beyond"):
        parse_cpumask(text)


def test_a_cpu_outside_the_mask_is_refused() -> None:
    with pytest.raises(ValueError, match="CPU 16 does not fit into a mask for 16 CPUs"):
        format_cpumask([16], 16)
