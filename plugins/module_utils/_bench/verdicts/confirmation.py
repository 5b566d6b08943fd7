# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The confirmation of an ablation: compares stock, tuned and the kept settings in new rounds.

The rounds by which the kept settings were chosen overestimate their gain, so the gain is computed only from later
rounds. The confirmation also shows the joint effect of settings. An ablation does not: where two settings pay only as a
pair, each of the two seems to have the whole gain.
"""

from __future__ import annotations

import math

from ..rounds import measured_rounds, schedule
from .comparison import DecisionRule, compare_anchor_with_arm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Round
    from .comparison import Comparison


class Confirmation:
    """The comparisons of the confirmation; they are None or empty before its first round.

    ``kept_over_stock`` compares the kept settings with stock, and ``by_metric`` does so for each guard metric.
    ``other_pairs`` are the other two comparisons by name. The three pairs share the probability of a false claim.
    """

    def __init__(self, document: Mapping[str, Any], rounds: Sequence[Round]) -> None:
        fresh = [measured for measured in rounds if measured.phase == schedule.CONFIRMATION]
        plan = document["plan"]
        rule = DecisionRule(plan["alpha"] / 3, math.log1p(plan["zone"]), schedule.CONFIRMATION_ROUNDS)
        #: The arm with the kept settings; it is tuned where the run removed no setting.
        self.winner = schedule.KEPT if any(schedule.KEPT in measured.levels for measured in fresh) else schedule.TUNED
        self.kept_over_stock: Comparison | None = None
        self.by_metric: list[Comparison] = []
        self.other_pairs: dict[str, Comparison] = {}
        self.confirmed = False
        if not fresh:
            return
        one_stream = measured_rounds.ONE_STREAM
        self.kept_over_stock = compare_anchor_with_arm(fresh, schedule.STOCK, one_stream, rule, self.winner)
        self.confirmed = self.kept_over_stock.interval is not None
        self.by_metric = [
            compare_anchor_with_arm(fresh, schedule.STOCK, key, rule, self.winner)
            for key in measured_rounds.guard_metrics(fresh)
        ]
        if self.winner == schedule.KEPT:
            self.other_pairs = {
                "tuned over stock": compare_anchor_with_arm(fresh, schedule.STOCK, one_stream, rule),
                "kept over tuned": compare_anchor_with_arm(fresh, schedule.TUNED, one_stream, rule, schedule.KEPT),
            }

    def comparisons_by_name(self) -> dict[str, Comparison]:
        """Return the three comparisons by name, kept_over_stock first; none before the first round."""
        return {f"{self.winner} over stock": self.kept_over_stock, **self.other_pairs} if self.kept_over_stock else {}
