# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which combination of options is the fastest: predicted, halved, raced. It knows no server, only levels.

Each option is first tried alone, and the level of a combination is predicted as if what they do only added up. The best
dozen of these and then the neighbours of the best are halved, round by round, because some options do depend on each
other: with fewer threads shorter drafts are right. The last few race, each paired with the best. What is proven to be
worse goes, and of two that are proven to be about the same, the simpler one stays.

Source: Birattari et al., "F-Race and iterated F-Race"; Jamieson and Talwalkar, "Non-stochastic best arm identification"
(successive halving).
"""

from __future__ import annotations

import itertools
import math

from .._bench.rounds import schedule
from .._bench.statistics.confidence_interval import interval, mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    #: Options that differ from the default, with their values, in the order of the space. The default has none.
    Candidate = tuple[tuple[str, Any], ...]
    #: A phase and candidates in, the natural logarithm of the speed of each out; a candidate that cannot be is not in
    #: it, and None says that there is no time for another round.
    Measure = Callable[[str, Sequence[Candidate]], "dict[Candidate, float] | None"]

DEFAULT: Candidate = ()
#: Rounds in which each value is tried alone, and combinations that are halved.
SWEEPS, DOZEN = 2, 12
#: So many race, for so many rounds at most; no two are told apart before this many.
RACERS, RACE, LEAST = 3, 24, 4
#: How often neighbours of the best are tried, while that makes another one the best.
CLIMBS = 2
#: What is proven to differ by less than this share is about the same.
TIE = math.log1p(0.02)
ALPHA = 0.05


class OutOfTime(Exception):
    """No other round may begin."""


class Search:
    """A search over ``space``: each option with its values from the least to the most, the default's among them."""

    def __init__(self, space: Mapping[str, Sequence[Any]], default: Mapping[str, Any], measure: Measure) -> None:
        self.space = {option: list(values) for option, values in space.items()}
        self.default = dict(default)
        self._measure = measure
        #: What a single value does: the mean of its log ratios to the default.
        self.alone: dict[tuple[str, Any], float] = {}
        self._best = DEFAULT
        self._gone: set[Candidate] = set()

    def run(self) -> Candidate:
        """Return the best candidate, which may be the default; where the time ends, the best until then."""
        try:
            self._sweep()
            left = self._halve(self._dozen())
            for dummy in range(CLIMBS):
                best = self._best
                left = self._halve([*left, *(one for one in self._neighbours() if one not in left)])
                if self._best == best:
                    break
            self._race(left)
        except OutOfTime:
            pass
        return self._best

    def predicted(self, candidate: Candidate) -> float:
        """Return the log ratio to the default, as if what each value does only added up."""
        return math.fsum(self.alone.get(pair, 0.0) for pair in candidate)

    def _round(self, phase: str, candidates: Collection[Candidate]) -> dict[Candidate, float]:
        """Return the log ratios to the default in one round; candidates that cannot be are gone for good."""
        asked = [DEFAULT, *(one for one in candidates if one != DEFAULT)]
        levels = self._measure(phase, asked)
        if levels is None:
            raise OutOfTime
        self._gone |= set(asked) - set(levels)
        return {one: level - levels[DEFAULT] for one, level in levels.items()}

    def _sweep(self) -> None:
        singles: list[Candidate] = [
            ((option, value),)
            for option, values in self.space.items()
            for value in values
            if value != self.default[option]
        ]
        rows: list[dict[Candidate, float]] = []
        for dummy in range(SWEEPS):
            rows.append(self._round(schedule.SWEEP, [one for one in singles if one not in self._gone]))
            for one in singles:
                if one not in self._gone:
                    self.alone[one[0]] = mean([row[one] for row in rows])
            self._best = max([DEFAULT, *(one for one in singles if one not in self._gone)], key=self.predicted)

    def _dozen(self) -> list[Candidate]:
        """Return the best combinations by prediction, of values that seem to gain something, and the default."""
        lists = []
        for option in self.space:
            gains = [pair for pair, gain in self.alone.items() if pair[0] == option and gain > 0]
            lists.append([None, *sorted(gains, key=lambda pair: -self.alone[pair])[:DOZEN]])
        found = [DEFAULT]
        for pairs in lists:
            # The best dozen of all is made of the best dozens of parts, because what they do adds up.
            grown = [(*one, *([pair] if pair else [])) for one, pair in itertools.product(found, pairs)]
            found = sorted(grown, key=lambda one: (-self.predicted(one), self.size(one)))[:DOZEN]
        return [one for one in found if one not in self._gone]

    def _neighbours(self) -> list[Candidate]:
        """Return what is one step from the best in one option."""
        values = {**self.default, **dict(self._best)}
        found = []
        for option, all_values in self.space.items():
            at = all_values.index(values[option])
            for near in all_values[max(0, at - 1) : at + 2]:
                found.append(self.candidate({**values, option: near}))
        return [one for one in dict.fromkeys(found) if one not in self._gone and one != self._best]

    def candidate(self, values: Mapping[str, Any]) -> Candidate:
        """Return these values as a candidate."""
        return tuple((option, values[option]) for option in self.space if values[option] != self.default[option])

    def size(self, candidate: Candidate) -> tuple[int, list[int]]:
        """Return what decides on ties, the smaller the simpler: how much is changed, then how large the values are."""
        values = {**self.default, **dict(candidate)}
        return len(candidate), [all_values.index(values[option]) for option, all_values in self.space.items()]

    def _halve(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Keep the better half after one round, again after two more and so on, by the means of all of them."""
        live = [one for one in candidates if one not in self._gone]
        rows: list[dict[Candidate, float]] = []
        for more in itertools.count(1):
            if len(live) <= RACERS:
                break
            for dummy in range(more):
                rows.append(self._round(schedule.HALVING, live))
                live = [one for one in live if one not in self._gone]
            live = self._by_mean(live, rows)[: max(RACERS, (len(live) + 1) // 2)]
            self._best = live[0] if live else DEFAULT
        return live

    def _by_mean(self, live: Sequence[Candidate], rows: Sequence[Mapping[Candidate, float]]) -> list[Candidate]:
        return sorted(live, key=lambda one: (-mean([row[one] for row in rows]), self.size(one)))

    def _race(self, candidates: Sequence[Candidate]) -> None:
        """Race until one is left; the default is always there, and what is about as fast as it gives way to it."""
        live = list(dict.fromkeys([DEFAULT, *candidates]))
        rows: list[dict[Candidate, float]] = []
        while len(live) > 1 and len(rows) < RACE:
            rows.append(self._round(schedule.RACE, live))
            live = self._by_mean([one for one in live if one not in self._gone], rows)
            self._best = live[0]
            if len(rows) >= LEAST:
                live = self._undecided(live, rows)
                self._best = live[0]

    def _undecided(self, live: Sequence[Candidate], rows: Sequence[Mapping[Candidate, float]]) -> list[Candidate]:
        """Return those that may still be the best, the best first."""
        best, *others = live
        alpha = ALPHA / max(1, len(others))
        kept = []
        for one in others:
            found = interval([row[best] - row[one] for row in rows], alpha)
            if found is None or not (found.low > 0 or (found.low >= -TIE and found.high <= TIE)):
                kept.append(one)
            elif found.low <= 0 and self.size(one) < self.size(best):
                best = one
        return [best, *kept]
