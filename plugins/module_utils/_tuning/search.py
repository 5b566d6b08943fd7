# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Searches the fastest combination of options by prediction, halving and a race; it knows only levels, and no server.

Each option is first tried alone, and the level of a combination is predicted as if the effects of its values added up.
The dozen best combinations, and then the neighbours of the best, are halved round by round, because some options do
depend on each other: with fewer threads shorter drafts are right. The last few race, each paired with the best. A
candidate that is proven to be worse is dropped, and of two that are proven to be about equal, the simpler one stays.

Source: Birattari et al., "F-Race and iterated F-Race"; Jamieson and Talwalkar, "Non-stochastic best arm identification"
(successive halving).
"""

from __future__ import annotations

import itertools
import math

from .._bench.rounds import schedule
from .._bench.statistics.confidence_interval import confidence_interval, mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    #: The options that differ from the default, with their values, in the order of the space; empty for the default.
    Candidate = tuple[tuple[str, Any], ...]
    #: Takes a phase and candidates, and returns the natural logarithm of the speed of each; without candidates that
    #: cannot run, and None if there is no time for another round.
    Measure = Callable[[str, Sequence[Candidate]], "dict[Candidate, float] | None"]

DEFAULT: Candidate = ()
#: Number of rounds that try each value alone, and number of combinations that are halved.
SWEEPS, MAX_COMBINATIONS = 2, 12
#: Number of candidates in the race, the largest number of its rounds, and the number of rounds before any is dropped.
RACERS, MAX_RACE_ROUNDS, MIN_RACE_ROUNDS = 3, 24, 4
#: How often the neighbours of the best candidate are tried, as long as another one becomes the best.
CLIMBS = 2
#: Candidates that are proven to differ by less than this share are about equal.
TIE_ZONE = math.log1p(0.02)
ALPHA = 0.05


class OutOfTime(Exception):
    """The time of the run is over, so that no other round may begin."""


class Search:
    """A search over ``space``: the values of each option from the smallest to the largest, with the default."""

    def __init__(self, space: Mapping[str, Sequence[Any]], default: Mapping[str, Any], measure: Measure) -> None:
        self.space = {option: list(values) for option, values in space.items()}
        self.default = dict(default)
        self._measure = measure
        #: Option and value -> the mean of the log ratios of this value alone to the default.
        self.single_gains: dict[tuple[str, Any], float] = {}
        self._best = DEFAULT
        self._rejected: set[Candidate] = set()

    def run(self) -> Candidate:
        """Return the best candidate, which may be the default; where the time ends, the best one so far."""
        try:
            self._try_single_values()
            left = self._halve_candidates(self._best_combinations())
            for dummy in range(CLIMBS):
                best = self._best
                left = self._halve_candidates(
                    [*left, *(neighbour for neighbour in self._neighbours_of_best() if neighbour not in left)]
                )
                if self._best == best:
                    break
            self._race_candidates(left)
        except OutOfTime:
            pass
        return self._best

    def predict_gain(self, candidate: Candidate) -> float:
        """Return the predicted log ratio to the default, as if the effects of the values added up."""
        return math.fsum(self.single_gains.get(pair, 0.0) for pair in candidate)

    def _measure_gains(self, phase: str, candidates: Collection[Candidate]) -> dict[Candidate, float]:
        """Measure one round; return the log ratios to the default, and drop candidates that cannot run."""
        asked = [DEFAULT, *(candidate for candidate in candidates if candidate != DEFAULT)]
        levels = self._measure(phase, asked)
        if levels is None:
            raise OutOfTime
        self._rejected |= set(asked) - set(levels)
        return {one: level - levels[DEFAULT] for one, level in levels.items()}

    def _try_single_values(self) -> None:
        singles: list[Candidate] = [
            ((option, value),)
            for option, values in self.space.items()
            for value in values
            if value != self.default[option]
        ]
        rows: list[dict[Candidate, float]] = []
        for dummy in range(SWEEPS):
            rows.append(
                self._measure_gains(
                    schedule.SWEEP, [candidate for candidate in singles if candidate not in self._rejected]
                )
            )
            for candidate in singles:
                if candidate not in self._rejected:
                    self.single_gains[candidate[0]] = mean([row[candidate] for row in rows])
            self._best = max(
                [DEFAULT, *(candidate for candidate in singles if candidate not in self._rejected)],
                key=self.predict_gain,
            )

    def _best_combinations(self) -> list[Candidate]:
        """Return the best combinations by prediction, of values that seem to gain, with the default."""
        lists = []
        for option in self.space:
            gains = [pair for pair, gain in self.single_gains.items() if pair[0] == option and gain > 0]
            lists.append([None, *sorted(gains, key=lambda pair: -self.single_gains[pair])[:MAX_COMBINATIONS]])
        found = [DEFAULT]
        for pairs in lists:
            # The best dozen of all combinations consists of the best dozens of parts, because effects add up.
            grown = [(*one, *([pair] if pair else [])) for one, pair in itertools.product(found, pairs)]
            found = sorted(grown, key=lambda one: (-self.predict_gain(one), self.complexity(one)))[:MAX_COMBINATIONS]
        return [candidate for candidate in found if candidate not in self._rejected]

    def _neighbours_of_best(self) -> list[Candidate]:
        """Return the candidates that are one step from the best in one option."""
        values = {**self.default, **dict(self._best)}
        found = []
        for option, all_values in self.space.items():
            at = all_values.index(values[option])
            for near in all_values[max(0, at - 1) : at + 2]:
                found.append(self.make_candidate({**values, option: near}))
        return [one for one in dict.fromkeys(found) if one not in self._rejected and one != self._best]

    def make_candidate(self, values: Mapping[str, Any]) -> Candidate:
        """Return these values of all options as a candidate."""
        return tuple((option, values[option]) for option in self.space if values[option] != self.default[option])

    def complexity(self, candidate: Candidate) -> tuple[int, list[int]]:
        """Return the sort key of ties: the number of changed options, then how large their values are."""
        values = {**self.default, **dict(candidate)}
        return len(candidate), [all_values.index(values[option]) for option, all_values in self.space.items()]

    def _halve_candidates(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Keep the better half by the mean of all rounds after one round, after two more, and so on."""
        live = [candidate for candidate in candidates if candidate not in self._rejected]
        rows: list[dict[Candidate, float]] = []
        for more in itertools.count(1):
            if len(live) <= RACERS:
                break
            for dummy in range(more):
                rows.append(self._measure_gains(schedule.HALVING, live))
                live = [candidate for candidate in live if candidate not in self._rejected]
            live = self._sorted_by_mean(live, rows)[: max(RACERS, (len(live) + 1) // 2)]
            self._best = live[0] if live else DEFAULT
        return live

    def _sorted_by_mean(self, live: Sequence[Candidate], rows: Sequence[Mapping[Candidate, float]]) -> list[Candidate]:
        return sorted(live, key=lambda one: (-mean([row[one] for row in rows]), self.complexity(one)))

    def _race_candidates(self, candidates: Sequence[Candidate]) -> None:
        """Race until one candidate is left; the default takes part, and wins against one that is about equal."""
        live = list(dict.fromkeys([DEFAULT, *candidates]))
        rows: list[dict[Candidate, float]] = []
        while len(live) > 1 and len(rows) < MAX_RACE_ROUNDS:
            rows.append(self._measure_gains(schedule.RACE, live))
            live = self._sorted_by_mean([candidate for candidate in live if candidate not in self._rejected], rows)
            self._best = live[0]
            if len(rows) >= MIN_RACE_ROUNDS:
                live = self._possibly_best(live, rows)
                self._best = live[0]

    def _possibly_best(self, live: Sequence[Candidate], rows: Sequence[Mapping[Candidate, float]]) -> list[Candidate]:
        """Return the candidates that may still be the best, the best one first."""
        best, *others = live
        alpha = ALPHA / max(1, len(others))
        kept = []
        for other in others:
            found = confidence_interval([row[best] - row[other] for row in rows], alpha)
            if found is None or not (found.low > 0 or (found.low >= -TIE_ZONE and found.high <= TIE_ZONE)):
                kept.append(other)
            elif found.low <= 0 and self.complexity(other) < self.complexity(best):
                best = other
        return [best, *kept]
