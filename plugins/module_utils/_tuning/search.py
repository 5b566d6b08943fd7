# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Searches the fastest combination of options; the caller measures, and the search sees only levels of candidates.

- Sweep: each value is tried alone. The gain of a combination is predicted as the sum of the gains of its values.
- Halving: of the dozen combinations with the best predictions, the slower half is dropped again and again. Then the
  same is done with the neighbours of the best candidate, because some options depend on each other: with fewer threads
  shorter drafts are better.
- Race: the last few candidates are compared with the best one. A candidate that is proven to be slower is dropped. Of
  two candidates that are proven to be about equal, the simpler one stays.

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
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    #: A combination: options that differ from the default with their values, in the order of the space.
    Candidate = tuple[tuple[str, Any], ...]
    #: Takes a phase and candidates, and returns the log of the rate of each candidate that can run, or None if
    #: the time is over.
    Measure = Callable[[str, Sequence[Candidate]], "dict[Candidate, float] | None"]

DEFAULT: Candidate = ()
#: The number of rounds of the sweep, and the number of combinations at the begin of the halving.
SWEEPS, MAX_COMBINATIONS = 2, 12
#: The number of candidates in the race, the largest number of its rounds, and the rounds before a candidate is dropped.
RACERS, MAX_RACE_ROUNDS, MIN_RACE_ROUNDS = 3, 24, 4
#: How often the neighbours of the best candidate are tried, as long as a neighbour becomes the best.
CLIMBS = 2
#: Candidates are about equal where they are proven to differ by less than this log ratio.
TIE_ZONE = math.log1p(0.02)
ALPHA = 0.05


class OutOfTime(Exception):
    """The time of the run is over, so that no other round may begin."""


class Search:
    """A search over ``space``, which has the values of each option from the smallest to the largest."""

    def __init__(self, space: Mapping[str, Sequence[Any]], default: Mapping[str, Any], measure: Measure) -> None:
        self.space = {option: list(values) for option, values in space.items()}
        self.default = dict(default)
        self._measure = measure
        #: Option and value -> the mean gain (log ratio to the default) of this value alone.
        self.single_gains: dict[tuple[str, Any], float] = {}
        self._best = DEFAULT
        self._rejected: set[Candidate] = set()

    def measure_until_best_is_found(self) -> Candidate:
        """Return the best candidate, which may be the default; if the time ends, the best candidate so far."""
        try:
            self._measure_each_value_alone()
            left = self._halve_until_few_candidates(self._best_predicted_combinations())
            for dummy in range(CLIMBS):
                best = self._best
                left = self._halve_until_few_candidates(
                    [*left, *(neighbour for neighbour in self._neighbours_of_best_candidate() if neighbour not in left)]
                )
                if self._best == best:
                    break
            self._race_until_best_candidate(left)
        except OutOfTime:
            pass
        return self._best

    def predict_gain(self, candidate: Candidate) -> float:
        """Return the predicted gain (log ratio to the default): the sum of the gains of all values."""
        return math.fsum(self.single_gains.get(pair, 0.0) for pair in candidate)

    def _measure_gains(self, phase: str, candidates: Collection[Candidate]) -> dict[Candidate, float]:
        """Measure one round; return the gains over the default, and reject candidates that cannot run."""
        with_default = [DEFAULT, *(candidate for candidate in candidates if candidate != DEFAULT)]
        levels = self._measure(phase, with_default)
        if levels is None:
            raise OutOfTime
        self._rejected |= set(with_default) - set(levels)
        return {candidate: level - levels[DEFAULT] for candidate, level in levels.items()}

    def _measure_each_value_alone(self) -> None:
        singles: list[Candidate] = [
            ((option, value),)
            for option, values in self.space.items()
            for value in values
            if value != self.default[option]
        ]
        rows: list[dict[Candidate, float]] = []
        for dummy in range(SWEEPS):
            rows.append(self._measure_gains(schedule.SWEEP, singles))
            singles = self._leave_out_rejected(singles)
            for candidate in singles:
                self.single_gains[candidate[0]] = mean([row[candidate] for row in rows])
            self._best = max([DEFAULT, *singles], key=self.predict_gain)

    def _leave_out_rejected(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        return [candidate for candidate in candidates if candidate not in self._rejected]

    def _best_predicted_combinations(self) -> list[Candidate]:
        """Return the combinations with the best predictions, only of values with a gain; the default is one of them."""
        lists = []
        for option in self.space:
            gains = [pair for pair, gain in self.single_gains.items() if pair[0] == option and gain > 0]
            lists.append([None, *sorted(gains, key=lambda pair: -self.single_gains[pair])[:MAX_COMBINATIONS]])
        best = [DEFAULT]
        for pairs in lists:
            # Predicted gains add up, so a combination that is not among the best cannot become one by another option.
            extended = [(*candidate, *([pair] if pair else [])) for candidate, pair in itertools.product(best, pairs)]
            best = sorted(
                extended, key=lambda candidate: (-self.predict_gain(candidate), self.candidate_complexity(candidate))
            )
            best = best[:MAX_COMBINATIONS]
        return self._leave_out_rejected(best)

    def _neighbours_of_best_candidate(self) -> list[Candidate]:
        """Return the candidates that differ from the best in one option by one step."""
        values = {**self.default, **dict(self._best)}
        neighbours = []
        for option, all_values in self.space.items():
            at = all_values.index(values[option])
            for near in all_values[max(0, at - 1) : at + 2]:
                neighbours.append(self.make_candidate({**values, option: near}))
        return [
            candidate for candidate in self._leave_out_rejected(dict.fromkeys(neighbours)) if candidate != self._best
        ]

    def make_candidate(self, values: Mapping[str, Any]) -> Candidate:
        """Return the candidate with these values of all options."""
        return tuple((option, values[option]) for option in self.space if values[option] != self.default[option])

    def candidate_complexity(self, candidate: Candidate) -> tuple[int, list[int]]:
        """Return the complexity by which ties are sorted: the number of changed options, then the places of values."""
        values = {**self.default, **dict(candidate)}
        return len(candidate), [all_values.index(values[option]) for option, all_values in self.space.items()]

    def _halve_until_few_candidates(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the last few candidates; half of them are dropped after one round, after two more, and so on."""
        live = self._leave_out_rejected(candidates)
        rows: list[dict[Candidate, float]] = []
        for more in itertools.count(1):
            if len(live) <= RACERS:
                break
            for dummy in range(more):
                rows.append(self._measure_gains(schedule.HALVING, live))
                live = self._leave_out_rejected(live)
            live = self._sort_by_mean_gain(live, rows)[: max(RACERS, (len(live) + 1) // 2)]
            self._best = live[0] if live else DEFAULT
        return live

    def _sort_by_mean_gain(
        self, live: Sequence[Candidate], rows: Sequence[Mapping[Candidate, float]]
    ) -> list[Candidate]:
        return sorted(
            live, key=lambda candidate: (-mean([row[candidate] for row in rows]), self.candidate_complexity(candidate))
        )

    def _race_until_best_candidate(self, candidates: Sequence[Candidate]) -> None:
        """Measure candidates and the default until one candidate is left, the best one."""
        live = list(dict.fromkeys([DEFAULT, *candidates]))
        rows: list[dict[Candidate, float]] = []
        while len(live) > 1 and len(rows) < MAX_RACE_ROUNDS:
            rows.append(self._measure_gains(schedule.RACE, live))
            live = self._sort_by_mean_gain(self._leave_out_rejected(live), rows)
            if len(rows) >= MIN_RACE_ROUNDS:
                live = self._candidates_possibly_best(live, rows)
            self._best = live[0]

    def _candidates_possibly_best(
        self, live: Sequence[Candidate], rows: Sequence[Mapping[Candidate, float]]
    ) -> list[Candidate]:
        """Return the candidates that may still be the best, the present best one first."""
        best, *others = live
        alpha = ALPHA / max(1, len(others))
        undecided = []
        for other in others:
            lead = confidence_interval([row[best] - row[other] for row in rows], alpha)
            if lead is None or not (lead.low > 0 or (lead.low >= -TIE_ZONE and lead.high <= TIE_ZONE)):
                undecided.append(other)
            elif lead.low <= 0 and self.candidate_complexity(other) < self.candidate_complexity(best):
                best = other
        return [best, *undecided]
