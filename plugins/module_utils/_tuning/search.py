# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Searches the fastest combination of options; the caller measures, and the search sees only levels of candidates.

A round has the default, the best candidate until now, and the candidates with the largest expected improvement over
it. The expected improvement is large where a high gain is estimated, and where little is known yet. So options that
often matter much come first, values near a bad value are left out, and a search that is cut off at any time has used
its time well. A value is first tried alone or on top of the best candidate, so that a value with which the server does
not start is known by itself.

The search ends when no candidate promises an improvement that is worth a start, or when the time is over.

Source: Jones, Schonlau and Welch, "Efficient global optimization of expensive black-box functions"; Ginsbourger, Le
Riche and Carraro, "Kriging is well-suited to parallelize optimization" (several candidates in one round).
"""

from __future__ import annotations

import math
import random

from .._bench.rounds import schedule
from .gain_model import DEFAULT, GainEstimates, Prospects, fit_gain_estimates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from .gain_model import Candidate, GainModel

    #: Takes a phase and candidates, and returns the log of the rate of each candidate that can run, or None if
    #: the time is over.
    Measure = Callable[[str, Sequence[Candidate]], "dict[Candidate, float] | None"]

#: The largest and the smallest number of arms of a round.
ROUND_ARMS, MIN_ROUND_ARMS = 8, 3
#: So many arms before the end of its time the search only measures again what it has measured before, because the
#: largest of many estimates is too large.
FINAL_ARMS = 32
#: The search ends where the largest expected improvement is smaller than this log ratio.
WORTH_A_ROUND = 0.0005
#: Of two candidates that are about equal the simpler one is better: each changed option has to gain this log ratio.
WORTH_A_CHANGE = 0.002
#: The number of best candidates whose neighbours are considered, of random candidates that differ from the best
#: prediction in two options, and of candidates whose expected improvement is computed.
LEADERS, RANDOM_PAIRS, CONSIDERED = 4, 60, 100


class Search:
    """A search over ``space``, which has the values of each option from the smallest to the largest.

    ``model`` has the assumptions on gains. ``is_possible`` returns whether a candidate can be planned, and
    ``count_affordable_arms`` how many more arms the time allows.
    """

    def __init__(
        self,
        space: Mapping[str, Sequence[Any]],
        default: Mapping[str, Any],
        model: GainModel,
        measure: Measure,
        is_possible: Callable[[Candidate], bool],
        count_affordable_arms: Callable[[], float],
        seed: int = 0,
    ) -> None:
        self.space = {option: list(values) for option, values in space.items()}
        self.default = dict(default)
        self._model = model
        self._measure = measure
        self._is_possible = is_possible
        self._count_affordable_arms = count_affordable_arms
        self._random = random.Random(seed)
        self._rounds: list[dict[Candidate, float]] = []
        self._rejected: set[Candidate] = set()
        #: Options with values that are in a candidate which ran.
        self._tried: set[tuple[str, Any]] = set()
        self.estimates = GainEstimates(model, [])

    def measure_until_best_is_found(self) -> Candidate:
        """Return the best candidate, which may be the default; if the time ends, the best candidate so far."""
        while (affordable := int(self._count_affordable_arms())) >= MIN_ROUND_ARMS:
            is_final = affordable <= FINAL_ARMS and not self.untried_values()
            candidates = self._pick_candidates(min(ROUND_ARMS, affordable) - 1, is_final)
            if not candidates:
                break
            untried = any(pair not in self._tried for candidate in candidates for pair in candidate)
            levels = self._measure(schedule.SWEEP if untried else schedule.RACE, [DEFAULT, *candidates])
            if levels is None:
                break
            self._record_round(candidates, levels)
        return self.surest_candidate()

    def best_candidate(self) -> Candidate:
        """Return the measured candidate with the largest estimated gain, less the worth of its changes."""
        return max(self._measured_candidates(), key=self._gain_less_penalty)

    def surest_candidate(self) -> Candidate:
        """Return the measured candidate whose estimated gain is the largest, less its standard deviation.

        A candidate that was measured seldom may have the largest estimate by chance.
        """
        leaders = self._best_measured_candidates_and_default(CONSIDERED)
        variances = Prospects(self._model, self.estimates, leaders).variances
        worths = [self._gain_less_penalty(leader) - math.sqrt(max(0.0, v)) for leader, v in zip(leaders, variances)]
        return leaders[worths.index(max(worths))]

    def untried_values(self) -> list[tuple[str, Any]]:
        """Return the values of which nothing is known: they were in no candidate that ran, and not rejected alone."""
        return [
            (option, value)
            for option, values in self.space.items()
            for value in values
            if value != self.default[option]
            and (option, value) not in self._tried
            and ((option, value),) not in self._rejected
        ]

    def make_candidate(self, values: Mapping[str, Any]) -> Candidate:
        """Return the candidate with these values of all options."""
        return tuple((option, values[option]) for option in self.space if values[option] != self.default[option])

    def _gain_less_penalty(self, candidate: Candidate) -> float:
        return self.estimates.mean_gain(candidate) - WORTH_A_CHANGE * len(candidate)

    def _measured_candidates(self) -> list[Candidate]:
        return list(dict.fromkeys([DEFAULT, *(candidate for levels in self._rounds for candidate in levels)]))

    def _record_round(self, candidates: Iterable[Candidate], levels: Mapping[Candidate, float]) -> None:
        self._rejected |= set(candidates) - set(levels)
        self._tried |= {pair for candidate in levels for pair in candidate}
        if len(levels) > 1:
            self._rounds.append(dict(levels))
            self.estimates = fit_gain_estimates(self._model, self._rounds)

    def _pick_candidates(self, count: int, is_final: bool) -> list[Candidate]:
        """Return the candidates of the next round beside the default; none where no candidate promises enough.

        A final round has only candidates that were measured before.
        """
        pool = self._best_measured_candidates_and_default(CONSIDERED) if is_final else self._list_promising_candidates()
        prospects = Prospects(self._model, self.estimates, pool)
        worths = [self._gain_less_penalty(candidate) for candidate in pool]
        leader = pool.index(self.best_candidate())
        picked: list[int] = []
        if pool[leader] != DEFAULT:
            picked.append(leader)
            prospects.reduce_variances_as_by_measurement(leader)
        known = {leader, pool.index(DEFAULT)}
        while len(picked) < count and len(known) < len(pool):
            shared = prospects.covariances(leader)
            improvements = {
                at: _expected_improvement(
                    worths[at] - worths[leader], prospects.variances[at] + shared[leader] - 2 * shared[at]
                )
                for at in range(len(pool))
                if at not in known
            }
            at = max(improvements, key=improvements.__getitem__)
            if set(picked) <= {leader} and improvements[at] < WORTH_A_ROUND:
                return []
            known.add(at)
            if self._is_possible(pool[at]):
                picked.append(at)
                prospects.reduce_variances_as_by_measurement(at)
            else:
                self._rejected.add(pool[at])
        return [] if set(picked) <= {leader} else [pool[at] for at in picked]

    def _list_promising_candidates(self) -> list[Candidate]:
        """Return the default, the best candidate, and others that may be better, of those that may be tried."""
        leaders = self._best_measured_candidates_and_default(LEADERS)
        predicted = self._climb_predicted_gains(leaders[0])
        nearby = [neighbour for leader in [*leaders, predicted] for neighbour in self._neighbours(leader)]
        nearby += [self._draw_neighbour(self._draw_neighbour(predicted)) for dummy in range(RANDOM_PAIRS)]
        fixed = list(dict.fromkeys([DEFAULT, *leaders, predicted]))
        others = [
            candidate
            for candidate in dict.fromkeys(nearby)
            if candidate not in fixed and self._has_few_enough_untried_values(candidate)
        ]
        return [*fixed, *sorted(others, key=self._optimistic_gain, reverse=True)[: CONSIDERED - len(fixed)]]

    def _best_measured_candidates_and_default(self, count: int) -> list[Candidate]:
        """Return the default and the measured candidates of the largest worth, the best first."""
        ranked = sorted(self._measured_candidates(), key=self._gain_less_penalty, reverse=True)[:count]
        return ranked if DEFAULT in ranked else [*ranked, DEFAULT]

    def _optimistic_gain(self, candidate: Candidate) -> float:
        place = self._model.indices_of_values(candidate)
        return self._gain_less_penalty(candidate) + math.sqrt(self._model.covariance(place, place)) / 2

    def _climb_predicted_gains(self, candidate: Candidate) -> Candidate:
        """Return the candidate of tried values that no change of one option is predicted to improve."""
        while True:
            neighbours = [
                near
                for near in self._neighbours(candidate)
                if near not in self._rejected and all(pair in self._tried for pair in near)
            ]
            best = max(neighbours, key=self._gain_less_penalty, default=candidate)
            if self._gain_less_penalty(best) <= self._gain_less_penalty(candidate):
                return candidate
            candidate = best

    def _neighbours(self, candidate: Candidate) -> list[Candidate]:
        """Return the candidates that differ from one candidate in one option."""
        values = {**self.default, **dict(candidate)}
        return [
            self.make_candidate({**values, option: value})
            for option, all_values in self.space.items()
            for value in all_values
            if value != values[option]
        ]

    def _draw_neighbour(self, candidate: Candidate) -> Candidate:
        """Return a random candidate that differs from one candidate in at most one option."""
        option = self._random.choice(list(self.space))
        return self.make_candidate({**self.default, **dict(candidate), option: self._random.choice(self.space[option])})

    def _has_few_enough_untried_values(self, candidate: Candidate) -> bool:
        """Return whether a candidate has at most one untried value; one that was rejected before is tried alone."""
        if candidate in self._rejected:
            return False
        untried = [pair for pair in candidate if pair not in self._tried]
        suspect = any(pair in rejected for pair in untried for rejected in self._rejected)
        return len(untried) <= (len(candidate) == 1 if suspect else 1)


def _expected_improvement(difference: float, variance: float) -> float:
    """Return the mean of the positive part of a normally distributed difference."""
    deviation = math.sqrt(max(variance, 1e-18))
    ratio = difference / deviation
    density = math.exp(-ratio * ratio / 2) / math.sqrt(2 * math.pi)
    return difference * math.erfc(-ratio / math.sqrt(2)) / 2 + deviation * density
