# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the minutes of an ablation settle, and how many minutes would settle the rest: said before the first round."""

from __future__ import annotations

import math

from ..rounds import schedule
from . import screening
from .budget import RESERVE_FACTOR, format_seconds
from .race import Question

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .race import RaceRules

#: Name of a setting -> the effect that a plan expects before the host has been measured, as a log ratio. It decides
#: only which setting comes first. Source: effects that were published of other hosts.
EXPECTED_EFFECTS = {
    "speculation": 0.25,
    "memory policy": 0.2,
    "CPU set": 0.2,
    "threads": 0.1,
    "SMT": 0.08,
    "load mode": 0.06,
    "flash attention": 0.05,
    "OpenMP environment": 0.05,
    "frequencies": 0.05,
    "batch threads": 0.04,
    "batch sizes": 0.04,
    "KV cache types": 0.04,
    "NUMA mode": 0.04,
    "CPU masks": 0.04,
    "transparent huge pages": 0.04,
    "L3 partition": 0.03,
    "prefetchers": 0.03,
}
OTHER_EXPECTED_EFFECT = 0.02
#: The expected effect of another program or model, which the operator has named.
EXPECTED_EFFECT_OF_VARIANT = 0.1
#: The share of settings that a plan expects to need a race after the screening.
EXPECTED_SURVIVORS = 0.25
#: The beginning of each sentence on what the time of a run does not suffice for.
NOT_ENOUGH_TIME = "Not enough time"


def expected_effect(name: str) -> float:
    """Return the effect, as a log ratio, that a plan expects of a setting or variant before it has been measured."""
    if name.startswith(schedule.VARIANT):
        return EXPECTED_EFFECT_OF_VARIANT
    return EXPECTED_EFFECTS.get(name, OTHER_EXPECTED_EFFECT)


class TimePlan:
    """The time that settings need, the setting with the largest expected effect first.

    ``settings`` maps the name of each setting to its class, and ``rules`` are those of the race.
    ``confirmation_class`` is the class of the arms that the confirmation compares, None without a confirmation.
    """

    def __init__(self, settings: Mapping[str, str], rules: RaceRules, confirmation_class: str | None) -> None:
        names = sorted(settings, key=lambda name: -expected_effect(name))
        self.questions = [Question(name, settings[name], expected_effect(name)) for name in names]
        self.costs = rules.costs
        self._rules = rules
        self._confirmation_class = confirmation_class

    def confirmation_seconds(self, arms: int = 3) -> float:
        """Return the seconds of a confirmation: of stock, tuned and kept, or of stock and tuned only."""
        if self._confirmation_class is None:
            return 0.0
        rounds = RESERVE_FACTOR * schedule.CONFIRMATION_ROUNDS
        return rounds * self._rules.round_seconds(self._confirmation_class, arms)

    def seconds_to_settle(self, count: int) -> float:
        """Return the seconds that settle the first ``count`` settings, their confirmation included."""
        questions = self.questions[:count]
        raced = self._rules.estimate_seconds_to_decide_all_classes(questions)
        return min(raced, self.screening_and_race_seconds()) + self.confirmation_seconds()

    def screening_and_race_seconds(self) -> float:
        """Return the seconds of a screening of all settings and of the race of those that survive it."""
        variants = [question for question in self.questions if question.name.startswith(schedule.VARIANT)]
        screened = [question for question in self.questions if question not in variants]
        if len(screened) < screening.LEAST_SETTINGS:
            return math.inf
        survivors = screened[: math.ceil(EXPECTED_SURVIVORS * len(screened))]
        setting_class = schedule.screening_class(question.setting_class for question in screened)
        rounds = screening.count_fold_rounds(len(screened))
        fold_seconds = rounds * self._rules.round_seconds(setting_class, screening.ARMS_PER_ROUND)
        return fold_seconds + self._rules.estimate_seconds_to_decide_all_classes([*variants, *survivors])

    def count_settled_settings(self, seconds: float) -> int:
        """Return how many of the settings, in their order, are probably settled in ``seconds``."""
        counts = range(len(self.questions), 0, -1)
        return next((count for count in counts if self.seconds_to_settle(count) <= seconds), 0)

    def describe_settled_settings(self, seconds: float, source: str = "") -> str:
        """Return sentences on what ``seconds`` settle; ``source`` says where predicted costs are from."""
        count, names = self.count_settled_settings(seconds), [question.name for question in self.questions]
        text = f"A start takes {format_seconds(self.costs.start_s)} and a pass {format_seconds(self.costs.pass_s)}"
        text += f" ({source}). " if source else ". "
        given = format_seconds(seconds)
        if count == len(names):
            needed = format_seconds(self.seconds_to_settle(count))
            settled = names[0] if count == 1 else f"all {count} settings ({', '.join(names)})"
            return f"{text}{given} probably settle {settled}, in about {needed}."
        needed = format_seconds(self.seconds_to_settle(len(names)))
        if not count:
            confirmed = "confirm stock against tuned, but " if self._confirmation_class else ""
            return f"{text}{given} {confirmed}probably settle no single setting; {needed} settle all."
        text += f"{given} probably settle {', '.join(names[:count])}. "
        return f"{text}{needed} settle the rest too: {', '.join(names[count:])}."

    def shortage_message(self, seconds_left: float, seconds_spent: float) -> str:
        """Return why a run cannot even confirm in its time, and the minutes that it needs; empty where it can."""
        least = self.confirmation_seconds(arms=2)
        if least <= seconds_left:
            return ""
        rounds, all_seconds = schedule.CONFIRMATION_ROUNDS, self.seconds_to_settle(len(self.questions))
        return (
            f"{NOT_ENOUGH_TIME}: a start takes {format_seconds(self.costs.start_s)} and a pass "
            f"{format_seconds(self.costs.pass_s)}, so that {rounds} rounds of stock and tuned alone, without which "
            f"nothing is confirmed, take {format_seconds(least)}. Give at least "
            f"{round_up_to_minutes(seconds_spent + least)} minutes; "
            f"{round_up_to_minutes(seconds_spent + all_seconds)} minutes probably settle all "
            f"{len(self.questions)} settings."
        )


def round_up_to_minutes(seconds: float) -> int:
    """Return seconds as whole minutes, rounded up."""
    return math.ceil(seconds / 60)


def unsettled_settings_message(names: Sequence[str], seconds: float) -> str:
    """Return that the run ended before some settings were settled; ``seconds`` is the missing time."""
    return (
        f"{NOT_ENOUGH_TIME} for {', '.join(names)}: about {round_up_to_minutes(seconds)} more minutes probably settle "
        f"{'it' if len(names) == 1 else 'them'}."
    )
