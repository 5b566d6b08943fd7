# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run as its page needs it: the engine's judgement, and the samples of rounds that count."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports import ablation_report
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.benchmark_report import Benchmark
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import measured_rounds, schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics import figures
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.confidence_interval import mean
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.tuning_result import Tuning
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    Document = dict[str, Any]
    Samples = list[dict[str, Any]]


def given(data: object) -> Document:
    """Return the document in ``data``, which is one or the text of its file; raises BadRequest where it is none."""
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"it is no JSON ({error}); take the file as the run wrote it") from None
    return run_document.check(data)


class Run:
    """A run to be shown. ``arm`` is the one that others are held to, or the only one.

    ``judgement`` is that of an ablation and ``tuning`` that of a tuning; of a benchmark, which compares nothing, both
    are None, and ``alone`` is true. ``faults`` say why the run is void. ``void`` maps the number of a void round to its
    reason.
    """

    __slots__ = ("alone", "arm", "arms", "data", "faults", "judgement", "rounds", "tuning", "void")

    def __init__(self, data: Document) -> None:
        """Take a document that ``given`` has returned."""
        self.data = data
        names = [arm["name"] for arm in data["plan"]["arms"]]
        planned = {name for one in data["plan"]["order"] for name in one["arms"]}
        self.arm = schedule.anchor(data["plan"]["arms"])
        self.alone = self.arm == schedule.RUNNING
        self.judgement = Judgement(data) if self.arm == schedule.TUNED else None
        self.tuning = Tuning(data) if self.arm == schedule.DEFAULT else None
        judged = self.judgement or self.tuning
        self.rounds = judged.rounds if judged else measured_rounds.of(data)
        self.faults = judged.faults if judged else []
        #: The arms that were planned in any round, in the order of the plan.
        self.arms = [name for name in names if name in planned]
        self.void = {one.number: one.void for one in self.rounds if one.void}

    def headline(self) -> str:
        """Return the first line in words."""
        if self.judgement:
            return ablation_report.headline(self.judgement)
        if self.tuning:
            return self.tuning.headline()
        return Benchmark(self.data).headline()

    def why(self, sample: dict[str, Any]) -> str:
        """Return why a sample does not count, an empty text where it does."""
        return self.void.get(sample["round"], "")

    def shown(self) -> tuple[list[str], list[measured_rounds.Round]]:
        """Return the arms whose figures are shown side by side, and the good rounds that have all of them.

        These are stock and what is kept, on fresh rounds where there are some; else stock and tuned; of a tuning the
        default and the best candidate; else the only one.
        """
        good = [one for one in self.rounds if not one.void]
        fresh = [one for one in good if one.phase == schedule.CONFIRMATION]
        if self.judgement:
            pair = [schedule.STOCK, self.judgement.confirmation.winner if fresh else schedule.TUNED]
        elif self.tuning and self.tuning.best:
            pair = [schedule.DEFAULT, self.tuning.best["name"]]
        else:
            return [self.arm], [one for one in good if self.arm in one.levels]
        both = [one for one in fresh or good if all(arm in one.levels for arm in pair)]
        return (pair, both) if both else ([self.arm], [one for one in good if self.arm in one.levels])

    def samples(self, arm: str, those: Sequence[measured_rounds.Round], streams: int, kind: str = "") -> Samples:
        """Return the samples of an arm in some rounds; of all kinds where none is named."""
        numbers = {one.number for one in those}
        return [
            one
            for one in self.data["samples"]
            if one["arm"] == arm and one["streams"] == streams and one["round"] in numbers and kind in ("", one["kind"])
        ]

    def streams(self) -> list[int]:
        """Return the numbers of streams that there are samples of."""
        return sorted({one["streams"] for one in self.data["samples"]})

    def kinds(self) -> list[str]:
        """Return the kinds of prompts that there are samples of."""
        return sorted({one["kind"] for one in self.data["samples"]})


def rate(
    those: Sequence[measured_rounds.Round], arm: str, streams: int = 1, metric: str = measured_rounds.DECODE
) -> float | None:
    """Return the tokens per second of an arm, the geometric mean over kinds and rounds; None of no round."""
    key = (metric, "", streams)
    levels = [one.levels[arm][key] for one in those if key in one.levels.get(arm, {})]
    return 1000 * math.exp(mean(levels)) if levels else None


def told(samples: Samples, streams: int) -> dict[str, float | None]:
    """Return the figures of samples of one arm and kind, those that they can tell; nothing of no samples."""
    if not samples:
        return {}
    return figures.figures(samples) if streams == 1 else figures.of_streams(samples)
