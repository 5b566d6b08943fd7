# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The precision that starts and passes buy: two sources of noise, and how many rounds an effect needs.

Requests to one start share the chance of that start, which more requests do not average out. So both variances count:
the variance of a value is that of a start plus that of a pass divided by the number of passes.

Source: Kalibera and Jones, "Rigorous benchmarking in reasonable time" (ISMM 2013).
"""

from __future__ import annotations

import math

from ..rounds import schedule
from ..statistics.confidence_interval import confidence_interval

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .costs import Costs

#: The largest number of passes to one start, and the largest number of rounds that a plan computes with.
MAX_PASSES, MAX_PLANNED_ROUNDS = 4, 400


class Noise:
    """Standard deviations as natural logarithms: of one pass within a start, and of one start beside that."""

    def __init__(self, pass_sd: float, start_sd: float) -> None:
        self.pass_sd = pass_sd
        self.start_sd = start_sd

    def standard_deviation_of_start_mean(self, passes: int = 1) -> float:
        """Return the standard deviation of the mean of some passes to one start."""
        return math.hypot(self.start_sd, self.pass_sd / math.sqrt(passes))

    def standard_deviation_of_log_ratio(self, setting_class: str, passes: int = 1) -> float:
        """Return the standard deviation of a log ratio of two arms of a round.

        Arms that share a start share the chance of that start, which their ratio does not have.
        """
        if schedule.REPETITIONS[setting_class].shares_start:
            return self.pass_sd * math.sqrt(2 / passes)
        return self.standard_deviation_of_start_mean(passes) * math.sqrt(2)


#: The noise that a run assumes before it has measured any: that of a quiet server.
ASSUMED_NOISE = Noise(0.008, 0.01)


def best_passes_per_start(costs: Costs, noise: Noise) -> int:
    """Return how often an arm is sent all prompts in a start, so that a given time gives the narrowest interval."""
    if not noise.start_sd:
        return MAX_PASSES
    passes = math.sqrt(costs.start_s / costs.pass_s) * noise.pass_sd / noise.start_sd
    return max(1, min(MAX_PASSES, round(passes)))


def interval_half_width(rounds: int, ratio_sd: float, alpha: float) -> float:
    """Return half the width of the interval of a log ratio after some rounds; infinite for too few rounds."""
    values = [ratio_sd if at % 2 else -ratio_sd for at in range(rounds)]
    interval = confidence_interval(values, alpha)
    return math.inf if interval is None else (interval.high - interval.low) / 2


def rounds_for_half_width(half_width: float, ratio_sd: float, alpha: float, least: int = 4) -> int:
    """Return the number of rounds after which an interval is about as narrow; at most MAX_PLANNED_ROUNDS."""
    low, high = least, MAX_PLANNED_ROUNDS
    while low < high:
        middle = (low + high) // 2
        if interval_half_width(middle, ratio_sd, alpha) <= half_width:
            high = middle
        else:
            low = middle + 1
    return low
