# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares runs: each later run with the first one, and the arms of one run with each other.

Rounds of two runs are not paired: another time, another start of the server and another placement of its memory are in
the ratio too, and no interval covers them. So a ratio of two runs is clear only where no round of one run reaches a
round of the other, and where it is larger than such differences usually are. Arms of one run were measured in the same
rounds: their ratio has an interval. A ratio above 1 means that the later run, or the arm, is better, also for times.
"""

from __future__ import annotations

import math

from ..rounds import schedule
from ..verdicts.comparison import HURTS, PAYS, format_metric_name
from ..verdicts.setting_verdicts import Judgement
from ..verdicts.tuning_result import TuningResult
from .fingerprint_differences import list_differences
from .run_figures import compute_run_figures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..verdicts.comparison import Comparison
    from .run_figures import Figure

#: The least change between two runs that is clear, and the least number of counting rounds of each. A server that is
#: started anew has a speed of its own, with a standard deviation of one to two percent.
CLEAR_CHANGE, LEAST_ROUNDS = 0.05, 3
LOSS, GAIN, NO_CLEAR_DIFFERENCE = "clear loss", "clear gain", "no clear difference"
TOO_FEW_ROUNDS, OTHER_PROMPTS = "too few rounds", "other prompts"
PROVEN_LOSS, PROVEN_GAIN, NOT_PROVEN, NOT_SOUND = "proven loss", "proven gain", "not proven", "run not sound"
NOT_PAIRED = "not paired"
#: Exit codes of a comparison.
NO_LOSS, NOTHING_COMPARED, LOSS_FOUND = 0, 1, 2


class ComparedFigure:
    """A figure of a later run or an arm beside that of the first run: both values, ratio, interval and word.

    ``old`` and ``new`` are medians over rounds, None for arms, whose ratios are of paired rounds. ``low`` and ``high``
    are the ends of the interval, None where rounds were not paired.
    """

    def __init__(self, name: str, subject: str, unit: str, ratio: float, word: str) -> None:
        self.name = name
        self.subject = subject
        self.unit = unit
        self.old: float | None = None
        self.new: float | None = None
        self.ratio = ratio
        self.low: float | None = None
        self.high: float | None = None
        self.word = word

    @property
    def is_paired(self) -> bool:
        return self.low is not None

    @property
    def is_loss(self) -> bool:
        return self.word in (LOSS, PROVEN_LOSS)

    @property
    def is_gain(self) -> bool:
        return self.word in (GAIN, PROVEN_GAIN)

    @property
    def is_judged(self) -> bool:
        """Whether the figures could be compared at all."""
        return self.word not in (TOO_FEW_ROUNDS, OTHER_PROMPTS, NOT_SOUND)

    def interval_text(self) -> str:
        """Return the interval of the ratio, or the words that rounds were not paired."""
        return NOT_PAIRED if self.low is None or self.high is None else f"{self.low:.3f} to {self.high:.3f}"

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as plain data; six decimals are equal on every machine."""
        return {key: round(value, 6) if isinstance(value, float) else value for key, value in vars(self).items()}


class RunComparison:
    """Compared runs: the labels of the runs, what differs between them, their figures, and the exit code."""

    def __init__(self, documents: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> None:
        """Compare documents that ``validate_document`` has returned; ``labels`` name them for people."""
        self.documents = list(documents)
        self.labels = list(labels)
        self.differences = list_differences(documents)
        first = documents[0]
        self.figures = [
            figure
            for document, label in zip(documents[1:], labels[1:])
            for figure in _compare_two_runs(first, document, label)
        ]
        for document, label in zip(documents, labels):
            name = f"{label}: " if len(documents) > 1 else ""
            self.figures += _compare_arms_of_run(document, name)

    @property
    def losses(self) -> list[ComparedFigure]:
        return [figure for figure in self.figures if figure.is_loss]

    @property
    def exit_code(self) -> int:
        """0 without a loss, 2 with a proven or clear loss, 1 where nothing could be compared."""
        if not any(figure.is_judged for figure in self.figures):
            return NOTHING_COMPARED
        return LOSS_FOUND if self.losses else NO_LOSS

    def headline(self) -> str:
        """Return the result in one line."""
        if self.exit_code == NOTHING_COMPARED:
            return "Nothing could be compared."
        if not self.losses:
            return "No loss is proven or clear."
        listed = ", ".join(f"{one.subject}: {one.name} {one.ratio:.2f} ({one.word})" for one in self.losses)
        return f"Worse: {listed}."

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        return {
            "runs": [
                {"label": label, "id": document["id"], "started": document["started"]}
                for label, document in zip(self.labels, self.documents)
            ],
            "differences": [difference.to_dict() for difference in self.differences],
            "figures": [figure.to_dict() for figure in self.figures],
            "code": self.exit_code,
            "headline": self.headline(),
        }


def _compare_two_runs(old: Mapping[str, Any], new: Mapping[str, Any], label: str) -> list[ComparedFigure]:
    same_prompts = old["fingerprint"]["prompts_sha256"] == new["fingerprint"]["prompts_sha256"]
    before, after = compute_run_figures(old), compute_run_figures(new)
    rows = []
    for name, figure in before.items():
        other = after.get(name)
        if other is None:
            continue
        ratio = other.median_over_rounds / figure.median_over_rounds
        ratio = ratio if figure.larger_is_better else 1 / ratio
        word = _judge_ratio_of_unpaired_figures(figure, other, ratio) if same_prompts else OTHER_PROMPTS
        row = ComparedFigure(name, label, figure.unit, ratio, word)
        row.old, row.new = figure.median_over_rounds, other.median_over_rounds
        rows.append(row)
    return rows


def _judge_ratio_of_unpaired_figures(old: Figure, new: Figure, ratio: float) -> str:
    if min(len(old.values), len(new.values)) < LEAST_ROUNDS:
        return TOO_FEW_ROUNDS
    worse, better = (old, new) if (ratio > 1) == old.larger_is_better else (new, old)
    are_apart = max(worse.values) < min(better.values)
    if not are_apart or abs(math.log(ratio)) < math.log1p(CLEAR_CHANGE):
        return NO_CLEAR_DIFFERENCE
    return GAIN if ratio > 1 else LOSS


def _compare_arms_of_run(document: Mapping[str, Any], prefix: str) -> list[ComparedFigure]:
    """Return the paired figures of the arms of one run: its variants, its kept settings and its best candidate."""
    anchor = schedule.anchor_name(document["plan"]["arms"])
    pairs: list[tuple[str, Comparison]] = []
    faults: Sequence[str] = ()
    if anchor == schedule.TUNED:
        judgement = Judgement(document)
        faults = judgement.faults
        for variant in judgement.variants:
            pairs += [(f"{variant.name} over {judgement.running_name}", one) for one in variant.comparisons]
        pairs += judgement.confirmation.comparisons_by_name().items()
    elif anchor == schedule.DEFAULT:
        result = TuningResult(document)
        faults = result.faults
        pairs += [("the best candidate over the default", one) for one in (result.gain, *result.guards) if one]
    return [_paired_figure(one, f"{prefix}{subject}", not faults) for subject, one in pairs if one.interval]


def _paired_figure(comparison: Comparison, subject: str, is_sound: bool) -> ComparedFigure:
    ratio, low, high = comparison.interval.to_ratios() if comparison.interval else (1.0, 1.0, 1.0)
    word = {PAYS: PROVEN_GAIN, HURTS: PROVEN_LOSS}.get(comparison.word, NOT_PROVEN) if is_sound else NOT_SOUND
    figure = ComparedFigure(format_metric_name(comparison), subject, "", ratio, word)
    figure.low, figure.high = low, high
    return figure
