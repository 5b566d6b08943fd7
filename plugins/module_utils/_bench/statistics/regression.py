# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Least squares for a screening: the effect of each setting from samples of arms that lack several settings each.

The model of a value is the level of its block plus the effects of the settings that are present. A block is a round, so
a drift of the machine from round to round is in the levels and not in the effects.
"""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Rows = list[list[float]]

#: A pivot below this share of the number of rows means that the rows cannot tell some effects apart.
SINGULAR_SHARE = 1e-6


class EffectEstimate:
    """Estimated effects, their standard errors, and the standard deviation of a value with its degrees of freedom."""

    def __init__(self, effects: list[float], errors: list[float], residual_sd: float, degrees: int) -> None:
        self.effects = effects
        self.errors = errors
        self.residual_sd = residual_sd
        self.degrees = degrees


def estimate_effects(
    rows: Sequence[Sequence[float]], values: Sequence[float], blocks: Sequence[int]
) -> EffectEstimate | None:
    """Return the effects of all columns on ``values``; None where the rows are too few or cannot tell effects apart.

    ``rows`` has 1 where a setting is present and 0 where it is left out. ``blocks`` has the block of each row.
    """
    count = len(rows[0]) if rows else 0
    degrees = len(rows) - len(set(blocks)) - count
    if not count or degrees < 1:
        return None
    columns = [_subtract_block_means([row[at] for row in rows], blocks) for at in range(count)]
    centred = _subtract_block_means(values, blocks)
    products = [[_dot_product(one, other) for other in columns] for one in columns]
    inverse = _invert_matrix(products, SINGULAR_SHARE * len(rows))
    if inverse is None:
        return None
    sums = [_dot_product(column, centred) for column in columns]
    effects = [_dot_product(row, sums) for row in inverse]
    residuals = [
        value - math.fsum(effect * column[at] for effect, column in zip(effects, columns))
        for at, value in enumerate(centred)
    ]
    variance = _dot_product(residuals, residuals) / degrees
    errors = [math.sqrt(max(0.0, variance * inverse[at][at])) for at in range(count)]
    return EffectEstimate(effects, errors, math.sqrt(variance), degrees)


def _subtract_block_means(values: Sequence[float], blocks: Sequence[int]) -> list[float]:
    of_block: dict[int, list[float]] = {}
    for value, block in zip(values, blocks):
        of_block.setdefault(block, []).append(value)
    means = {block: math.fsum(members) / len(members) for block, members in of_block.items()}
    return [value - means[block] for value, block in zip(values, blocks)]


def _dot_product(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other))


def _invert_matrix(matrix: Rows, least_pivot: float) -> Rows | None:
    """Return the inverse by Gauss and Jordan; None where a pivot is below ``least_pivot``."""
    size = len(matrix)
    rows = [[*row, *(float(at == place) for at in range(size))] for place, row in enumerate(matrix)]
    for at in range(size):
        best = max(range(at, size), key=lambda place: abs(rows[place][at]))
        if abs(rows[best][at]) < least_pivot:
            return None
        rows[at], rows[best] = rows[best], rows[at]
        pivot = rows[at][at]
        rows[at] = [value / pivot for value in rows[at]]
        for place in range(size):
            factor = rows[place][at]
            if place != at and factor:
                rows[place] = [value - factor * above for value, above in zip(rows[place], rows[at])]
    return [row[size:] for row in rows]
