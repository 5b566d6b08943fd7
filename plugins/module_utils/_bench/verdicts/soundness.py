# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks whether a run is sound; a run with faults proves nothing, whatever its intervals are."""

from __future__ import annotations

import math

from ..rounds import measured_rounds, schedule
from ..rounds.limits import MAX_STEAL_SHARE
from ..statistics.confidence_interval import lag_one_correlation, mean
from .comparison import HURTS, PAYS, format_metric_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Round
    from .comparison import Comparison

#: Above this correlation of consecutive ratios the intervals are too narrow: at 0.3, 11 percent of claims are false
#: instead of 5.
MAX_CORRELATION = 0.3
#: A correlation must also exceed this many standard deviations of the correlation of independent values, because few
#: values seem correlated by chance; chance exceeds this limit once in a hundred.
CHANCE_DEVIATIONS = 2.3


def find_soundness_faults(
    document: Mapping[str, Any], rounds: Sequence[Round], twins: Iterable[tuple[str, Comparison]]
) -> list[str]:
    """Return sentences why an ablation proves nothing, an empty list for a sound ablation.

    ``twins`` are comparisons of the anchor with its twin, each with its class.
    """
    faults = machine_faults(document, twins)
    judged = [measured for measured in rounds if measured.phase != schedule.PROBE]
    if judged and all(measured.discard_reason for measured in judged):
        last_reason = judged[-1].discard_reason.rstrip(".")
        faults.append(
            f"No round counts, of {len(judged)}. The last was discarded: {last_reason}. Remove what disturbs this "
            "host, and measure again."
        )
    for setting_class in schedule.REPETITIONS:
        of_class = [measured for measured in rounds if measured.setting_class == setting_class]
        for phase in (schedule.ABLATION, schedule.CONFIRMATION):
            faults += correlation_faults(of_class, phase, schedule.TUNED)
    return faults


def correlation_faults(rounds: Sequence[Round], phase: str, anchor: str) -> list[str]:
    """Return a sentence where consecutive rounds of a phase are correlated, else an empty list."""
    of_phase = [measured for measured in rounds if measured.phase == phase]
    pairs, degrees_of_freedom = _consecutive_deviations(of_phase, anchor)
    correlation = lag_one_correlation(pairs)
    if not degrees_of_freedom or correlation <= max(MAX_CORRELATION, CHANCE_DEVIATIONS / math.sqrt(degrees_of_freedom)):
        return []
    return [
        f"Rounds resemble the ones before them ({correlation:.2f}, above {MAX_CORRELATION}) among "
        f"{of_phase[0].setting_class} settings of the {phase}, so that they are no independent repetitions: something "
        "makes this host slower and faster again over several rounds. Look for timers, backups, other guests and "
        "heat, and measure again; longer samples or more rounds do not help."
    ]


def machine_faults(document: Mapping[str, Any], twins: Iterable[tuple[str, Comparison]]) -> list[str]:
    """Return sentences on faults of the machine: stolen CPU time, an anchor unlike its twin, settings not restored.

    ``twins`` are comparisons of the anchor with its twin, each with its class.
    """
    faults = []
    shares = [s["witness"]["steal"] for s in document["samples"] if s["witness"]["steal"] is not None]
    if shares and mean(shares) > MAX_STEAL_SHARE:
        faults.append(
            f"The hypervisor took {mean(shares):.1%} of the CPU time, above {MAX_STEAL_SHARE:.1%}: measure on a "
            "machine that does not share its cores."
        )
    for setting_class, twin in twins:
        if twin.word in (PAYS, HURTS):
            faults.append(
                f"The state that all is compared with differs from itself in {format_metric_name(twin)}, "
                f"{twin.format_ratio()}, among {setting_class} settings: something changes with the order or the name "
                "of an arm. "
                "Find it, and measure again."
            )
    if document["restored"] is False:
        faults.append("The settings at the end were not those of the start: run site.yml, and measure again.")
    return faults


def _consecutive_deviations(rounds: Sequence[Round], anchor: str) -> tuple[list[tuple[float, float]], int]:
    """Return pairs of deviations of each arm in consecutive repetitions, and their degrees of freedom.

    A deviation is a log ratio to the anchor, minus the mean of its arm, and then minus the mean of its repetition. The
    mean of a repetition is noise of the anchor, which all its arms share and which would count once for each arm.
    """
    ratios = [_mean_ratios(group, anchor) for group in measured_rounds.group_counting_rounds_by_start(rounds)]
    arms = sorted({arm for row in ratios for arm in row})
    means = {arm: mean([row[arm] for row in ratios if arm in row]) for arm in arms}
    centred = [{arm: value - means[arm] for arm, value in row.items()} for row in ratios if len(row) > 1]
    deviations = [{arm: value - mean(list(row.values())) for arm, value in row.items()} for row in centred]
    pairs, degrees_of_freedom = [], 0
    for before, after in zip(deviations, deviations[1:]):
        both = [arm for arm in before if arm in after]
        pairs += [(before[arm], after[arm]) for arm in both]
        degrees_of_freedom += max(len(both) - 1, 0)
    return pairs, degrees_of_freedom


def _mean_ratios(rounds: Sequence[Round], anchor: str) -> dict[str, float]:
    """Return by arm the mean log ratio to the anchor in rounds that share a start."""
    key = measured_rounds.ONE_STREAM
    ratios: dict[str, list[float]] = {}
    for levels in (measured.levels for measured in rounds):
        for arm in levels.keys() - {anchor} if key in levels.get(anchor, {}) else ():
            if key in levels[arm]:
                ratios.setdefault(arm, []).append(levels[arm][key] - levels[anchor][key])
    return {arm: mean(values) for arm, values in sorted(ratios.items())}
