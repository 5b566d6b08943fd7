# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import random

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.stratified_mean import (
    stratified_interval,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.student_distribution import (
    student_quantile,
)


@pytest.mark.parametrize(
    ("probability", "degrees", "quantile"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.30265),
        (0.975, 3, 3.18245),
        (0.9995, 5, 6.86883),
        (0.999, 2, 22.32712),
        (0.95, 30, 1.69726),
        (0.975, 120, 1.97993),
    ],
)
def test_quantiles_are_those_of_the_tables(probability: float, degrees: int, quantile: float) -> None:
    assert student_quantile(probability, degrees) == pytest.approx(quantile, rel=1e-5)


def test_only_the_spread_within_kinds_widens_the_interval() -> None:
    """Kinds that differ much are the mixture that was asked for, and no chance."""
    near = stratified_interval([[0.8, 0.9, 1.0], [0.0, 0.1, 0.2]], 0.05)
    far = stratified_interval([[0.8, 0.9, 1.0], [-9.0, -8.9, -8.8]], 0.05)
    assert near and far
    assert (near.mean, near.count) == (pytest.approx(0.5), 6)
    assert near.high - near.low == pytest.approx(far.high - far.low)
    # Two strata of equal spread have four degrees of freedom.
    assert near.high - near.mean == pytest.approx(2.77645 * 0.1 / math.sqrt(6), rel=1e-4)


def test_kinds_with_a_single_prompt_each_are_pooled() -> None:
    pooled = stratified_interval([[0.1], [0.2], [0.3]], 0.05)
    assert pooled and pooled.high - pooled.mean == pytest.approx(4.30265 * 0.1 / math.sqrt(3), rel=1e-4)
    assert stratified_interval([[0.1]], 0.05) is None
    assert stratified_interval([], 0.05) is None
    equal = stratified_interval([[0.1, 0.1], [0.3, 0.3]], 0.05)
    assert equal and equal.low == equal.high == pytest.approx(0.2)


def test_a_kind_with_fewer_prompts_counts_as_much_as_the_others() -> None:
    interval = stratified_interval([[0.4, 0.6], [0.1]], 0.05)
    assert interval and interval.mean == pytest.approx(0.3)
    assert interval.high - interval.mean == pytest.approx(12.7062 * math.sqrt(0.02 * 1.5 / 4), rel=1e-4)


def test_the_interval_misses_the_mean_as_seldom_as_it_says() -> None:
    draw = random.Random(4)
    missed = 0
    for dummy in range(2000):
        interval = stratified_interval([[draw.gauss(0, sd) for dummy in range(3)] for sd in (0.08, 0.1, 0.12)], 0.05)
        assert interval
        missed += not interval.low <= 0 <= interval.high
    assert 70 <= missed <= 130
