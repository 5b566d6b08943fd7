# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Amounts that people write, and tables that the kernel prints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import hugepages
from ansible_collections.sovereign.epyc.plugins.module_utils._notation import gguf_parts, sizes

GIB_IN_KB = 1 << 20
BUDDY = """\
Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3
Node 0, zone    DMA32      5      4      3      2      1      1      1      1      1      2     10
Node 3, zone   Normal    100      0      0      0      0      0      0      0      0      0      0
Node 10, zone   Normal     9      9      9      9      9      9      9      9      9      9    900
"""


def test_free_blocks_count_those_that_hold_a_page() -> None:
    order_9, order_10 = 512 * 4096, 1024 * 4096
    assert hugepages.free_bytes_in_large_blocks(BUDDY, 0, 2048) == ((1 + 2) * order_9 + (3 + 10) * order_10, order_9)
    assert hugepages.free_bytes_in_large_blocks(BUDDY, 0, GIB_IN_KB) == ((3 + 10) * order_10, order_10)
    assert hugepages.free_bytes_in_large_blocks(BUDDY, 1, 2048) == (0, 0)


@given(st.integers(0, 9), st.lists(st.lists(st.integers(0, 999), min_size=11, max_size=11), min_size=1, max_size=4))
def test_blocks_of_any_table_never_exceed_its_memory(node: int, zones: list[list[int]]) -> None:
    text = "\n".join(f"Node {node}, zone Normal {' '.join(map(str, counts))}" for counts in zones)
    found, block = hugepages.free_bytes_in_large_blocks(text, node, 2048)
    assert block == 2 << 20
    assert found == sum(counts[9] * block + counts[10] * 2 * block for counts in zones)


@given(st.integers(1, 1 << 20), st.sampled_from(["KiB", "MiB", "GiB"]))
def test_amounts_mean_their_bytes(number: int, unit: str) -> None:
    assert sizes.parse_bytes(f"{number}{unit}", "here") == number << {"KiB": 10, "MiB": 20, "GiB": 30}[unit]


@given(st.text(alphabet="0123456789.-eGMKiB ", max_size=12))
def test_any_amount_parses_or_is_refused_with_a_sentence(text: str) -> None:
    try:
        assert sizes.parse_bytes(text, "here") >= 0
    except BadRequest as error:
        assert str(error).startswith("here: '")


def test_sizes_are_said_as_people_would() -> None:
    assert [sizes.format_bytes_short(n) for n in (40 << 30, 643892 << 10, 1026 << 20, (5 << 30) + 12345)] == [
        "40 GiB",
        "628.8 MiB",
        "1026 MiB",
        "5.0 GiB",
    ]


@pytest.mark.parametrize("path", ["/m.gguf", "/m-00001-of-00003.bin", "/m-1-of-3.gguf", "/m-0000a-of-00003.gguf", "/m"])
def test_other_names_are_one_file(path: str) -> None:
    assert gguf_parts.list_gguf_parts(path) == [path]
