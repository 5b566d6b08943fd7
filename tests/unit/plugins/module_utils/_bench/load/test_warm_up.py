# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Warming up ends when the pace is even, and does not last for ever."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.warm_up import warm_up_until_stable
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError


@pytest.mark.parametrize(
    ("rates", "needed"),
    [
        ([10, 10, 10], 3),
        ([10, 9.5, 10.5], 3),
        ([2, 8, 10, 10.4, 9.6], 5),
        ([10, 10, 10.6, 10.6, 10.6], 5),
        ([1, 2, 4, 8, 16, 10, 10, 10], 8),
    ],
)
def test_warm_up_ends_after_three_stable_rates(rates: list[float], needed: int) -> None:
    coming = iter([*rates, 99.0])
    assert warm_up_until_stable(lambda: next(coming)) == rates[:needed]


def test_warm_up_sends_at_most_eight_requests() -> None:
    coming = iter([10, 11, 10, 11, 10, 11, 10, 11, 11, 11])
    with pytest.raises(
        TuningError, match=r"no steady pace in 8 requests \(10\.0, 11\.0, .*11\.0 tokens per second\)"
    ) as error:
        warm_up_until_stable(lambda: next(coming))
    assert error.value.details["rates"] == [10, 11] * 4 and next(coming) == 11
