# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chooses which settings the next round of an ablation leaves out one at a time: the dearest question first."""

from __future__ import annotations

from .precision import rounds_for_half_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    """What a race costs and needs: seconds of a round by class and arms, noise of a ratio by class, and the decision.

    ``alpha`` is the probability of a false claim of one comparison, and ``zone`` the largest log ratio that does not
    matter.
    """

    def __init__(
        self,
        round_seconds: Callable[[str, int], float],
        ratio_sd: Callable[[str], float],
        alpha: float,
        zone: float,
    ) -> None:
        self.round_seconds = round_seconds
        self._ratio_sd = ratio_sd
        self._alpha = alpha
        self._zone = zone

    def rounds_left(self, question: Question) -> int:
        """Return how many more rounds probably decide a question, at least one."""
        # An effect is proven when the interval is beside 1, and its absence when the interval lies in the zone.
        half_width = max(question.effect, self._zone - question.effect, self._zone / 2)
        sd = self._ratio_sd(question.setting_class)
        return max(1, rounds_for_half_width(half_width, sd, self._alpha) - question.rounds)

    def race_seconds(self, questions: Sequence[Question]) -> float:
        """Return the seconds until questions of one class are probably decided together."""
        if not questions:
            return 0.0
        rounds = max(map(self.rounds_left, questions))
        return rounds * self.round_seconds(questions[0].setting_class, FIXED_RACE_ARMS + len(questions))

    def race_seconds_of_all_classes(self, questions: Sequence[Question]) -> float:
        """Return the seconds until questions of any classes are probably decided, each class by itself."""
        return sum(map(self.race_seconds, _group_by_class(questions)))

    def choose_race(self, questions: Sequence[Question], seconds: float) -> list[Question]:
        """Return the questions of the next round, which are of one class; none where no round ends in ``seconds``.

        A race takes the settings with the largest effects, as many as can be decided in the time. Of the races of all
        classes that with the most effect per second is next.
        """
        races = []
        for of_class in _group_by_class(questions):
            of_class.sort(key=lambda question: -question.effect)
            counts = range(len(of_class), 0, -1)
            count = next((count for count in counts if self.race_seconds(of_class[:count]) <= seconds), 1)
            race = of_class[:count]
            if self.round_seconds(race[0].setting_class, FIXED_RACE_ARMS + count) <= seconds:
                races.append(race)
        return max(races, key=self._effect_per_second, default=[])

    def _effect_per_second(self, questions: Sequence[Question]) -> float:
        return sum(question.effect for question in questions) / self.race_seconds(questions)


def _group_by_class(questions: Sequence[Question]) -> list[list[Question]]:
    groups: dict[str, list[Question]] = {}
    for question in questions:
        groups.setdefault(question.setting_class, []).append(question)
    return list(groups.values())
