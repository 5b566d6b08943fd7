# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import random

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import drawing as draw


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(-0.04, 1, "0.0"), (-0.0, 0, "0"), (0.1 + 0.2, 2, "0.30"), (1234.5, 1, "1234.5"), (-2.26, 1, "-2.3")],
)
def test_format_number(value: float, digits: int, text: str) -> None:
    assert draw.format_decimals(value, digits) == text


def test_the_last_digit_of_a_machine_is_not_in_a_number() -> None:
    """Half-way values are where a last digit would show."""
    for value in (0.25, 10.05, 812.35, 2.675):
        assert draw.format_decimals(value * (1 + 2e-16), 1) == draw.format_decimals(value * (1 - 2e-16), 1)


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0.906, 1.39, ["1.0", "1.1", "1.2", "1.3"]),
        (0.0, 158.0, ["0", "50", "100", "150"]),
        (0.0, 0.3, ["0.0", "0.1", "0.2", "0.3"]),
        (0.97, 1.031, ["0.98", "1.00", "1.02"]),
    ],
)
def test_round_ticks(low: float, high: float, texts: list[str]) -> None:
    assert [text for dummy, text in draw.round_values_with_labels(low, high, 5)] == texts


def test_ticks_are_few_and_on_their_axis_whatever_it_spans() -> None:
    random.seed(23)
    for dummy in range(2000):
        low = random.choice((0.0, random.uniform(0, 10) * 10 ** random.randint(-6, 6)))
        high = low + max(low, 1.0) * random.uniform(0.01, 10)
        found = draw.round_values_with_labels(low, high, 5)
        slack = (high - low) * 1e-6
        assert 2 <= len(found) <= 7, (low, high)
        assert all(low - slack <= value <= high + slack for value, dummy in found)
        assert len({text for dummy, text in found}) == len(found), (low, high, found)


def test_an_axis_keeps_all_values_on_itself() -> None:
    axis = draw.Axis(1.0, 3.0, 100, 300)
    assert [axis.value_to_place(value) for value in (1, 2, 3, 0, 9)] == [100, 200, 300, 100, 300]
    assert draw.Axis(5.0, 5.0, 0, 10).value_to_place(5.0) == 0
    assert draw.Axis(0.0, 1.0, 300, 20).value_to_place(1.0) == 20, "upwards"


def test_a_place_across_is_a_share_of_the_width_and_one_down_is_in_pixels() -> None:
    line = str(draw.svg_line(0.25, 3, "-8", 4.25, "axis"))
    assert line == '<line class="axis" x1="25.00%" y1="3" x2="-8" y2="4.2"></line>'


def test_a_long_name_is_cut_as_it_is_shown() -> None:
    assert (
        draw.escape_and_shorten_text("<" * 10, 8) == "<<<<<..." and draw.escape_and_shorten_text("<" * 8, 8) == "<" * 8
    )
    assert (
        draw.escape_and_shorten_text("a\u202eb", 8) == "a\\u202eb"
        and draw.escape_and_shorten_text("a\u202ebc", 8) == "a\\u20..."
    )
