# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Estimates the two sources of noise of a run: that of a pass within a start, and that of a start of the server.

The passes of an arm within a start differ by the first only. Arms with starts of their own differ by both.
"""

from __future__ import annotations

import math

from ..statistics.confidence_interval import mean
from ..statistics.noise import Spread, spread_of_table, spread_within_groups
from . import schedule
from .measured_rounds import ONE_STREAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .measured_rounds import Round

#: An estimate needs this many degrees of freedom.
LEAST_DEGREES = 2


class NoiseEstimate:
    """Standard deviations of the logarithm of a rate; each is None where too few rounds show it.

    ``pass_sd`` is that of a pass, in which an arm is sent all prompts once, and ``start_sd`` that of a start beside it.
    """

    def __init__(self, pass_sd: float | None, start_sd: float | None) -> None:
        self.pass_sd = pass_sd
        self.start_sd = start_sd


def estimate_noise(rounds: Sequence[Round]) -> NoiseEstimate:
    """Return the noise of decoding with one stream, from the rounds that count."""
    counting = [measured for measured in rounds if not measured.discard_reason]
    pass_variance = _estimate_pass_variance(counting)
    own_starts = [measured for measured in counting if len(set(measured.starts.values())) > 1]
    value_variance = _variance_if_enough_degrees(spread_of_table(_one_stream_decode_levels_by_round(own_starts)))
    if pass_variance is None or value_variance is None:
        return NoiseEstimate(None if pass_variance is None else math.sqrt(pass_variance), None)
    of_passes = pass_variance / _mean_pass_count(own_starts)
    return NoiseEstimate(math.sqrt(pass_variance), math.sqrt(max(0.0, value_variance - of_passes)))


def _estimate_pass_variance(counting: Sequence[Round]) -> float | None:
    """Return the variance of a pass: from repeated passes of an arm, and from arms that share a start."""
    repeated = spread_within_groups([levels for measured in counting for levels in measured.pass_levels.values()])
    shared = [r for r in counting if len(set(r.starts.values())) == 1 and r.phase != schedule.SCREENING]
    of_arms = spread_of_table(_one_stream_decode_levels_by_round(shared))
    squares = of_arms.squares * _mean_pass_count(shared)
    return _variance_if_enough_degrees(Spread.sum_of_spreads([repeated, Spread(squares, of_arms.degrees)]))


def _one_stream_decode_levels_by_round(rounds: Sequence[Round]) -> list[dict[str, float]]:
    return [
        {arm: levels[ONE_STREAM] for arm, levels in measured.levels.items() if ONE_STREAM in levels}
        for measured in rounds
    ]


def _mean_pass_count(rounds: Sequence[Round]) -> float:
    """Return the mean number of passes to a start, 1 where passes are not known."""
    counts = [len(levels) for measured in rounds for levels in measured.pass_levels.values()]
    return mean(counts) if counts else 1.0


def _variance_if_enough_degrees(spread: Spread) -> float | None:
    return spread.variance if spread.degrees >= LEAST_DEGREES else None
