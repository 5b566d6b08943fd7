# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run as its report shows it: the verdicts on its arms, the arm whose figures stand first, and its samples."""

from __future__ import annotations

import math

from ..memory import instance_memory
from ..rounds import measured_rounds, schedule
from ..statistics import energy_figures
from ..statistics.confidence_interval import mean
from ..statistics.figures import figures_of_samples, is_plain_sample
from ..verdicts.setting_verdicts import Judgement
from ..verdicts.tuning_result import TuningResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..load.answer import Sample

ABLATION, TUNING, BENCHMARK, COMPARISON = "Ablation", "Tuning", "Benchmark", "Comparison"


class ShownRun:
    """A run to be shown. ``arm`` is the anchor of the comparisons, or the only arm.

    ``judgement`` has the verdicts of an ablation, ``tuning`` the result of a tuning; both are None for a benchmark,
    which compares nothing. ``faults`` are sentences why the run proves nothing. ``discarded_rounds`` maps the number of
    a discarded round to its reason. ``counts`` is False where all plain rounds were discarded: then figures are those
    of the discarded rounds, and are marked as such.
    """

    __slots__ = ("arm", "arms", "counts", "data", "discarded_rounds", "faults", "judgement", "kind", "rounds", "tuning")

    def __init__(self, data: Mapping[str, Any]) -> None:
        """Judge a document that ``validate_document`` has returned."""
        self.data = data
        planned = {name for planned in data["plan"]["order"] for name in planned["arms"]}
        self.arm = schedule.anchor_name(data["plan"]["arms"])
        self.kind = {schedule.RUNNING: BENCHMARK, schedule.DEFAULT: TUNING}.get(self.arm, ABLATION)
        self.judgement = Judgement(data) if self.kind == ABLATION else None
        if self.judgement and self.judgement.variants and not self.judgement.verdicts:
            self.kind = COMPARISON
        self.tuning = TuningResult(data) if self.kind == TUNING else None
        judged = self.judgement or self.tuning
        self.rounds = judged.rounds if judged else measured_rounds.rounds_of_document(data)
        self.faults = judged.faults if judged else []
        #: The arms that are in any planned round, in the order of the plan.
        self.arms = [arm["name"] for arm in data["plan"]["arms"] if arm["name"] in planned]
        self.discarded_rounds = {
            measured.number: measured.discard_reason for measured in self.rounds if measured.discard_reason
        }
        plain = [measured for measured in self.rounds if measured.phase != schedule.DEPTH]
        self.counts = not all(measured.discard_reason for measured in plain)

    @property
    def title(self) -> str:
        """What the run is, of which instance, and on which host where the document names it."""
        host = self.data["fingerprint"].get("host")
        return f"{self.kind} of {self.data['instance']}{f' on {host}' if host else ''}"

    def shown_rounds(self) -> list[measured_rounds.Round]:
        """Return the rounds that count; all rounds where none counts."""
        return [measured for measured in self.rounds if not (self.counts and measured.discard_reason)]

    def arms_and_rounds_side_by_side(self) -> tuple[list[str], list[measured_rounds.Round]]:
        """Return the arms whose figures are shown side by side, and the shown rounds that have all these arms.

        For an ablation the arms are stock, tuned and the kept settings in the confirmation rounds, or stock and tuned
        before the confirmation. For a tuning they are the default and the best candidate. A benchmark has its only arm.
        A comparison has its variants and the instance as it runs. The last arm is the one that runs or shall run.
        """
        shown = self.shown_rounds()
        fresh = [measured for measured in shown if measured.phase == schedule.CONFIRMATION]
        if self.judgement and self.kind == COMPARISON:
            arms = [*(v.arm for v in self.judgement.variants if v.comparisons), self.arm]
        elif self.judgement:
            arms = [schedule.STOCK, schedule.TUNED]
            if any(schedule.KEPT in measured.levels for measured in fresh):
                arms.append(schedule.KEPT)
        elif self.tuning and self.tuning.best:
            arms = [schedule.DEFAULT, self.tuning.best["name"]]
        else:
            arms = [self.arm]
        rounds = [measured for measured in fresh or shown if all(arm in measured.levels for arm in arms)]
        if rounds:
            return arms, rounds
        return [self.arm], [measured for measured in shown if self.arm in measured.levels]

    def describe_configuration_of_arms(self, names: Sequence[str]) -> dict[str, str]:
        """Return what the configuration of each of these arms is, "" for the only arm of a benchmark."""
        arms = {arm["name"]: arm for arm in self.data["plan"]["arms"]}
        fixed = {
            schedule.STOCK: "the originals of all settings",
            schedule.TUNED: "all settings",
            schedule.DEFAULT: "as it runs now",
        }
        meanings = {name: fixed.get(name, "") for name in names}
        for name in names:
            options = arms[name]["options"]
            if name == schedule.KEPT:
                meanings[name] = f"without {self._removed_settings_text(arms[name])}"
            elif name not in fixed and options:
                meanings[name] = ", ".join(f"{option} {value}" for option, value in options.items())
        return meanings

    def _removed_settings_text(self, kept: Mapping[str, Any]) -> str:
        removed = [
            arm["without"]
            for arm in self.data["plan"]["arms"]
            if arm["without"]
            and set(arm["settings"]) <= set(kept["settings"])
            and set(arm["arguments"]) <= set(kept["arguments"])
        ]
        return ", ".join(removed) or "some settings"

    def select_samples(
        self, arm: str, rounds: Sequence[measured_rounds.Round], streams: int, kind: str = ""
    ) -> list[Sample]:
        """Return the plain samples of an arm in some rounds with a number of streams, of one kind of prompts or all."""
        numbers = {measured.number for measured in rounds}
        return [
            sample
            for sample in self.data["samples"]
            if sample["arm"] == arm
            and is_plain_sample(sample)
            and sample["streams"] == streams
            and sample["round"] in numbers
            and kind in ("", sample["kind"])
        ]

    def decode_ceiling(self, samples: Sequence[Sample]) -> float | None:
        """Return the decoded tokens per second of all streams of samples if a step only read its bytes from memory.

        None without ceilings, and where the L3 caches hold what a step reads.
        """
        share = self.share_of_ceiling(samples)
        rate = figures_of_samples(samples)["decode"]
        return rate / share if share and rate else None

    def share_of_ceiling(self, samples: Sequence[Sample]) -> float | None:
        """Return the memory time of the steps of samples over the whole time of these steps.

        None without ceilings, and where the L3 caches hold what a step reads, so that memory is no limit.
        """
        ceilings = instance_memory.memory_ceilings(self.data, samples).values()
        limited = [one for one in ceilings if one.memory_ms is not None and one.bytes > self.data["cache"]]
        memory_ms = sum(one.memory_ms or 0.0 for one in limited)
        return memory_ms / sum(one.step_ms for one in limited) if limited else None

    def power_and_tokens_per_joule(
        self, arm: str, rounds: Sequence[measured_rounds.Round]
    ) -> tuple[float | None, float | None]:
        """Return the mean watts and the tokens per joule of an arm in some rounds; None for what is not known."""
        numbers = {measured.number for measured in rounds}
        samples = [s for s in self.data["samples"] if s["arm"] == arm and s["round"] in numbers]
        return energy_figures.compute_mean_watts(samples), energy_figures.compute_tokens_per_joule(samples)

    def stream_counts(self) -> list[int]:
        """Return the numbers of streams that have plain samples."""
        return sorted({sample["streams"] for sample in self.data["samples"] if is_plain_sample(sample)})

    def prompt_kinds_with_samples(self) -> list[str]:
        """Return the kinds of prompts that have plain samples."""
        return sorted({sample["kind"] for sample in self.data["samples"] if is_plain_sample(sample)})


def tokens_per_second_by_round(
    rounds: Sequence[measured_rounds.Round], arm: str, streams: int = 1, metric: str = measured_rounds.DECODE
) -> list[float]:
    """Return the tokens per second of an arm in each round that has them, as the geometric mean over the kinds."""
    key = (metric, "", streams)
    levels = [measured.levels[arm][key] for measured in rounds if key in measured.levels.get(arm, {})]
    return [1000 * math.exp(level) for level in levels]


def mean_tokens_per_second(
    rounds: Sequence[measured_rounds.Round], arm: str, streams: int = 1, metric: str = measured_rounds.DECODE
) -> float | None:
    """Return the tokens per second of an arm, the geometric mean over kinds and rounds; None without rounds."""
    rates = tokens_per_second_by_round(rounds, arm, streams, metric)
    return math.exp(mean([math.log(rate) for rate in rates])) if rates else None
