# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Estimates the gains of all candidates from all rounds of a search together, and how sure each estimate is.

A gain is the log ratio of the rates of a candidate and of the default. The model is a Gaussian process: the gain of a
candidate is the sum of the gains of its changed values, and of a smaller joint effect of each pair of changed values.
Neighbouring numbers of an option have similar gains. So one measurement of a candidate with six changed values improves
the estimates of all six, where a measurement of each value alone improves one. All arms of a round share a level, which
is unknown, so that a drift of the machine is not taken for a gain.

Source: Rasmussen and Williams, "Gaussian Processes for Machine Learning", chapter 2; Duvenaud, Nickisch and Rasmussen,
"Additive Gaussian processes".
"""

from __future__ import annotations

import functools
import math
from operator import mul

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    #: A combination: options that differ from the default with their values, in the order of the space.
    Candidate = tuple[tuple[str, Any], ...]
    #: The index of the value of each option.
    Place = tuple[int, ...]

DEFAULT: Candidate = ()
#: The correlation of the effects of two numbers falls to 1/e over this many values of the option.
CORRELATION_LENGTH = 2.0
#: Standard deviations of the joint effect of two values, and of the level of a round.
PAIR_SD, ROUND_SD = 0.02, 0.3
#: The factors of all variances that are tried: effects may be smaller or larger than assumed.
VARIANCE_FACTORS = (1.0, 0.5, 0.25, 2.0)
#: A larger loss counts as this log ratio, with this standard deviation: how bad a bad candidate is says little about
#: the gain of each of its values in another candidate.
LARGEST_LOSS, LARGEST_LOSS_SD = 0.12, 0.05
#: The number of covariances that are kept for the next estimates.
MAX_KEPT_COVARIANCES = 2**18
#: Weight of the assumed noise against the measured noise, in values.
NOISE_WEIGHT = 8


class GainModel:
    """The assumptions on gains in a search space; ``scales`` has the standard deviation of a value's effect by option.

    ``space`` has the values of each option, and ``noise`` is the assumed standard deviation of one measurement.
    """

    def __init__(
        self,
        space: Mapping[str, Sequence[Any]],
        default: Mapping[str, Any],
        scales: Mapping[str, float],
        noise: float,
    ) -> None:
        self.noise = noise
        self._places = {option: {value: at for at, value in enumerate(values)} for option, values in space.items()}
        self._default = dict(default)
        self._variances = [scales[option] ** 2 for option in space]
        self._tables = [_covariances_of_values(values, default[option]) for option, values in space.items()]
        #: The covariance of the gains of two places before any measurement; the gain of the default is 0.
        self.covariance = functools.lru_cache(maxsize=MAX_KEPT_COVARIANCES)(self._compute_covariance)

    def indices_of_values(self, candidate: Candidate) -> Place:
        """Return the index of the value of each option."""
        values = {**self._default, **dict(candidate)}
        return tuple(places[values[option]] for option, places in self._places.items())

    def _compute_covariance(self, one: Place, other: Place) -> float:
        alone = total = squares = 0.0
        for variance, table, row, column in zip(self._variances, self._tables, one, other):
            shared = table[row][column]
            alone += variance * shared
            total += shared
            squares += shared * shared
        return alone + PAIR_SD**2 * (total * total - squares) / 2


class GainEstimates:
    """The estimates of all gains after some rounds; each round has the log rate of each of its candidates.

    All variances of the model are multiplied by ``variance_factor``. ``log_likelihood`` says how well the measurements
    fit to the model, up to a constant.
    """

    def __init__(
        self, model: GainModel, rounds: Sequence[Mapping[Candidate, float]], variance_factor: float = 1.0
    ) -> None:
        self._model = model
        self._variance_factor = variance_factor
        self.noise = estimate_noise(rounds, model.noise)
        #: The measurements in their order: place and number of the round.
        self._measured: list[tuple[Place, int]] = []
        #: The Cholesky factor of the covariance matrix of all measurements, by rows.
        self._factor: list[list[float]] = []
        self._whitened: list[float] = []
        #: Measured place -> its index among the measured places.
        self._indices: dict[Place, int] = {}
        self._mean_gains: dict[Candidate, float] = {}
        for number, levels in enumerate(rounds):
            for candidate, level in levels.items():
                self._add_measurement(model.indices_of_values(candidate), number, level - levels[DEFAULT])
        self._weights = dict.fromkeys(self._indices, 0.0)
        for (place, dummy), weight in zip(self._measured, self._solve_transposed(self._whitened)):
            self._weights[place] += weight
        self.log_likelihood = -math.fsum(
            math.log(row[-1]) + value * value / 2 for row, value in zip(self._factor, self._whitened)
        )

    def prior_covariance(self, one: Place, other: Place) -> float:
        """Return the covariance of the gains of two places before any measurement."""
        return self._variance_factor * self._model.covariance(one, other)

    def mean_gain(self, candidate: Candidate) -> float:
        """Return the estimated gain of a candidate."""
        if candidate not in self._mean_gains:
            place, covariance = self._model.indices_of_values(candidate), self.prior_covariance
            self._mean_gains[candidate] = math.fsum(
                weight * covariance(place, measured) for measured, weight in self._weights.items()
            )
        return self._mean_gains[candidate]

    def whitened_covariances(self, place: Place) -> list[float]:
        """Return the covariances of a gain with all measurements, relative to the factor of the measurements."""
        return self._solve(self._covariance_with_measurements(place))

    def _add_measurement(self, place: Place, number: int, gain: float) -> None:
        row = self._solve(
            [
                covariance + (ROUND_SD**2 if number == of_round else 0.0)
                for covariance, (dummy, of_round) in zip(self._covariance_with_measurements(place), self._measured)
            ]
        )
        noise = self.noise
        if gain < -LARGEST_LOSS:
            gain, noise = -LARGEST_LOSS, LARGEST_LOSS_SD
        variance = self.prior_covariance(place, place) + ROUND_SD**2 + noise**2
        diagonal = math.sqrt(variance - sum(map(mul, row, row)))
        self._whitened.append((gain - sum(map(mul, row, self._whitened))) / diagonal)
        self._factor.append([*row, diagonal])
        self._measured.append((place, number))
        self._indices.setdefault(place, len(self._indices))

    def _covariance_with_measurements(self, place: Place) -> list[float]:
        covariances = [self.prior_covariance(place, measured) for measured in self._indices]
        return [covariances[self._indices[measured]] for measured, dummy in self._measured]

    def _solve(self, right: Iterable[float]) -> list[float]:
        """Return the solution of factor * x = right."""
        solution: list[float] = []
        for row, value in zip(self._factor, right):
            solution.append((value - sum(map(mul, row, solution))) / row[-1])
        return solution

    def _solve_transposed(self, right: Sequence[float]) -> list[float]:
        """Return the solution of transposed factor * x = right."""
        solution = list(right)
        for at in reversed(range(len(solution))):
            solution[at] /= self._factor[at][at]
            for before, entry in enumerate(self._factor[at][:-1]):
                solution[before] -= entry * solution[at]
        return solution


class Prospects:
    """How sure the estimated gains of some candidates are, and how much surer planned measurements make them.

    ``variances`` has the variance of the estimate of each candidate after the planned measurements.
    """

    def __init__(self, model: GainModel, estimates: GainEstimates, candidates: Sequence[Candidate]) -> None:
        self._estimates = estimates
        self._places = [model.indices_of_values(candidate) for candidate in candidates]
        self._whitened = [estimates.whitened_covariances(place) for place in self._places]
        self._planned: list[list[float]] = []
        self.variances = [self._remaining_covariance(at, at) for at in range(len(candidates))]

    def covariances(self, at: int) -> list[float]:
        """Return the covariances of the estimate of one candidate with those of all candidates."""
        row = [self._remaining_covariance(at, other) for other in range(len(self._places))]
        for planned in self._planned:
            factor = planned[at]
            row = [value - factor * other for value, other in zip(row, planned)]
        return row

    def reduce_variances_as_by_measurement(self, at: int) -> None:
        """Make the estimates as sure as one more measurement of a candidate would; its result is not needed."""
        row = self.covariances(at)
        scale = 1 / math.sqrt(max(0.0, row[at]) + self._estimates.noise**2)
        planned = [scale * value for value in row]
        self._planned.append(planned)
        self.variances = [variance - value * value for variance, value in zip(self.variances, planned)]

    def _remaining_covariance(self, one: int, other: int) -> float:
        known: float = sum(map(mul, self._whitened[one], self._whitened[other]))
        return self._estimates.prior_covariance(self._places[one], self._places[other]) - known


def fit_gain_estimates(model: GainModel, rounds: Sequence[Mapping[Candidate, float]]) -> GainEstimates:
    """Return the estimates after some rounds, with the size of effects to which the measurements fit best."""
    fits = [GainEstimates(model, rounds, factor) for factor in VARIANCE_FACTORS]
    return max(fits, key=lambda estimates: estimates.log_likelihood)


def estimate_noise(rounds: Sequence[Mapping[Candidate, float]], assumed: float) -> float:
    """Return the standard deviation of one measurement, from candidates that were measured in several rounds."""
    gains: dict[Candidate, list[float]] = {}
    for levels in rounds:
        for candidate, level in levels.items():
            if candidate != DEFAULT:
                gains.setdefault(candidate, []).append(level - levels[DEFAULT])
    squares = freedom = 0.0
    for values in gains.values():
        centre = math.fsum(values) / len(values)
        squares += math.fsum((value - centre) ** 2 for value in values)
        freedom += len(values) - 1
    # A gain has the noise of two measurements.
    return math.sqrt((squares / 2 + NOISE_WEIGHT * assumed**2) / (freedom + NOISE_WEIGHT))


def _covariances_of_values(values: Sequence[Any], default: Any) -> list[list[float]]:
    """Return the covariances of the effects of the values of an option, relative to the effect of the default."""
    ordered = all(isinstance(value, (int, float)) for value in values)
    places = range(len(values))
    base = list(values).index(default)

    def correlation(one: int, other: int) -> float:
        if one == other:
            return 1.0
        return math.exp(-abs(one - other) / CORRELATION_LENGTH) if ordered else 0.0

    return [
        [correlation(one, other) - correlation(one, base) - correlation(base, other) + 1.0 for other in places]
        for one in places
    ]
