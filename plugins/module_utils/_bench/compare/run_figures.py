# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The figures of one run that can be compared with those of another: the value of each figure in each counting round.

They are of the arm that is the instance as it runs: the only arm of a benchmark, the baseline of an ablation or tuning.
"""

from __future__ import annotations

import math
from statistics import median

from ..rounds import measured_rounds, schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Key, Round

FIRST_TOKEN = "first token"
RATE, MILLISECONDS = "t/s", "ms"


class Figure:
    """A figure of a run: its name, its unit, and its value in each counting round."""

    def __init__(self, name: str, unit: str, values: Sequence[float]) -> None:
        self.name = name
        self.unit = unit
        self.values = list(values)

    @property
    def middle(self) -> float:
        """The median over the rounds."""
        return median(self.values)

    @property
    def larger_is_better(self) -> bool:
        """Whether a larger value is better; a time is better where it is shorter."""
        return self.unit != MILLISECONDS


def compute_run_figures(document: Mapping[str, Any]) -> dict[str, Figure]:
    """Return the figures of a validated document by name; only of rounds that count."""
    anchor = schedule.anchor_name(document["plan"]["arms"])
    rounds = [
        measured
        for measured in measured_rounds.rounds_of_document(document)
        if not measured.discard_reason and anchor in measured.levels
    ]
    figures = [
        Figure(_name_of_metric(key), RATE, _values_of_metric(rounds, anchor, key))
        for key in _list_compared_metrics(rounds)
    ]
    figures.append(Figure(FIRST_TOKEN, MILLISECONDS, _first_token_by_round(document, rounds, anchor)))
    return {figure.name: figure for figure in figures if figure.values}


def _list_compared_metrics(rounds: Sequence[Round]) -> list[Key]:
    """Return the metrics over all kinds of prompts that rounds have: decode and prefill first, then by streams."""
    present = {key for measured in rounds for levels in measured.levels.values() for key in levels}
    wanted = (measured_rounds.DECODE, measured_rounds.PREFILL)
    keys = [key for key in present if key[0] in wanted and not key[1]]
    return sorted(keys, key=lambda key: (key[2], wanted.index(key[0])))


def _name_of_metric(key: Key) -> str:
    """Return the name of a metric for people, as "decode" or "output with 4 streams"."""
    metric, dummy, streams = key
    return metric if streams == 1 else f"output with {streams} streams"


def _values_of_metric(rounds: Sequence[Round], anchor: str, key: Key) -> list[float]:
    """Return the values of a metric by round; levels are logarithms of tokens per millisecond."""
    levels = [measured.levels[anchor].get(key) for measured in rounds]
    return [1000 * math.exp(level) for level in levels if level is not None]


def _first_token_by_round(document: Mapping[str, Any], rounds: Sequence[Round], anchor: str) -> list[float]:
    """Return the median time to first token with one stream of each round, in milliseconds."""
    times: dict[int, list[float]] = {measured.number: [] for measured in rounds}
    for sample in document["samples"]:
        is_wanted = sample["arm"] == anchor and sample["streams"] == 1 and sample["ttft_ms"] is not None
        if is_wanted and sample["round"] in times:
            times[sample["round"]].append(sample["ttft_ms"])
    return [median(values) for values in times.values() if values]
