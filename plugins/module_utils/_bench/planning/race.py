# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chooses which settings the next round of an ablation leaves out one at a time: the dearest question first."""

from __future__ import annotations

from ..rounds import schedule
from .costs import Costs
from .precision import best_passes_per_start, rounds_for_half_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .precision import Noise

#: Arms of a race beside those without a setting: the anchor and its twin.
FIXED_RACE_ARMS = 2


class Question:
    """A setting without a verdict: its class, its expected effect as a log ratio, and the rounds that it has had."""

    def __init__(self, name: str, setting_class: str, effect: float, rounds: int = 0) -> None:
        self.name = name
        self.setting_class = setting_class
        self.effect = abs(effect)
        self.rounds = rounds


class RaceRules:
    """What a race costs and needs, by the costs of starts and passes, their noise, and the decision of a comparison.

    ``passes`` maps each class to the passes of an arm in a round. ``alpha`` is the probability of a false claim of one
    comparison, and ``zone`` the largest log ratio that does not matter.
    """

    def __init__(self, costs: Costs, noise: Noise, passes: Mapping[str, int], alpha: float, zone: float) -> None:
        self.costs = costs
        self._noise = noise
        self._passes = passes
        self._alpha = alpha
        self._zone = zone

    def round_seconds(self, setting_class: str, arms: int) -> float:
        """Return the seconds of a round of a class with a number of arms."""
        return self.costs.round_seconds(setting_class, arms, self._passes[setting_class])

    def estimate_rounds_to_decide(self, question: Question) -> int:
        """Return how many more rounds probably decide a question, at least one."""
        # An effect is proven when the interval is beside 1, and its absence when the interval lies in the zone.
        half_width = max(question.effect, self._zone - question.effect, self._zone / 2)
        sd = self._noise.standard_deviation_of_log_ratio(question.setting_class, self._passes[question.setting_class])
        return max(1, rounds_for_half_width(half_width, sd, self._alpha) - question.rounds)

    def estimate_seconds_to_decide(self, questions: Sequence[Question]) -> float:
        """Return the seconds until questions of one class are probably decided together."""
        if not questions:
            return 0.0
        rounds = max(map(self.estimate_rounds_to_decide, questions))
        return rounds * self.round_seconds(questions[0].setting_class, FIXED_RACE_ARMS + len(questions))

    def estimate_seconds_to_decide_all_classes(self, questions: Sequence[Question]) -> float:
        """Return the seconds until questions of any classes are probably decided, each class by itself."""
        return sum(map(self.estimate_seconds_to_decide, _group_by_class(questions)))

    def choose_questions_of_next_round(self, questions: Sequence[Question], seconds: float) -> list[Question]:
        """Return the questions of the next round, which are of one class; none where no round ends in ``seconds``.

        A race takes the settings with the largest effects, as many as can be decided in the time. Of the races of all
        classes that with the most effect per second is next.
        """
        races = []
        for of_class in _group_by_class(questions):
            of_class.sort(key=lambda question: -question.effect)
            counts = range(len(of_class), 0, -1)
            count = next((count for count in counts if self.estimate_seconds_to_decide(of_class[:count]) <= seconds), 1)
            race = of_class[:count]
            if self.round_seconds(race[0].setting_class, FIXED_RACE_ARMS + count) <= seconds:
                races.append(race)
        return max(races, key=self._effect_per_second, default=[])

    def _effect_per_second(self, questions: Sequence[Question]) -> float:
        return sum(question.effect for question in questions) / self.estimate_seconds_to_decide(questions)


def best_passes_by_class(costs: Costs, noise: Noise) -> dict[str, int]:
    """Return for each class how often an arm is sent all prompts in a round of a race."""
    # Arms that share a start share its costs too.
    shared = Costs(costs.start_s / (FIXED_RACE_ARMS + 1), costs.pass_s)
    return {
        schedule.LIVE: best_passes_per_start(shared, noise),
        schedule.RESTART: best_passes_per_start(costs, noise),
    }


def _group_by_class(questions: Sequence[Question]) -> list[list[Question]]:
    groups: dict[str, list[Question]] = {}
    for question in questions:
        groups.setdefault(question.setting_class, []).append(question)
    return list(groups.values())
