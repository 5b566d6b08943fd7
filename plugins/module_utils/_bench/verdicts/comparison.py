# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares a metric of two arms: the interval of the ratio, and which arm is proven to be better.

A log ratio above 0 means that the metric is better in the anchor than in the other arm.
"""

from __future__ import annotations

import math

from ..rounds import measured_rounds, schedule
from ..rounds.answer_differences import log_ratios_of_prompts, speculating_arms_answers_differ
from ..rounds.measured_rounds import PROMPT_METRICS
from ..statistics.confidence_interval import Interval, confidence_interval, mean
from ..statistics.stratified_mean import stratified_interval

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Key, Round

PAYS, HURTS, NOTHING, UNDECIDED, MIXED = "pays", "hurts", "nothing", "undecided", "mixed"
#: The words of what has no comparison: no round of it counts, or it did not take effect.
UNTESTED, REJECTED = "not tested", "rejected"
#: Where the interval over prompts is this many times as wide as that over rounds, more rounds do not make it narrower.
PROMPTS_LIMIT_FACTOR = 4


class DecisionRule:
    """When a comparison is decided.

    ``alpha`` is the probability of a false claim, ``zone`` the logarithm of the largest ratio that counts as no effect,
    and ``least`` the smallest number of values.
    """

    def __init__(self, alpha: float, zone: float, least: int) -> None:
        self.alpha = alpha
        self.zone = zone
        self.least = least


def alpha_of_each_arm(plan: Mapping[str, Any]) -> float:
    """Return the probability of a false claim on each arm of an ablation that is compared with the anchor.

    Arms of a screening and of the confirmation are not among them: a screening proves no gain.
    """
    return float(plan["alpha"] / schedule.count_compared_arms(plan["arms"]))


def make_decision_rule(plan: Mapping[str, Any], setting_class: str) -> DecisionRule:
    """Return when a comparison is decided in an ablation: its arms and objectives share the probability of a claim."""
    objectives = {plan["objective"], *plan["objectives"]}
    alpha = alpha_of_each_arm(plan) / len(objectives)
    return DecisionRule(alpha, math.log1p(plan["zone"]), schedule.REPETITIONS[setting_class].least)


class Comparison:
    """A metric compared between two arms: number of values, interval (None for too few values) and verdict word.

    ``prompts`` is the number of prompts whose spread widens the interval, 0 where the interval is over rounds only.
    """

    def __init__(
        self,
        key: Key,
        values: Sequence[float],
        rule: DecisionRule,
        prompts: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
    ) -> None:
        """``values`` are log ratios, one for each repetition; ``prompts`` are those of each prompt, by kind."""
        self.key = key
        self.count = len(values)
        self.interval: Interval | None = confidence_interval(values, rule.alpha) if self.count >= rule.least else None
        self.prompts = 0
        #: Whether only more prompts, and not more rounds, would make the interval narrower.
        self.is_limited_by_prompts = False
        if self.interval and prompts:
            strata = [[mean(ratios) for ratios in of_kind.values()] for of_kind in prompts.values()]
            over_prompts = stratified_interval(strata, rule.alpha)
            if over_prompts:
                self.prompts = over_prompts.count
                self.interval = self._join_intervals(self.interval, over_prompts)
        self.word = _verdict_word(self.interval, rule.zone)
        #: Whether it is undecided, and its estimate is a gain that matters.
        self.may_gain = self.word == UNDECIDED and (self.interval is None or self.interval.mean > rule.zone)

    def _join_intervals(self, over_rounds: Interval, over_prompts: Interval) -> Interval:
        """Return an interval around the mean of the prompts that is as wide as the wider of two intervals."""
        halves = [interval.high - interval.mean for interval in (over_rounds, over_prompts)]
        self.is_limited_by_prompts = halves[1] > PROMPTS_LIMIT_FACTOR * halves[0]
        return Interval(over_prompts.mean, max(halves), over_rounds.count)

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
    """Compare an anchor with an arm in the rounds that count.

    Where the two speculate differently, their ratio depends on the prompt. Then the prompts that were sent are a random
    choice among all prompts of their kinds, and the spread of prompts counts beside that of rounds.
    """
    values = measured_rounds.log_ratios_of_counting_rounds(rounds, arm, key, anchor)
    depends_on_prompt = key[0] in PROMPT_METRICS and speculating_arms_answers_differ(rounds, arm, anchor)
    by_prompt = log_ratios_of_prompts(rounds, arm, key, anchor) if depends_on_prompt else {}
    return Comparison(key, values, rule, by_prompt)


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
