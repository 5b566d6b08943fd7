# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The effects of settings that a screening estimates; they choose what is raced, and prove no gain.

An effect is the mean over arms that have about half of all other settings, so a race may show another effect: beside
all other settings. An effect within the zone of no effect is settled, because every pair that pays only together shows
half of its gain in the effect of each of the two.
"""

from __future__ import annotations

from ..rounds import schedule
from ..statistics.confidence_interval import Interval
from ..statistics.regression import estimate_effects
from ..statistics.student_distribution import student_quantile
from .objectives import find_metrics_of_objectives

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Key, Round
    from ..statistics.regression import EffectEstimate


class ScreenedEffects:
    """The estimated effects of all settings of a screening by name, and their regression; None without enough arms."""

    def __init__(self, rounds: Sequence[Round], arms: Mapping[str, Mapping[str, Any]], alpha: float, key: Key) -> None:
        """Estimate from the counting rounds of a screening; ``arms`` are the arms of the plan by name.

        ``alpha`` is the probability that an interval misses the effect.
        """
        measured = [
            (r, name) for r in rounds if not r.discard_reason for name, levels in r.levels.items() if key in levels
        ]
        removals: list[Sequence[str]] = [arms[name]["removed"] for dummy, name in measured]
        values = [r.levels[name][key] for r, name in measured]
        blocks = [r.number for r, dummy in measured]
        names = list(dict.fromkeys(name for removed in removals for name in removed))
        rows = [[float(name not in removed) for name in names] for removed in removals]
        self.regression: EffectEstimate | None = estimate_effects(rows, values, blocks)
        self.intervals: dict[str, Interval] = {}
        #: The standard deviation of the value of an arm, None without enough arms.
        self.value_sd = self.regression.residual_sd if self.regression else None
        if self.regression:
            width = student_quantile(1 - alpha / 2, self.regression.degrees)
            for name, effect, error in zip(names, self.regression.effects, self.regression.errors):
                self.intervals[name] = Interval(effect, width * error, len(measured))


def estimate_screened_effects(
    rounds: Sequence[Round], arms: Mapping[str, Mapping[str, Any]], objectives: Sequence[str], alpha: float
) -> dict[str, ScreenedEffects]:
    """Return the effects of all settings on each of these objectives that the rounds of a screening have measured."""
    screening = [measured for measured in rounds if measured.phase == schedule.SCREENING]
    metrics = find_metrics_of_objectives(screening)
    return {
        objective: ScreenedEffects(screening, arms, alpha, metrics[objective])
        for objective in objectives
        if objective in metrics
    }
