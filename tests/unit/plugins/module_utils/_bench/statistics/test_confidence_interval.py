# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import random

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.confidence_interval import (
    confidence_interval,
    lag_one_correlation,
)


def evidence(values: list[float], mean: float) -> float:
    """Return the e-value against a mean, from the definition of the mixture and not from the solved form."""
    count, centre = len(values), math.fsum(values) / len(values)
    spread = math.fsum((value - centre) ** 2 for value in values)
    off = count * (centre - mean) ** 2
    return ((spread + off) / (spread + off / (1 + count))) ** (count / 2) / math.sqrt(1 + count)


@pytest.mark.parametrize("alpha", [0.05, 0.005])
def test_at_its_ends_the_evidence_is_one_over_alpha(alpha: float) -> None:
    draw = random.Random(1)
    values = [draw.gauss(0.03, 0.01) for dummy in range(12)]
    found = confidence_interval(values, alpha)
    assert found is not None and found.count == 12
    assert evidence(values, found.low) == pytest.approx(1 / alpha)
    assert evidence(values, found.high) == pytest.approx(1 / alpha)
    assert evidence(values, found.mean) < 1 < evidence(values, found.high + 0.1)


def test_few_values_have_no_interval() -> None:
    values = [0.1, 0.101, 0.102, 0.103, 0.104, 0.105]
    assert [confidence_interval(values[:count], 0.05) is None for count in range(7)] == [True] * 5 + [False] * 2
    assert confidence_interval(values, 0.005) is None


def test_the_interval_is_valid_for_all_looks_together() -> None:
    draw, wrong = random.Random(2), 0
    for dummy in range(400):
        values = [draw.gauss(0, 0.02) for dummy in range(24)]
        looks = [confidence_interval(values[:count], 0.05) for count in range(4, 25)]
        wrong += any(found is not None and (found.low > 0 or found.high < 0) for found in looks)
    assert wrong <= 20


def test_the_order_of_the_values_changes_no_digit() -> None:
    draw = random.Random(3)
    values = [draw.gauss(0.01, 0.02) for dummy in range(40)]
    one, other = confidence_interval(values, 0.05), confidence_interval(sorted(values), 0.05)
    assert one and other and (one.mean, one.low, one.high) == (other.mean, other.low, other.high)


def test_the_interval_of_inverse_ratios_is_the_inverse() -> None:
    values = [0.05, 0.04, 0.06, 0.05, 0.045, 0.055]
    one, other = confidence_interval(values, 0.05), confidence_interval([-value for value in values], 0.05)
    assert one and other and (one.low, one.high) == (-other.high, -other.low)
    assert one.to_ratios() == pytest.approx((math.exp(0.05), math.exp(one.low), math.exp(one.high)))


def test_lag_one_correlation() -> None:
    assert lag_one_correlation([(1, -1), (-1, 1), (1, -1)]) == pytest.approx(-1)
    assert lag_one_correlation([(1, 0.5), (-1, -0.5)]) == pytest.approx(1)
    assert lag_one_correlation([(0, 0), (0, 0)]) == lag_one_correlation([]) == 0
