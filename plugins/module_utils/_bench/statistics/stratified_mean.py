# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mean over strata, with the interval for other members of the same strata.

A stratum is a kind of prompts, and its members are prompts. The kinds are given, and the prompts of a kind are a random
choice among all such prompts. So only the spread of prompts within their kind makes the mean uncertain.
"""

from __future__ import annotations

import math

from .confidence_interval import Interval, mean
from .student_distribution import student_quantile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def stratified_interval(strata: Sequence[Sequence[float]], alpha: float) -> Interval | None:
    """Return the interval of the mean over the means of strata; None for fewer than two members.

    The degrees of freedom are those of Welch and Satterthwaite, because the spread differs between strata. Where a
    stratum has a single member, all members are one stratum.
    """
    if not strata or sum(map(len, strata)) < 2:
        return None
    centre = mean([mean(values) for values in strata])
    if any(len(values) < 2 for values in strata):
        strata = [[value for values in strata for value in values]]
    return Interval(centre, _half_width(strata, alpha), sum(map(len, strata)))


def _half_width(strata: Sequence[Sequence[float]], alpha: float) -> float:
    """Return the half width of the interval of the mean over strata of at least two members each."""
    variances = []
    for values in strata:
        centre = mean(values)
        spread = math.fsum((value - centre) ** 2 for value in values)
        variances.append(spread / (len(values) - 1) / len(values) / len(strata) ** 2)
    total = math.fsum(variances)
    if not total:
        return 0.0
    degrees = total**2 / math.fsum(variance**2 / (len(values) - 1) for variance, values in zip(variances, strata))
    return student_quantile(1 - alpha / 2, max(1.0, degrees)) * math.sqrt(total)
