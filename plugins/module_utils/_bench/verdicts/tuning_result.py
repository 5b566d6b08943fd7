# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of a tuning, from the samples alone: the best candidate compared with the default in new rounds.

One metric decides, that of the objective of the run. For latency it is tokens of an answer per time of the whole
request with one stream, as the geometric mean over the kinds of prompts. All other metrics are guards: a proven loss of
a guard keeps the default. The rounds of the search overestimate the chosen candidate, so its gain is computed from
later rounds only.
"""

from __future__ import annotations

import math
from statistics import median

from ..load.objective_names import LATENCY, THROUGHPUT
from ..rounds import measured_rounds, schedule
from ..statistics.confidence_interval import mean
from . import soundness
from .comparison import HURTS, PAYS, UNDECIDED
from .final_race import FinalRace
from .objectives import METRICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Key, Round
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
        #: The objective by which the run decides, and its metric.
        self.objective: str = plan["objective"]
        self.metric = metric_of_tuning(self.objective, self.rounds)
        # The gain and the comparison of the default with its twin share the probability of a false claim.
        race = FinalRace(document, self.rounds, 2)
        names = {name for measured in race.rounds for name in measured.planned_arms}
        candidates = sorted(names - {schedule.DEFAULT, schedule.AGAIN})
        self.best = self.arms[candidates[0]] if candidates else None
        self.gain: Comparison | None = None
        self.guards: list[Comparison] = []
        self.twins: dict[str, Comparison] = {}
        if self.best:
            name = self.best["name"]
            self.gain = race.compare_arms_by_metric(name, schedule.DEFAULT, self.metric)
            self.guards = race.compare_arms_by_guard_metrics(name, schedule.DEFAULT, [self.metric])
            self.twins = {schedule.RESTART: race.compare_arms_by_metric(schedule.DEFAULT, schedule.AGAIN, self.metric)}
        self.faults = soundness.machine_faults(document, self.twins.items())
        self.faults += soundness.correlation_faults(race.rounds, schedule.CONFIRMATION, schedule.DEFAULT)
        self.lost_metrics = [guard for guard in self.guards if guard.word == HURTS]

    @property
    def time_shortage_message(self) -> str:
        """Why the time was too short, and how many minutes would do; empty where it was long enough."""
        return next(iter(self.document["shortages"]), "")

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
        default_rate = mean_default_rate(self.rounds, self.metric)
        searched = [measured for measured in self.rounds if measured.phase != schedule.CONFIRMATION]
        results = []
        for arm in filter(schedule.is_candidate, plan["arms"]):
            name = arm["name"]
            values = measured_rounds.log_ratios_of_counting_rounds(searched, schedule.DEFAULT, self.metric, name)
            predicted = plan["predicted"].get(name)
            ratio = predicted / default_rate if predicted and default_rate else None
            results.append(CandidateResult(arm, values, ratio, plan["rejected"].get(name, "")))
        return sorted(results, key=lambda result: -(result.measured or 0.0))

    def median_prediction_error(self) -> float | None:
        """Return the median relative error of the predictions; None where no predicted candidate was measured."""
        pairs = [(result.predicted, result.measured) for result in self.candidate_results()]
        errors = [abs(predicted / measured - 1) for predicted, measured in pairs if predicted and measured]
        return median(errors) if errors else None


def metric_of_tuning(objective: str, rounds: Sequence[Round]) -> Key:
    """Return the metric of an objective; that of the whole request for latency, because speculation counts in it."""
    if objective == THROUGHPUT:
        several = {key for measured in rounds for levels in measured.levels.values() for key in levels if key[2] > 1}
        return measured_rounds.OUTPUT, "", max((key[2] for key in several), default=1)
    return measured_rounds.WHOLE_REQUEST if objective == LATENCY else METRICS[objective]


def mean_default_rate(rounds: Sequence[Round], key: Key) -> float | None:
    """Return the mean rate of the default by a metric in the search, per second; None before its first round."""
    levels = [
        measured.levels[schedule.DEFAULT][key]
        for measured in rounds
        if measured.phase != schedule.CONFIRMATION
        and not measured.discard_reason
        and key in measured.levels.get(schedule.DEFAULT, {})
    ]
    return 1000 * math.exp(mean(levels)) if levels else None
