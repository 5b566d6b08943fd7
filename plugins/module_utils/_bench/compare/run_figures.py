# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The figures of one run that can be compared with those of another: the value of each figure in each counting round.

They are of the arm that is the instance as it runs: the only arm of a benchmark, the baseline of an ablation or tuning.
"""

from __future__ import annotations

import math
from statistics import median

from ..rounds import measured_rounds, schedule
from ..statistics.energy_figures import compute_tokens_per_joule
from ..statistics.figures import is_plain_sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Key, Round

    Samples = Sequence[Mapping[str, Any]]

FIRST_TOKEN, ENERGY = "first token", "tokens per joule"
RATE, MILLISECONDS, PER_JOULE, SHARE = "t/s", "ms", "t/J", "of 1"


class Figure:
    """A figure of a run: its name, its unit, and its value in each counting round."""

    def __init__(self, name: str, unit: str, values: Iterable[float | None]) -> None:
        self.name = name
        self.unit = unit
        self.values = [value for value in values if value is not None]

    @property
    def median_over_rounds(self) -> float:
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
    samples: dict[int, list[Mapping[str, Any]]] = {measured.number: [] for measured in rounds}
    for sample in document["samples"]:
        if sample["arm"] == anchor and sample["round"] in samples:
            samples[sample["round"]].append(sample)
    figures = [
        Figure(_name_of_metric(key), RATE, _values_of_metric(rounds, anchor, key))
        for key in _list_compared_metrics(rounds)
    ]
    figures += _figures_of_samples(list(samples.values()))
    return {figure.name: figure for figure in figures if figure.values and min(figure.values) > 0}


def _list_compared_metrics(rounds: Sequence[Round]) -> list[Key]:
    """Return the metrics over all kinds of prompts: decode and prefill of one stream, and output by streams."""
    present = {key for measured in rounds for levels in measured.levels.values() for key in levels if not key[1]}
    one_stream = [measured_rounds.ONE_STREAM, (measured_rounds.PREFILL, "", 1)]
    output = sorted(key for key in present if key[0] == measured_rounds.OUTPUT)
    return [key for key in (*one_stream, *output) if key in present]


def _name_of_metric(key: Key) -> str:
    metric, dummy, streams = key
    if metric != measured_rounds.OUTPUT:
        return metric
    return f"output, {streams} stream{'' if streams == 1 else 's'}"


def _values_of_metric(rounds: Sequence[Round], anchor: str, key: Key) -> list[float]:
    """Return the values of a metric by round; levels are logarithms of tokens per millisecond."""
    levels = [measured.levels[anchor].get(key) for measured in rounds]
    return [1000 * math.exp(level) for level in levels if level is not None]


def _figures_of_samples(by_round: Sequence[Samples]) -> list[Figure]:
    """Return the figures that no level of a round has: waiting times, depths, arrivals at a rate, and energy."""
    all_samples = [sample for samples in by_round for sample in samples]

    def figure(
        name: str, unit: str, is_wanted: Callable[[Mapping[str, Any]], bool], value: Callable[[Samples], float | None]
    ) -> Figure:
        return Figure(name, unit, [value([sample for sample in samples if is_wanted(sample)]) for samples in by_round])

    figures = [
        figure(FIRST_TOKEN, MILLISECONDS, lambda one: is_plain_sample(one) and one["streams"] == 1, _median_first_ms),
        figure(f"{FIRST_TOKEN}, second turn", MILLISECONDS, lambda one: one["turn"] == 2, _median_first_ms),
    ]
    for depth in sorted({sample["depth"] for sample in all_samples if sample["depth"] and sample["turn"] == 1}):

        def is_at_depth(sample: Mapping[str, Any], depth: int = depth) -> bool:
            return bool(sample["depth"] == depth and sample["turn"] == 1 and sample["streams"] == 1)

        figures.append(figure(f"decode, depth {depth}", RATE, is_at_depth, _make_token_rate_function("predicted")))
        figures.append(figure(f"prefill, depth {depth}", RATE, is_at_depth, _make_token_rate_function("prompt")))
    for rate in sorted({sample["rate"] for sample in all_samples if sample["rate"] is not None}):

        def has_rate(sample: Mapping[str, Any], rate: float = rate) -> bool:
            return bool(sample["rate"] == rate)

        figures.append(figure(f"within limits, {rate:g}/s", SHARE, has_rate, _mean_share_within_limits))
    return [*figures, figure(ENERGY, PER_JOULE, is_plain_sample, compute_tokens_per_joule)]


def _median_first_ms(samples: Samples) -> float | None:
    times = [sample["ttft_ms"] for sample in samples if sample["ttft_ms"] is not None]
    return median(times) if times else None


def _make_token_rate_function(what: str) -> Callable[[Samples], float | None]:
    """Return a function from samples to the tokens per second of prompts or of predicted tokens."""

    def compute_rate(samples: Samples) -> float | None:
        tokens = sum(sample[f"{what}_n"] or 0 for sample in samples)
        milliseconds = sum(sample[f"{what}_ms"] or 0 for sample in samples)
        return 1000 * tokens / milliseconds if milliseconds else None

    return compute_rate


def _mean_share_within_limits(samples: Samples) -> float | None:
    shares = [sample["within_slo"] for sample in samples if sample["within_slo"] is not None]
    return sum(shares) / len(shares) if shares else None
