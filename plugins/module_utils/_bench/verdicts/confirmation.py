# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The confirmation of an ablation: compares stock, tuned and the kept settings in new rounds.

The confirmation shows the joint effect of settings. An ablation does not: where two settings pay only as a pair, each
of the two seems to have the whole gain.
"""

from __future__ import annotations

from ..rounds import schedule
from .comparison import HURTS
from .final_race import FinalRace
from .objectives import find_metrics_of_objectives, order_objectives

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Round
    from .comparison import Comparison


class Confirmation:
    """The comparisons of the confirmation, by objective; they are empty before its first round.

    ``over_stock`` compares the kept settings with stock, and ``by_metric`` does so for each guard metric. Where the run
    removed settings, ``tuned_over_stock`` and ``over_tuned`` are the other two pairs, and ``guards_over_tuned``
    compares kept with tuned by guard metrics. The three pairs of all objectives share the probability of a false claim.
    """

    def __init__(self, document: Mapping[str, Any], rounds: Sequence[Round]) -> None:
        plan = document["plan"]
        self._race = FinalRace(document, rounds, 3 * len(order_objectives(plan)))
        fresh = self._race.rounds
        metrics = find_metrics_of_objectives(fresh)
        self._metrics = {name: metrics[name] for name in order_objectives(plan) if name in metrics}
        #: The arm with the kept settings; it is tuned where the run removed no setting.
        self.winner = schedule.KEPT if any(schedule.KEPT in measured.levels for measured in fresh) else schedule.TUNED
        self.over_stock: dict[str, Comparison] = {}
        self.by_metric: list[Comparison] = []
        self.tuned_over_stock: dict[str, Comparison] = {}
        self.over_tuned: dict[str, Comparison] = {}
        self.guards_over_tuned: list[Comparison] = []
        if fresh:
            self.over_stock = self._compare_by_objective(self.winner, schedule.STOCK)
            self.by_metric = self._race.compare_arms_by_guard_metrics(
                self.winner, schedule.STOCK, self._metrics.values()
            )
        if self.winner == schedule.KEPT:
            self.tuned_over_stock = self._compare_by_objective(schedule.TUNED, schedule.STOCK)
            self.over_tuned = self._compare_by_objective(schedule.KEPT, schedule.TUNED)
            self.guards_over_tuned = self._race.compare_arms_by_guard_metrics(
                schedule.KEPT, schedule.TUNED, self._metrics.values()
            )
        #: The comparison that decides: by the first objective that was measured.
        self.kept_over_stock: Comparison | None = next(iter(self.over_stock.values()), None)
        self.confirmed = self.kept_over_stock is not None and self.kept_over_stock.interval is not None

    def _compare_by_objective(self, arm: str, other: str) -> dict[str, Comparison]:
        return {name: self._race.compare_arms_by_metric(arm, other, key) for name, key in self._metrics.items()}

    @property
    def losses_against_tuned(self) -> list[Comparison]:
        """The metrics in which the kept settings are proven to be worse than the tuned ones."""
        return [found for found in (*self.over_tuned.values(), *self.guards_over_tuned) if found.word == HURTS]

    def comparisons_by_name(self) -> dict[str, Comparison]:
        """Return the comparisons by name, kept over stock by the first objective first; none before the first round."""
        pairs = {
            f"{self.winner} over stock": self.over_stock,
            "tuned over stock": self.tuned_over_stock,
            "kept over tuned": self.over_tuned,
        }
        return {
            name if number == 0 else f"{name}, {objective}": comparison
            for name, by_objective in pairs.items()
            for number, (objective, comparison) in enumerate(by_objective.items())
        }
