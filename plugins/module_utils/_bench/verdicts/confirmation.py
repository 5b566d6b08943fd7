# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The confirmation of an ablation: stock, tuned and the kept settings, compared in new rounds.

The rounds by which the kept settings were chosen overestimate their gain, so the gain is computed only from rounds that
came after the choice. They also show the joint effect of settings, which an ablation does not: two settings that pay
only as a pair each seem to have the whole gain there.
"""

from __future__ import annotations

import math

from ..rounds import measured_rounds, schedule
from .comparison import DecisionRule, compare_arms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Round
    from .comparison import Comparison


class Confirmation:
    """The confirmation. ``kept_over_stock`` compares the kept settings with stock, ``by_metric`` for each metric.

    ``other_pairs`` are the other comparisons by name. Everything is None or empty before the first confirmation
    round. The three pairs share the probability of a false claim.
    """

    def __init__(self, document: Mapping[str, Any], those: Sequence[Round]) -> None:
        fresh = [measured for measured in those if measured.phase == schedule.CONFIRMATION]
        plan = document["plan"]
        rule = DecisionRule(plan["alpha"] / 3, math.log1p(plan["zone"]), schedule.CONFIRMATION_ROUNDS)
        #: If no setting was removed, the kept settings are those of tuned.
        self.winner = schedule.KEPT if any(schedule.KEPT in measured.levels for measured in fresh) else schedule.TUNED
        self.kept_over_stock: Comparison | None = None
        self.by_metric: list[Comparison] = []
        self.other_pairs: dict[str, Comparison] = {}
        self.confirmed = False
        if not fresh:
            return
        self.kept_over_stock = compare_arms(fresh, schedule.STOCK, measured_rounds.ONE_STREAM, rule, self.winner)
        self.confirmed = self.kept_over_stock.interval is not None
        self.by_metric = [
            compare_arms(fresh, schedule.STOCK, key, rule, self.winner) for key in measured_rounds.guard_metrics(fresh)
        ]
        if self.winner == schedule.KEPT:
            one_stream = measured_rounds.ONE_STREAM
            self.other_pairs = {
                "tuned over stock": compare_arms(fresh, schedule.STOCK, one_stream, rule),
                "kept over tuned": compare_arms(fresh, schedule.TUNED, one_stream, rule, schedule.KEPT),
            }

    def named_pairs(self) -> dict[str, Comparison]:
        """Return the comparisons by name, the kept settings over stock first; empty before the first round."""
        return {f"{self.winner} over stock": self.kept_over_stock, **self.other_pairs} if self.kept_over_stock else {}
