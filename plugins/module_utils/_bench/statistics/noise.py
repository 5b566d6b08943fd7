# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variances of log rates: within groups of repeated values, and in tables of rounds and arms."""

from __future__ import annotations

import math

from .confidence_interval import mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Spread:
    """A sum of squared deviations and its degrees of freedom; spreads of several groups can be added up."""

    def __init__(self, squares: float = 0.0, degrees: float = 0.0) -> None:
        self.squares = squares
        self.degrees = degrees

    @property
    def variance(self) -> float | None:
        """The variance of a value; None without degrees of freedom."""
        return self.squares / self.degrees if self.degrees >= 1 else None

    @classmethod
    def sum_of_spreads(cls, spreads: Iterable[Spread]) -> Spread:
        """Return the sum of spreads."""
        listed = list(spreads)
        return cls(math.fsum(one.squares for one in listed), math.fsum(one.degrees for one in listed))


def spread_within_groups(groups: Iterable[Sequence[float]]) -> Spread:
    """Return the spread of values around the mean of their group."""
    spreads = []
    for values in groups:
        if len(values) > 1:
            centre = mean(values)
            spreads.append(Spread(math.fsum((value - centre) ** 2 for value in values), len(values) - 1))
    return Spread.sum_of_spreads(spreads)


def spread_of_table(rows: Sequence[Mapping[str, float]]) -> Spread:
    """Return the spread of values without the level of their row and of their column.

    A row maps columns to values, and may lack columns. The difference of two columns has no level of its row, and twice
    the variance of a value.
    """
    columns = sorted({column for row in rows for column in row})
    pairs = [(first, second) for at, second in enumerate(columns) for first in columns[:at]]
    differences = [
        [row[first] - row[second] for row in rows if first in row and second in row] for first, second in pairs
    ]
    spread = spread_within_groups(differences)
    # A column is in a pair with each other column, so that the pairs are not independent.
    share = 2 / max(2, len(columns))
    return Spread(spread.squares / 2 * share, spread.degrees * share)
