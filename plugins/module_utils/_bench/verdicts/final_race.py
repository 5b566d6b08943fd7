# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A race of finalists in new rounds: the rounds by which a finalist was chosen overestimate it.

An ablation races the kept settings against stock and tuned, a tuning its best candidate against the default.
"""

from __future__ import annotations

import math

from ..rounds import measured_rounds, schedule
from .comparison import DecisionRule, compare_anchor_with_arm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Key, Round
    from .comparison import Comparison


class FinalRace:
    """The rounds of the confirmation of a run, and comparisons of arms in them.

    ``comparisons`` is the number of comparisons that claim something, which share the probability of a false claim.
    A comparison has an interval after ``schedule.CONFIRMATION_ROUNDS`` repetitions.
    """

    def __init__(self, document: Mapping[str, Any], rounds: Iterable[Round], comparisons: int) -> None:
        plan = document["plan"]
        self.rounds: Sequence[Round] = [measured for measured in rounds if measured.phase == schedule.CONFIRMATION]
        self.rule = DecisionRule(plan["alpha"] / comparisons, math.log1p(plan["zone"]), schedule.CONFIRMATION_ROUNDS)

    def compare_arms_by_metric(self, arm: str, other: str, key: Key) -> Comparison:
        """Compare an arm with another one; a log ratio above 0 means that the first is better."""
        return compare_anchor_with_arm(self.rounds, other, key, self.rule, arm)

    def compare_arms_by_guard_metrics(self, arm: str, other: str, judged: Iterable[Key] = ()) -> list[Comparison]:
        """Compare an arm with another one by the guard metrics that are not ``judged`` already."""
        keys = [key for key in measured_rounds.list_guard_metrics(self.rounds) if key not in set(judged)]
        return [self.compare_arms_by_metric(arm, other, key) for key in keys]
