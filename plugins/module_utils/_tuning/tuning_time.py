# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the minutes of a tuning settle, and how many minutes would settle the rest: said before the first round.

The time is divided backwards: the confirmation has its share first, and the search has the rest.
"""

from __future__ import annotations

from .._bench.planning.budget import RESERVE_FACTOR, format_seconds
from .._bench.planning.time_plan import NOT_ENOUGH_TIME, round_up_to_minutes
from .._bench.rounds import schedule
from .search import MIN_ROUND_ARMS, ROUND_ARMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .._bench.planning.costs import Costs
    from .search_space import SearchSpace

#: The arms of a confirmation: the default, its twin, and the best candidate.
CONFIRMATION_ARMS = 3
#: Arms of a round of the search beside those that tell something new: the default, and the best candidate until now.
KNOWN_ARMS = 2
#: How often a value is part of a measured combination, on average, until the best combination is found.
RACE_ARMS_PER_VALUE = 3
#: The same for a single option, which has no combinations: its best values are measured again.
RACE_ARMS_OF_ONE_OPTION = 1


class TuningTime:
    """The time that a search over ``space`` needs; ``passes`` is how often an arm is sent all prompts in a start."""

    def __init__(self, space: SearchSpace, costs: Costs, passes: int = 1) -> None:
        #: Option -> the number of its values beside the default, the most promising option first.
        self._counts = {option: len(space.values[option]) - 1 for option in space.promising_options}
        self._costs = costs
        self.arm_seconds = costs.round_seconds(schedule.RESTART, 1, passes)
        self.confirmation_seconds = RESERVE_FACTOR * schedule.CONFIRMATION_ROUNDS * CONFIRMATION_ARMS * self.arm_seconds

    def least_seconds(self) -> float:
        """Return the seconds of the shortest search, and of the confirmation of what it finds."""
        return MIN_ROUND_ARMS * self.arm_seconds + self.confirmation_seconds

    def seconds_to_settle(self, options: int) -> float:
        """Return the seconds that settle the first ``options`` options, the confirmation included."""
        sweep, race = self._search_seconds(options)
        return sweep + race + self.confirmation_seconds

    def settled_options(self, seconds: float) -> list[str]:
        """Return the options that are probably settled in ``seconds``, the most promising first."""
        counts = range(len(self._counts), 0, -1)
        count = next((count for count in counts if self.seconds_to_settle(count) <= seconds), 0)
        return list(self._counts)[:count]

    def describe_settled_options(self, seconds: float, source: str = "") -> str:
        """Return sentences on what ``seconds`` settle; ``source`` says where predicted costs are from."""
        total = len(self._counts)
        sweep, race = self._search_seconds(total)
        text = (
            f"A start takes {format_seconds(self._costs.start_s)} and a pass {format_seconds(self._costs.pass_s)}"
            f"{f' ({source})' if source else ''}. {sum(self._counts.values())} values of {total} "
            f"option{'' if total == 1 else 's'}: sweep {format_seconds(sweep)}, race {format_seconds(race)}, "
            f"confirmation {format_seconds(self.confirmation_seconds)}. "
        )
        given, needed = format_seconds(seconds), format_seconds(self.seconds_to_settle(total))
        settled = self.settled_options(seconds)
        if len(settled) == total:
            return f"{text}{given} probably settle all of them, in about {needed}."
        if seconds < self.least_seconds():
            return f"{text}{given} prove nothing; {needed} would settle all of them."
        what = ", ".join(settled) or f"only a part of the values of {next(iter(self._counts))}"
        return f"{text}{given} settle {what}; {needed} would settle all of them."

    def shortage_message(self, seconds_left: float, seconds_spent: float) -> str:
        """Return why a run cannot confirm anything in its time, and the minutes that it needs; empty where it can."""
        if self.least_seconds() <= seconds_left:
            return ""
        least = round_up_to_minutes(seconds_spent + max(self.seconds_to_settle(1), self.least_seconds()))
        all_options = round_up_to_minutes(seconds_spent + self.seconds_to_settle(len(self._counts)))
        text = (
            f"{NOT_ENOUGH_TIME}: a start takes {format_seconds(self._costs.start_s)} and a pass "
            f"{format_seconds(self._costs.pass_s)}, so that the confirmation of a gain alone, "
            f"{schedule.CONFIRMATION_ROUNDS} rounds of {CONFIRMATION_ARMS} starts, takes "
            f"{format_seconds(self.confirmation_seconds)}. Give at least {least} minutes, which settle "
            f"{next(iter(self._counts))}"
        )
        return f"{text}." if len(self._counts) == 1 else f"{text}; {all_options} minutes probably settle all options."

    def untried_values_message(self, untried: Sequence[tuple[str, Any]]) -> str:
        """Return that the run ended before it had tried some values."""
        by_option: dict[str, list[str]] = {}
        for option, value in untried:
            by_option.setdefault(option, []).append(str(value))
        texts = [f"{option} {', '.join(values)}" for option, values in by_option.items()]
        needed = round_up_to_minutes(self.seconds_to_settle(len(self._counts)))
        return f"{NOT_ENOUGH_TIME} for {'; '.join(texts)}: {needed} minutes would probably settle all options."

    def _search_seconds(self, options: int) -> tuple[float, float]:
        """Return the seconds of the sweep and of the race over the first ``options`` options."""
        values = sum(list(self._counts.values())[:options])
        overhead = ROUND_ARMS / (ROUND_ARMS - KNOWN_ARMS)
        sweep = max(MIN_ROUND_ARMS, values * overhead) * self.arm_seconds
        race_arms = RACE_ARMS_PER_VALUE if len(self._counts) > 1 else RACE_ARMS_OF_ONE_OPTION
        return sweep, race_arms * values * self.arm_seconds
