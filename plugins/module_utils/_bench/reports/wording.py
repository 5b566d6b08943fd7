# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ratios and counts in words for people, such as "51 % faster (43 to 59 %)" and "3 rounds"."""

from __future__ import annotations

from ..load.objective_names import ENERGY, LATENCY, PROMPT, THROUGHPUT
from ..rounds import measured_rounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..statistics.confidence_interval import Interval
    from ..verdicts.comparison import Comparison

#: Objective -> what a gain and what a loss is called.
GAIN_AND_LOSS = {
    LATENCY: ("faster", "slower"),
    THROUGHPUT: ("more tokens of all streams", "fewer tokens of all streams"),
    PROMPT: ("faster prompts", "slower prompts"),
    ENERGY: ("more tokens per joule", "fewer tokens per joule"),
}
#: From this change in percent on, decimals say nothing.
WHOLE_PERCENT = 10


def format_gain(interval: Interval, objective: str = LATENCY, than: str = "") -> str:
    """Return a ratio with its interval as a change in percent, such as "51 % faster than stock (43 to 59 %)"."""
    middle, low, high = (100 * (ratio - 1) for ratio in interval.to_ratios())
    gain, loss = GAIN_AND_LOSS[objective]
    if middle < 0:
        middle, low, high, gain = -middle, -high, -low, loss
    digits = 0 if middle >= WHOLE_PERCENT else 1
    subject = f"{gain} than {than}" if than else gain
    return f"{middle:.{digits}f} % {subject} ({low:.{digits}f} to {high:.{digits}f} %)".replace("(-0.0 ", "(0.0 ")


def objective_of_metric(comparison: Comparison) -> str:
    """Return the objective whose words say what a change of this metric is."""
    metric, dummy, streams = comparison.key
    if metric == measured_rounds.TOKENS_PER_JOULE:
        return ENERGY
    if metric == measured_rounds.PREFILL:
        return PROMPT
    return THROUGHPUT if streams > 1 else LATENCY


def count_with_noun(count: int, noun: str) -> str:
    """Return a number with its noun, such as "1 round" or "2 rounds"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def join_names(names: list[str]) -> str:
    """Return names as a list in a sentence: "a", "a and b", "a, b and c"; "" for none."""
    return "".join(names) if len(names) < 2 else f"{', '.join(names[:-1])} and {names[-1]}"
