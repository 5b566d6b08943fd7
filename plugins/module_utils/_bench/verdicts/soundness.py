# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a run can prove anything at all; one that cannot makes no claim, whatever its intervals say."""

from __future__ import annotations

import math

from ..rounds import measured_rounds, schedule
from ..statistics.confidence_interval import lag_one, mean
from .comparison import HURTS, PAYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Round
    from .comparison import Comparison

#: Above this, ratios resemble the ones before them, and intervals become too narrow: 11 percent of false claims at 0.3
#: instead of 5.
CORRELATION = 0.3
#: Few values resemble one another by chance. The limit is at least this many standard deviations of what independent
#: values show, which chance exceeds once in a hundred.
CHANCE = 2.3


def faults(document: Mapping[str, Any], those: Sequence[Round], twins: Mapping[str, Comparison]) -> list[str]:
    """Return in sentences why a run is void, an empty list where it is sound.

    ``twins`` maps each class to the comparison of the anchor with its twin.
    """
    told = of_the_machine(document, twins)
    for unit in schedule.UNITS:
        for phase in (schedule.ABLATION, schedule.CONFIRMATION):
            told += resembling([one for one in those if one.unit == unit], phase, schedule.TUNED)
    return told


def resembling(those: Sequence[Round], phase: str, anchor: str) -> list[str]:
    """Return in a sentence that rounds of a phase resemble the ones before them, an empty list where they do not."""
    here = [one for one in those if one.phase == phase]
    pairs, free = _neighbours(here, anchor)
    found = lag_one(pairs)
    if not free or found <= max(CORRELATION, CHANCE / math.sqrt(free)):
        return []
    return [
        f"Rounds resemble the ones before them ({found:.2f}, above {CORRELATION}) among {here[0].unit} settings of "
        f"the {phase}: what disturbs lasts longer than a round. Find it, or make samples longer."
    ]


def of_the_machine(document: Mapping[str, Any], twins: Mapping[str, Comparison]) -> list[str]:
    """Return what makes any comparison void: stolen time, an anchor that differs from itself, settings that stayed."""
    told = []
    shares = [s["witness"]["steal"] for s in document["samples"] if s["witness"]["steal"] is not None]
    if shares and mean(shares) > measured_rounds.STEAL:
        told.append(
            f"The hypervisor took {mean(shares):.1%} of the CPU time, above {measured_rounds.STEAL:.1%}: measure on a "
            "machine that does not share its cores."
        )
    for unit, twin in twins.items():
        if twin.word in (PAYS, HURTS):
            told.append(
                f"The state that all is compared with differs from itself, {twin.text()}, among {unit} settings: "
                "something changes with the order or the name of an arm. Find it, and measure again."
            )
    if document["restored"] is False:
        told.append("The settings at the end were not those of the start: run site.yml, and measure again.")
    return told


def _neighbours(those: Sequence[Round], anchor: str) -> tuple[list[tuple[float, float]], int]:
    """Return values of each arm in rounds that follow on one another, and how many of them are free to vary.

    A value is the log ratio to the anchor, less the mean of its arm and then that of its round: what all arms of a
    round share is the anchor's own noise, and would count once for each of them.
    """
    good = [one for one in those if not one.void and anchor in one.levels]
    bases = [one.levels[anchor][measured_rounds.ONE_STREAM] for one in good]
    ratios = [
        {arm: levels[measured_rounds.ONE_STREAM] - base for arm, levels in one.levels.items() if arm != anchor}
        for one, base in zip(good, bases)
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
