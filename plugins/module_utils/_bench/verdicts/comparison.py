# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares a metric of two arms: the interval of the ratio, and which arm is proven to be better.

A log ratio above 0 means that the metric is better in the anchor than in the other arm.
"""

from __future__ import annotations

from ..rounds import measured_rounds, schedule
from ..statistics.confidence_interval import confidence_interval

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..rounds.measured_rounds import Key, Round
    from ..statistics.confidence_interval import Interval

PAYS, HURTS, NOTHING, UNDECIDED = "pays", "hurts", "nothing", "undecided"


class DecisionRule:
    """When a comparison is decided.

    ``alpha`` is the probability of a false claim, ``zone`` the logarithm of the largest ratio that counts as no effect,
    and ``least`` the smallest number of values.
    """

    def __init__(self, alpha: float, zone: float, least: int) -> None:
        self.alpha = alpha
        self.zone = zone
        self.least = least


class Comparison:
    """A metric compared between two arms: number of values, interval (None for too few values) and verdict word."""

    def __init__(self, key: Key, values: Sequence[float], rule: DecisionRule) -> None:
        self.key = key
        self.count = len(values)
        self.interval: Interval | None = confidence_interval(values, rule.alpha) if self.count >= rule.least else None
        self.word = _verdict_word(self.interval, rule.zone)

    def to_dict(self) -> dict[str, object]:
        """Return metric, kind, streams, rounds and ratios; six decimals of a ratio are equal on every machine."""
        ratios = self.interval.to_ratios() if self.interval else (None, None, None)
        ratio, low, high = (None if ratio is None else round(ratio, 6) for ratio in ratios)
        metric, kind, streams = self.key
        place = {"metric": metric, "kind": kind, "streams": streams, "rounds": self.count}
        return {**place, "ratio": ratio, "low": low, "high": high}

    def format_ratio(self) -> str:
        """Return the ratio with its interval as text, such as ``1.34 (1.31 to 1.37)``."""
        return format_interval(self.interval)


def compare_anchor_with_arm(
    rounds: Sequence[Round], arm: str, key: Key, rule: DecisionRule, anchor: str = schedule.TUNED
) -> Comparison:
    """Compare an anchor with an arm in the rounds that count."""
    return Comparison(key, measured_rounds.log_ratios_of_counting_rounds(rounds, arm, key, anchor), rule)


def format_interval(interval: Interval | None) -> str:
    """Return an interval as ratios; three decimals where two would hide whether an end is above or below 1."""
    if interval is None:
        return "no interval yet"
    ratios = interval.to_ratios()
    digits = 2 if min(abs(ratio - 1) for ratio in ratios[1:]) >= 0.01 else 3
    middle, low, high = (f"{ratio:.{digits}f}" for ratio in ratios)
    return f"{middle} ({low} to {high})"


def format_metric_name(comparison: Comparison) -> str:
    """Return the name of a metric for people, such as ``decode of prose``."""
    metric, kind, streams = comparison.key
    return " ".join([metric, *([f"of {kind}"] if kind else []), *([f"with {streams} streams"] if streams > 1 else [])])


def _verdict_word(interval: Interval | None, zone: float) -> str:
    if interval is None:
        return UNDECIDED
    if interval.low > 0:
        return PAYS
    if interval.high < 0:
        return HURTS
    return NOTHING if interval.low >= -zone and interval.high <= zone else UNDECIDED
