# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Quantiles of Student's t distribution.

Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
"""

from __future__ import annotations

import math

#: Halvings of the angle whose tangent is the quantile; a float has no more digits.
HALVINGS = 60


def student_quantile(probability: float, degrees: int) -> float:
    """Return the quantile of Student's t distribution for a probability above one half; ``degrees`` is at least 1."""
    low, high = 0.0, math.pi / 2
    for dummy in range(HALVINGS):
        middle = (low + high) / 2
        if (1 + _central_probability(middle, degrees)) / 2 < probability:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan(low)


def _central_probability(angle: float, degrees: int) -> float:
    """Return the probability that t is between minus and plus ``sqrt(degrees) * tan(angle)``."""
    cosine, is_odd = math.cos(angle), degrees % 2
    term, terms = (cosine, [cosine]) if is_odd else (1.0, [1.0])
    for factor in range(2 + is_odd, degrees - 1, 2):
        term *= (factor - 1) / factor * cosine**2
        terms.append(term)
    if not is_odd:
        return math.sin(angle) * math.fsum(terms)
    return 2 / math.pi * (angle + (math.sin(angle) * math.fsum(terms) if degrees > 1 else 0.0))
