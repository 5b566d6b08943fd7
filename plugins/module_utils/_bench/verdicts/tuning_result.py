# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of a tuning, from the samples alone: the best candidate compared with the default in new rounds.

One metric decides: tokens of an answer per time of the whole request with one stream, as the geometric mean over the
kinds of prompts. Decoding by kind and with several streams, and prefill, are guards: a proven loss of a guard keeps the
default. The rounds of the search overestimate the chosen candidate, so its gain is computed from later rounds only.
"""

from __future__ import annotations

import math
from statistics import median

from ..rounds import measured_rounds, schedule
from ..statistics.confidence_interval import mean
from . import soundness
from .comparison import (
    HURTS,
    PAYS,
    UNDECIDED,
    DecisionRule,
    compare_anchor_with_arm,
    format_interval,
    format_metric_name,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Round
    from .comparison import Comparison

#: Fields of the fingerprint for which a result is valid; if a field changes, the tuning must be repeated.
HOLDS_FOR = ("sku", "dimms", "nps", "microcode", "bios", "kernel", "engine", "engine_build", "model_sha256")


class CandidateResult:
    """A candidate: its arm, its predicted and measured ratios to the default, its rounds, and why it was rejected."""

    def __init__(self, arm: Mapping[str, Any], values: list[float], predicted: float | None, rejected: str) -> None:
        self.arm = arm
        self.count = len(values)
        self.measured = math.exp(mean(values)) if values else None
        self.predicted = predicted
        self.rejected = rejected


class TuningResult:
    """The result of a tuning.

    ``best`` is the arm of the best candidate, None where the search ended with the default. ``gain`` compares the best
    candidate with the default in new rounds, and ``guards`` do so for each guard metric.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Judge a run document that ``validate_document`` has returned."""
        self.document = document
        self.rounds = measured_rounds.rounds_of_document(document)
        plan = document["plan"]
        self.arms = {arm["name"]: arm for arm in plan["arms"]}
        fresh = [measured for measured in self.rounds if measured.phase == schedule.CONFIRMATION]
        names = {name for measured in fresh for name in measured.planned_arms} - {schedule.DEFAULT, schedule.AGAIN}
        self.best = self.arms[min(names)] if names else None
        # The gain and the comparison of the default with its twin share the probability of a false claim.
        rule = DecisionRule(plan["alpha"] / 2, math.log1p(plan["zone"]), schedule.CONFIRMATION_ROUNDS)
        self.gain: Comparison | None = None
        self.guards: list[Comparison] = []
        self.twins: dict[str, Comparison] = {}
        if self.best:
            name = self.best["name"]
            self.gain = compare_anchor_with_arm(fresh, schedule.DEFAULT, measured_rounds.WHOLE_REQUEST, rule, name)
            self.guards = [
                compare_anchor_with_arm(fresh, schedule.DEFAULT, key, rule, name)
                for key in measured_rounds.guard_metrics(fresh)
            ]
            twin = compare_anchor_with_arm(fresh, schedule.AGAIN, measured_rounds.WHOLE_REQUEST, rule, schedule.DEFAULT)
            self.twins = {schedule.RESTART: twin}
        self.faults = soundness.machine_faults(document, self.twins.items())
        self.faults += soundness.correlation_faults(fresh, schedule.CONFIRMATION, schedule.DEFAULT)
        self.lost_metrics = [guard for guard in self.guards if guard.word == HURTS]

    @property
    def is_gain_decided(self) -> bool:
        """Whether the gain has a verdict, so that no more rounds are needed."""
        return self.gain is not None and self.gain.word != UNDECIDED

    @property
    def is_gain_proven(self) -> bool:
        """Whether the best candidate is faster than the default and worsens no guard, in a sound run."""
        return self.gain is not None and self.gain.word == PAYS and not self.lost_metrics and not self.faults

    def to_tuned_options(self) -> dict[str, Any]:
        """Return the value of the variable ``epyc_llama_tuned`` for a proven gain; empty where the default stays."""
        if not self.is_gain_proven or not self.best or not self.gain or not self.gain.interval:
            return {}
        ratio, low, high = (round(ratio, 3) for ratio in self.gain.interval.to_ratios())
        known = self.document["fingerprint"]
        return {
            "options": dict(self.best["options"]),
            "run": self.document["id"],
            "ratio": ratio,
            "low": low,
            "high": high,
            "measured_on": {key: known[key] for key in HOLDS_FOR},
        }

    def candidate_results(self) -> list[CandidateResult]:
        """Return the results of all candidates, the fastest first; unmeasured candidates come last."""
        plan = self.document["plan"]
        default_rate = mean_default_request_rate(self.rounds)
        searched = [measured for measured in self.rounds if measured.phase != schedule.CONFIRMATION]
        results = []
        for arm in filter(schedule.is_candidate, plan["arms"]):
            name = arm["name"]
            values = measured_rounds.log_ratios_of_counting_rounds(
                searched, schedule.DEFAULT, measured_rounds.WHOLE_REQUEST, name
            )
            predicted = plan["predicted"].get(name)
            ratio = predicted / default_rate if predicted and default_rate else None
            results.append(CandidateResult(arm, values, ratio, plan["rejected"].get(name, "")))
        return sorted(results, key=lambda result: -(result.measured or 0.0))

    def median_prediction_error(self) -> float | None:
        """Return the median relative error of the predictions; None where no predicted candidate was measured."""
        pairs = [(result.predicted, result.measured) for result in self.candidate_results()]
        errors = [abs(predicted / measured - 1) for predicted, measured in pairs if predicted and measured]
        return median(errors) if errors else None

    def headline(self) -> str:
        """Return the result in one line."""
        name = self.document["instance"]
        if self.faults:
            return f"{name}: this run is not sound and proves nothing."
        if self.is_gain_proven and self.gain and self.best:
            changed = self.format_changed_options(self.best)
            return f"{name}: {changed}: {format_interval(self.gain.interval)} over the default"
        if self.best is None or self.gain is None:
            return f"{name}: the default stays; no candidate was better."
        reason = format_interval(self.gain.interval)
        if self.lost_metrics:
            reason = f"{format_metric_name(self.lost_metrics[0])} loses {self.lost_metrics[0].format_ratio()}"
        return f"{name}: the default stays; {self.format_changed_options(self.best)} did not beat it: {reason}"

    def format_changed_options(self, arm: Mapping[str, Any]) -> str:
        """Return the options of a candidate as text, each with its value in the default."""
        default = self.arms[schedule.DEFAULT]["options"]
        return ", ".join(f"{name} {value} instead of {default[name]}" for name, value in arm["options"].items())


def mean_default_request_rate(rounds: Sequence[Round]) -> float | None:
    """Return the tokens per second of whole requests with the default options; None before the first counting round.

    Only rounds of the sweep count, which is the basis of all predictions.
    """
    levels = [
        measured.levels[schedule.DEFAULT][measured_rounds.WHOLE_REQUEST]
        for measured in rounds
        if measured.phase == schedule.SWEEP and not measured.discard_reason and schedule.DEFAULT in measured.levels
    ]
    return 1000 * math.exp(mean(levels)) if levels else None
