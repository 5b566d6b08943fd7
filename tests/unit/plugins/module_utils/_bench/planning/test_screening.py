# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arms of a screening are balanced, and least squares find the effects of all settings in them."""

from __future__ import annotations

import math
import random

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.planning import screening
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.regression import estimate_effects

NAMES = [f"setting {at}" for at in range(17)]


@pytest.mark.parametrize("fold", [0, 1])
def test_each_setting_is_left_out_as_often_with_each_other_setting_as_without_it(fold: int) -> None:
    pairs = screening.build_mirror_pairs(NAMES, 7, fold)
    arms = [set(removed) for pair in pairs for removed in pair]
    assert len(arms) == 40 and screening.count_fold_rounds(len(NAMES)) == 10
    for name in NAMES:
        assert sum(name in removed for removed in arms) == 20
        for other in NAMES:
            if other != name:
                assert sum({name, other} <= removed for removed in arms) == 10


def test_mirror_arms_leave_out_the_other_settings() -> None:
    for removed, mirrored in screening.build_mirror_pairs(NAMES, 7, 0):
        assert sorted([*removed, *mirrored]) == sorted(NAMES)


def test_seed_and_fold_decide_on_columns_and_order() -> None:
    designs = [screening.build_mirror_pairs(NAMES, *place) for place in ((7, 0), (7, 1), (8, 0))]
    assert designs[0] == screening.build_mirror_pairs(NAMES, 7, 0)
    assert designs[0] != designs[1] != designs[2] != designs[0]


def measure(effects: dict[str, float], pair_gain: float = 0.0) -> tuple[list[list[float]], list[float], list[int]]:
    """Return rows, values and blocks of a fold; the first two settings have a gain together, and each block a level."""
    draw = random.Random(3)
    rows, values, blocks = [], [], []
    for block, pair in enumerate(screening.build_mirror_pairs(NAMES, 1, 0)):
        for removed in pair:
            row = [float(name not in removed) for name in NAMES]
            value = sum(effects.get(name, 0.0) * there for name, there in zip(NAMES, row))
            rows.append(row)
            values.append(value + pair_gain * row[0] * row[1] + 0.1 * block + draw.gauss(0, 0.01))
            blocks.append(block)
    return rows, values, blocks


def test_least_squares_find_all_effects_beside_the_drift_of_the_machine() -> None:
    effects = {NAMES[2]: 0.2, NAMES[5]: -0.1}
    found = estimate_effects(*measure(effects))
    assert found is not None and found.degrees == 40 - 20 - 17
    # Half of the 40 arms have a setting and half have not; an arm has a noise of 1 percent.
    expected_error = 2 * 0.01 / math.sqrt(40)
    for name, effect, error in zip(NAMES, found.effects, found.errors):
        assert abs(effect - effects.get(name, 0.0)) < 4 * expected_error
        assert error < 3 * expected_error


def test_a_pair_that_pays_only_together_shows_in_both_and_in_no_third_setting() -> None:
    found = estimate_effects(*measure({}, pair_gain=0.2))
    assert found is not None
    assert all(0.08 < effect < 0.12 for effect in found.effects[:2])
    assert all(abs(effect) < 0.02 for effect in found.effects[2:])


def test_effects_that_cannot_be_told_apart_have_no_estimate() -> None:
    assert estimate_effects([], [], []) is None
    rows = [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    assert estimate_effects(rows, [1.0, 0.0, 1.1, 0.0], [0, 0, 0, 0]) is None
    assert estimate_effects([[1.0], [0.0]], [1.0, 0.0], [0, 0]) is None
