# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run as its page shows it: the verdicts on its arms, and the samples of the rounds that count."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports import ablation_report
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.benchmark_report import BenchmarkResult
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import measured_rounds, schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics import figures
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.confidence_interval import mean
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.tuning_result import TuningResult
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    Document = dict[str, Any]
    Samples = list[dict[str, Any]]


def parse_run_document(data: object) -> Document:
    """Return the run document in ``data``, which is a document or its JSON text; BadRequest for an invalid document."""
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"it is no JSON ({error}); take the file as the run wrote it") from None
    return run_document.validate_document(data)


class ShownRun:
    """A run to be shown. ``arm`` is the anchor of the comparisons, or the only arm.

    ``judgement`` has the verdicts of an ablation, ``tuning`` the result of a tuning. A benchmark compares nothing, so
    both are None and ``has_one_arm`` is true. ``faults`` are sentences why the run proves nothing.
    ``discarded_rounds`` maps the number of a discarded round to its reason.
    """

    __slots__ = ("arm", "arms", "data", "discarded_rounds", "faults", "has_one_arm", "judgement", "rounds", "tuning")

    def __init__(self, data: Document) -> None:
        """Judge a document that ``parse_run_document`` has returned."""
        self.data = data
        names = [arm["name"] for arm in data["plan"]["arms"]]
        planned = {name for planned in data["plan"]["order"] for name in planned["arms"]}
        self.arm = schedule.anchor_name(data["plan"]["arms"])
        self.has_one_arm = self.arm == schedule.RUNNING
        self.judgement = Judgement(data) if self.arm == schedule.TUNED else None
        self.tuning = TuningResult(data) if self.arm == schedule.DEFAULT else None
        judged = self.judgement or self.tuning
        self.rounds = judged.rounds if judged else measured_rounds.rounds_of_document(data)
        self.faults = judged.faults if judged else []
        #: The arms that are in any planned round, in the order of the plan.
        self.arms = [name for name in names if name in planned]
        self.discarded_rounds = {
            measured.number: measured.discard_reason for measured in self.rounds if measured.discard_reason
        }

    def headline(self) -> str:
        """Return the result of the run in one line."""
        if self.judgement:
            return ablation_report.ablation_headline(self.judgement)
        if self.tuning:
            return self.tuning.headline()
        return BenchmarkResult(self.data).headline()

    def discard_reason(self, sample: dict[str, Any]) -> str:
        """Return why a sample is discarded; "" for a sample that counts."""
        return self.discarded_rounds.get(sample["round"], "")

    def arms_and_rounds_side_by_side(self) -> tuple[list[str], list[measured_rounds.Round]]:
        """Return the arms whose figures are shown side by side, and the rounds that count and have all these arms.

        For an ablation the arms are stock and the kept settings in the confirmation rounds, or stock and tuned before
        the confirmation. For a tuning they are the default and the best candidate. A benchmark has its only arm.
        """
        counting = [measured for measured in self.rounds if not measured.discard_reason]
        fresh = [measured for measured in counting if measured.phase == schedule.CONFIRMATION]
        single = [self.arm], [measured for measured in counting if self.arm in measured.levels]
        if self.judgement:
            pair = [schedule.STOCK, self.judgement.confirmation.winner if fresh else schedule.TUNED]
        elif self.tuning and self.tuning.best:
            pair = [schedule.DEFAULT, self.tuning.best["name"]]
        else:
            return single
        both = [measured for measured in fresh or counting if all(arm in measured.levels for arm in pair)]
        return (pair, both) if both else single

    def select_samples(
        self, arm: str, rounds: Sequence[measured_rounds.Round], streams: int, kind: str = ""
    ) -> Samples:
        """Return the samples of an arm in some rounds with a number of streams, and of one kind of prompts or all."""
        numbers = {measured.number for measured in rounds}
        return [
            sample
            for sample in self.data["samples"]
            if sample["arm"] == arm
            and figures.is_plain_sample(sample)
            and sample["streams"] == streams
            and sample["round"] in numbers
            and kind in ("", sample["kind"])
        ]

    def stream_counts(self) -> list[int]:
        """Return the numbers of streams that have samples."""
        return sorted({sample["streams"] for sample in self.data["samples"]})

    def prompt_kinds_with_samples(self) -> list[str]:
        """Return the kinds of prompts that have samples."""
        return sorted({sample["kind"] for sample in self.data["samples"]})


def mean_tokens_per_second(
    rounds: Sequence[measured_rounds.Round], arm: str, streams: int = 1, metric: str = measured_rounds.DECODE
) -> float | None:
    """Return the tokens per second of an arm, the geometric mean over kinds and rounds; None without rounds."""
    key = (metric, "", streams)
    levels = [measured.levels[arm][key] for measured in rounds if key in measured.levels.get(arm, {})]
    return 1000 * math.exp(mean(levels)) if levels else None


def compute_sample_figures(samples: Samples) -> dict[str, float | None]:
    """Return the figures of samples of one arm, kind and number of streams; empty without samples."""
    return figures.figures_of_samples(samples) if samples else {}
