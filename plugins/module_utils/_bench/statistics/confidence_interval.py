# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A confidence sequence for the mean of paired log ratios: an interval that a run may look at after every round.

An ordinary t interval is valid for one look at the end of the run. A confidence sequence is valid for all looks
together: with probability 1 - alpha it contains the true mean after each number of values. So a run may stop as soon as
the interval decides. The sequence is the t e-process with a Gaussian mixture over the effect, solved for the mean. It
assumes independent values with about a normal distribution; ``lag_one_correlation`` checks the independence.

Source: Wang and Ramdas, "Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance". Sums
use ``math.fsum``, because the last digit of ``sum`` differs between versions of Python.
"""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The width of the mixture, in standard deviations of one value: the interval is narrowest for effects of about this
#: size.
MIXTURE_WIDTH = 1.0


class Interval:
    """The mean of ``count`` log ratios, and the range from ``low`` to ``high`` for the true mean."""

    def __init__(self, mean: float, half: float, count: int) -> None:
        self.mean = mean
        self.low = mean - half
        self.high = mean + half
        self.count = count

    def to_ratios(self) -> tuple[float, float, float]:
        """Return the mean and both ends of the range as ratios: estimate, low, high."""
        return math.exp(self.mean), math.exp(self.low), math.exp(self.high)


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean of at least one value."""
    return math.fsum(values) / len(values)


def confidence_interval(values: Sequence[float], alpha: float) -> Interval | None:
    """Return the interval of independent log ratios; None for too few values.

    ``alpha`` is the probability that the interval misses the true mean at least once, over all looks together.
    """
    count = len(values)
    if not count:
        return None
    grown = 1 + count * MIXTURE_WIDTH
    ratio = (math.sqrt(grown) / alpha) ** (2 / count)
    if ratio >= grown:
        return None
    centre = mean(values)
    spread = math.fsum((value - centre) ** 2 for value in values)
    return Interval(centre, math.sqrt(spread / count * (ratio - 1) / (1 - ratio / grown)), count)


def lag_one_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the correlation of pairs of consecutive values, from -1 to 1; 0 where the values do not vary.

    Values are distances from their mean.
    """
    product = math.fsum(before * after for before, after in pairs)
    size = math.fsum(before**2 for before, dummy in pairs) * math.fsum(after**2 for dummy, after in pairs)
    return product / math.sqrt(size) if size else 0.0
