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

    The strata share one variance within a stratum, because the few members of each do not show one of its own. Where
    each stratum has a single member, all members are one stratum.
    """
    members = [value for values in strata for value in values]
    if len(members) < 2:
        return None
    centre = mean([mean(values) for values in strata])
    if len(members) == len(strata):
        strata = [members]
    degrees = len(members) - len(strata)
    spread = math.fsum((value - mean(values)) ** 2 for values in strata for value in values)
    of_mean = math.fsum(1 / len(values) for values in strata) / len(strata) ** 2
    half_width = student_quantile(1 - alpha / 2, degrees) * math.sqrt(spread / degrees * of_mean)
    return Interval(centre, half_width, len(members))
