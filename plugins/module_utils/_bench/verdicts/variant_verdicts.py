# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict on each variant of an ablation: another build, engine or model over the one that runs, per metric.

All variants and settings of a run share the probability of a false claim. A ratio above 1 means that the variant is
better than the instance as it runs, so that a proven loss of any metric says: do not roll out.
"""

from __future__ import annotations

import math

from ..rounds import schedule
from .comparison import (
    HURTS,
    MIXED,
    NOTHING,
    PAYS,
    REJECTED,
    UNDECIDED,
    UNTESTED,
    DecisionRule,
    alpha_of_each_arm,
    compare_anchor_with_arm,
    format_metric_name,
)
from .objectives import combine_verdict_words, find_metrics_of_objectives

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Round
    from .comparison import Comparison

#: What a verdict word means for a variant that shall replace the instance as it runs.
ADVICE = {
    PAYS: "roll out",
    HURTS: "do not roll out",
    MIXED: "better and worse: do not roll out before you have weighed it",
    NOTHING: "no difference that matters",
    UNDECIDED: "not decided",
    REJECTED: "it could not be measured",
    UNTESTED: "not measured",
}


class VariantVerdict:
    """The verdict on a variant: ``arm`` is the name of its arm, ``name`` that of the variant, ``word`` the verdict.

    ``comparisons`` compare the variant with the instance as it runs, by metric; the metric that decides is the first.
    """

    def __init__(self, arm: Mapping[str, Any], word: str, reason: str = "") -> None:
        self.arm: str = arm["name"]
        self.name = self.arm[len(schedule.VARIANT) :]
        self.word = word
        self.reason = reason
        self.comparisons: list[Comparison] = []
        #: The objective of each comparison.
        self.objectives: list[str] = []
        #: Whether more rounds may decide.
        self.needs_rounds = False

    @property
    def is_loss_proven(self) -> bool:
        """Whether a metric of the variant is proven to be worse."""
        return self.word in (HURTS, MIXED)

    def headline(self, running: str) -> str:
        """Return the verdict in one line; ``running`` names the build or model that runs."""
        shown = [comparison for comparison in self.comparisons if comparison.interval]
        decided = [comparison for comparison in shown if comparison.word in (PAYS, HURTS)] or shown[:1]
        figures = ", ".join(f"{format_metric_name(one)} {one.format_ratio()}" for one in decided)
        text = f"{self.name} over {running}: {figures or 'no interval yet'}: {ADVICE[self.word]}"
        return f"{text} ({self.reason})" if self.reason else text

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row of plain data for each objective; ``overall`` is the verdict on the whole variant."""
        shared = {"knob": self.arm, "overall": self.word}
        rows = [
            {**shared, "objective": objective, "verdict": comparison.word, **comparison.to_dict()}
            for objective, comparison in zip(self.objectives, self.comparisons)
        ]
        return rows or [{**shared, "objective": "", "verdict": self.word}]


def judge_variants(document: Mapping[str, Any], rounds: Sequence[Round], is_sound: bool) -> list[VariantVerdict]:
    """Return the verdicts on the variants of a validated document, in the order of its plan."""
    plan = document["plan"]
    fitting = [
        measured
        for measured in rounds
        if measured.setting_class == schedule.RESTART and measured.phase == schedule.ABLATION
    ]
    return [
        VariantVerdict(arm, REJECTED, plan["rejected"][arm["name"]])
        if arm["name"] in plan["rejected"]
        else _judge_variant(arm, fitting, alpha_of_each_arm(plan), math.log1p(plan["zone"]), is_sound)
        for arm in plan["arms"]
        if schedule.is_variant(arm)
    ]


def name_of_running_instance(document: Mapping[str, Any]) -> str:
    """Return the build of the instance as it runs, or its name where the build is not known."""
    build = str(document["fingerprint"]["engine_build"] or "")
    return build.partition("-")[0] or str(document["instance"])


def _judge_variant(
    arm: Mapping[str, Any], rounds: Sequence[Round], alpha: float, zone: float, is_sound: bool
) -> VariantVerdict:
    name = arm["name"]
    verdict = VariantVerdict(arm, UNTESTED)
    both = [measured for measured in rounds if {name, schedule.TUNED} <= set(measured.levels)]
    metrics = find_metrics_of_objectives(both)
    tried = sum(name in measured.planned_arms for measured in rounds)
    if not metrics:
        verdict.needs_rounds = tried < schedule.MAX_ROUND_TRIES
        return verdict
    rule = DecisionRule(alpha / len(metrics), zone, schedule.REPETITIONS[schedule.RESTART].least)
    verdict.objectives = list(metrics)
    verdict.comparisons = [compare_anchor_with_arm(rounds, schedule.TUNED, key, rule, name) for key in metrics.values()]
    words = [comparison.word for comparison in verdict.comparisons]
    verdict.word = _combine_metric_verdict_words(words)
    verdict.needs_rounds = (
        UNDECIDED in words
        and max(comparison.count for comparison in verdict.comparisons) < schedule.MAX_ROUNDS
        and tried < schedule.MAX_ROUND_TRIES
    )
    if not is_sound:
        verdict.word, verdict.reason = UNDECIDED, "the run is not sound"
    return verdict


def _combine_metric_verdict_words(words: Sequence[str]) -> str:
    """Return the verdict on a variant from the words on its metrics: no metric may be open where it says "nothing"."""
    word = combine_verdict_words(words)
    return UNDECIDED if word == NOTHING and UNDECIDED in words else word
