# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that a run can prove anything at all; a run with faults makes no claim, whatever its intervals say."""

from __future__ import annotations

import math

from ..rounds import measured_rounds, schedule
from ..rounds.limits import MAX_STEAL_SHARE
from ..statistics.confidence_interval import lag_one_correlation, mean
from .comparison import HURTS, PAYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Round
    from .comparison import Comparison

#: Above this correlation of consecutive ratios intervals are too narrow: at 0.3, 11 percent of claims are false instead
#: of 5.
MAX_CORRELATION = 0.3
#: Few values are correlated by chance. The limit is at least this many standard deviations of the correlation of
#: independent values, which chance exceeds once in a hundred.
CHANCE_DEVIATIONS = 2.3


def find_faults(document: Mapping[str, Any], those: Sequence[Round], twins: Mapping[str, Comparison]) -> list[str]:
    """Return in sentences why a run proves nothing, an empty list where it is sound.

    ``twins`` maps each class to the comparison of the anchor with its twin.
    """
    told = machine_faults(document, twins)
    for unit in schedule.REPETITIONS:
        for phase in (schedule.ABLATION, schedule.CONFIRMATION):
            told += correlation_faults([measured for measured in those if measured.unit == unit], phase, schedule.TUNED)
    return told


def correlation_faults(those: Sequence[Round], phase: str, anchor: str) -> list[str]:
    """Return the fault that consecutive rounds of a phase are correlated, an empty list where they are not."""
    here = [measured for measured in those if measured.phase == phase]
    pairs, free = _consecutive_deviations(here, anchor)
    found = lag_one_correlation(pairs)
    if not free or found <= max(MAX_CORRELATION, CHANCE_DEVIATIONS / math.sqrt(free)):
        return []
    return [
        f"Rounds resemble the ones before them ({found:.2f}, above {MAX_CORRELATION}) among {here[0].unit} settings of "
        f"the {phase}: what disturbs lasts longer than a round. Find it, or make samples longer."
    ]


def machine_faults(document: Mapping[str, Any], twins: Mapping[str, Comparison]) -> list[str]:
    """Return faults of machine and settings: stolen time, an anchor unlike its twin, unrestored settings."""
    told = []
    shares = [s["witness"]["steal"] for s in document["samples"] if s["witness"]["steal"] is not None]
    if shares and mean(shares) > MAX_STEAL_SHARE:
        told.append(
            f"The hypervisor took {mean(shares):.1%} of the CPU time, above {MAX_STEAL_SHARE:.1%}: measure on a "
            "machine that does not share its cores."
        )
    for unit, twin in twins.items():
        if twin.word in (PAYS, HURTS):
            told.append(
                f"The state that all is compared with differs from itself, {twin.format_ratio()}, among {unit} "
                "settings: something changes with the order or the name of an arm. Find it, and measure again."
            )
    if document["restored"] is False:
        told.append("The settings at the end were not those of the start: run site.yml, and measure again.")
    return told


def _consecutive_deviations(those: Sequence[Round], anchor: str) -> tuple[list[tuple[float, float]], int]:
    """Return pairs of deviations of each arm in consecutive rounds, and their degrees of freedom.

    A deviation is the log ratio to the anchor, less the mean of its arm and then that of its round: what all arms
    of a round share is the noise of the anchor, and would count once for each arm.
    """
    good = [measured for measured in those if not measured.discard_reason and anchor in measured.levels]
    bases = [measured.levels[anchor][measured_rounds.ONE_STREAM] for measured in good]
    ratios = [
        {arm: levels[measured_rounds.ONE_STREAM] - base for arm, levels in measured.levels.items() if arm != anchor}
        for measured, base in zip(good, bases)
    ]
    usual = {
        arm: mean([row[arm] for row in ratios if arm in row]) for arm in sorted({a for row in ratios for a in row})
    }
    left = [{arm: value - usual[arm] for arm, value in row.items()} for row in ratios if len(row) > 1]
    rest = [{arm: value - mean(list(row.values())) for arm, value in row.items()} for row in left]
    pairs, free = [], 0
    for before, after in zip(rest, rest[1:]):
        both = [arm for arm in before if arm in after]
        pairs += [(before[arm], after[arm]) for arm in both]
        free += max(len(both) - 1, 0)
    return pairs, free
