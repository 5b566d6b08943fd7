# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict on each setting of an ablation, from the samples alone.

A setting has a comparison with the anchor for each objective of the plan, and one word for all of them. Other metrics
are guards: each kind of prompts by itself, and objectives that were not asked for. A proven loss of a guard turns a
gain into "mixed", and a proven gain of a guard turns a loss into "mixed". All comparisons with the anchor share the
probability of a false claim, so it holds for the whole run.
"""

from __future__ import annotations

import math

from ..rounds import measured_rounds, schedule
from ..rounds.answer_differences import count_differing_texts
from . import soundness, variant_verdicts
from .comparison import (
    HURTS,
    MIXED,
    NOTHING,
    PAYS,
    REJECTED,
    UNDECIDED,
    UNTESTED,
    compare_anchor_with_arm,
    format_interval,
    format_metric_name,
    make_decision_rule,
)
from .confirmation import Confirmation
from .objectives import combine_verdict_words, compare_guard_metrics, compare_objectives, order_objectives
from .screened_effects import estimate_screened_effects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Key, Round
    from ..statistics.confidence_interval import Interval
    from .comparison import Comparison, DecisionRule

#: The verdicts of measured settings.
TESTED_WORDS = (PAYS, HURTS, NOTHING, UNDECIDED, MIXED)
#: Metrics that explain a verdict and decide nothing: the two factors of decoding with speculation, and waiting.
DETAILS: tuple[Key, ...] = (
    (measured_rounds.STEPS, "", 1),
    (measured_rounds.PER_STEP, "", 1),
    (measured_rounds.FIRST_TOKEN, "", 1),
)
#: A write to such an address taints the kernel, so a setting with such an address is left out unless it pays.
TAINTING_PREFIX = "msr:"


class Verdict:
    """The verdict on one setting: its word for all objectives, a reason (may be empty), and its comparisons.

    ``comparisons`` are those of the objectives, the deciding objective first if it was measured. ``details`` explain
    them. ``differing_texts`` of ``compared_texts`` answers have another text without the setting. ``screened`` is the
    effect that a screening estimated, and ``is_settled_by_screening`` says that it made the verdict.
    """

    def __init__(self, knob: str, setting_class: str, word: str, reason: str = "") -> None:
        self.knob = knob
        self.setting_class = setting_class
        self.word = word
        self.reason = reason
        self.comparisons: dict[str, Comparison] = {}
        self.guards: list[Comparison] = []
        self.details: list[Comparison] = []
        self.differing_texts = self.compared_texts = 0
        self.screened: Interval | None = None
        self.is_settled_by_screening = False
        #: Whether a write of the setting taints the kernel.
        self.taints = False
        #: Whether more rounds may decide this setting.
        self.needs_rounds = False

    @property
    def deciding_comparison(self) -> Comparison | None:
        """The comparison of the deciding objective; None before the first round."""
        return next(iter(self.comparisons.values()), None)

    @property
    def is_left_out(self) -> bool:
        """Whether the kept settings lack this one without a question to the operator.

        A setting that hurts is left out if it gains nowhere and may not yet turn out to. A setting that taints the
        kernel is left out unless it is proven to pay somewhere.
        """
        if self.word == HURTS:
            primary = self.deciding_comparison
            return primary is not None and primary.word == HURTS and not self.has_open_gain
        return self.taints and self.word in (NOTHING, UNDECIDED)

    @property
    def has_open_gain(self) -> bool:
        """Whether an objective is undecided and would gain by its estimate."""
        return any(comparison.may_gain for comparison in self.comparisons.values())

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row of plain data for each objective, followed by a row for each guard; ratios may be None.

        ``overall`` is the word for all objectives, and ``verdict`` that of the row.
        """
        shared = {"knob": self.knob, "overall": self.word}
        decided = self.word in (UNTESTED, REJECTED) or self.is_settled_by_screening
        rows = [
            {
                **shared,
                "objective": objective,
                "verdict": self.word if decided else comparison.word,
                **comparison.to_dict(),
            }
            for objective, comparison in (*self.comparisons.items(), *(("", guard) for guard in self.guards))
        ]
        return rows or [{**shared, "objective": "", "verdict": self.word}]


class Judgement:
    """The result of an ablation: verdicts in the order of the plan, rounds, and faults that void all verdicts."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Judge a document that ``validate_document`` has returned."""
        self.rounds = measured_rounds.rounds_of_document(document)
        plan = document["plan"]
        self.objectives = order_objectives(plan)
        arms = {arm["name"]: arm for arm in plan["arms"]}
        rules = {setting_class: make_decision_rule(plan, setting_class) for setting_class in schedule.REPETITIONS}
        ablation = {
            setting_class: [
                measured
                for measured in self.rounds
                if (measured.setting_class, measured.phase) == (setting_class, schedule.ABLATION)
            ]
            for setting_class in schedule.REPETITIONS
        }
        twins = {
            setting_class: compare_objectives(rounds, schedule.AGAIN, plan, rules[setting_class], schedule.TUNED)
            for setting_class, rounds in ablation.items()
            if rounds
        }
        #: Class -> the comparison of the anchor with its twin, by the objective that decides.
        self.twins = {setting_class: next(iter(found.values())) for setting_class, found in twins.items() if found}
        setting_class = arms[schedule.STOCK]["class"]
        self.stock = compare_anchor_with_arm(
            ablation[setting_class], schedule.STOCK, measured_rounds.ONE_STREAM, rules[setting_class]
        )
        self.verdicts = [
            Verdict(arm["without"], arm["class"], REJECTED, plan["rejected"][arm["without"]])
            if arm["without"] in plan["rejected"]
            else _judge_setting(arm, ablation[arm["class"]], rules[arm["class"]], plan)
            for arm in plan["arms"]
            if arm["without"] is not None
        ]
        self.verdicts += [Verdict(name, "", UNTESTED, reason) for name, reason in sorted(plan["untested"].items())]
        screening_rule = make_decision_rule(plan, schedule.RESTART)
        by_objective = estimate_screened_effects(self.rounds, arms, self.objectives, screening_rule.alpha)
        for verdict in self.verdicts if self.objectives[0] in by_objective else ():
            screened = {
                name: effects.intervals[verdict.knob]
                for name, effects in by_objective.items()
                if verdict.knob in effects.intervals
            }
            _settle_by_screening(verdict, screened, screening_rule.zone)
        #: The noise of an arm in the screening, None without one, by the objective that decides.
        self.screening_value_sd = next((effects.value_sd for effects in by_objective.values()), None)
        #: The effects that the screening estimates, by setting, as log ratios.
        self.screened = {verdict.knob: verdict.screened for verdict in self.verdicts if verdict.screened}
        every_twin = [(name, twin) for name, by_objective in twins.items() for twin in by_objective.values()]
        self.faults = soundness.find_soundness_faults(document, self.rounds, every_twin)
        for verdict in self.verdicts if self.faults else ():
            if verdict.word in TESTED_WORDS:
                verdict.word, verdict.reason = UNDECIDED, "the run is not sound"
        #: The verdicts on other builds, engines and models.
        self.variants = variant_verdicts.judge_variants(document, self.rounds, not self.faults)
        self.running_name = variant_verdicts.name_of_running_instance(document)
        self.confirmation = Confirmation(document, self.rounds)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows of all variants and settings, each as ``to_rows`` of their verdict returns them."""
        rows_of_variants = [row for variant in self.variants for row in variant.to_rows()]
        return rows_of_variants + [row for verdict in self.verdicts for row in verdict.to_rows()]

    def verdicts_by_gain(self) -> list[Verdict]:
        """Return the verdicts sorted by gain, the largest first; verdicts without an interval come last."""
        return sorted(
            self.verdicts,
            key=lambda verdict: (
                -verdict.deciding_comparison.interval.mean
                if verdict.deciding_comparison and verdict.deciding_comparison.interval
                else math.inf,
                verdict.knob,
            ),
        )

    def undecided_settings(self, setting_class: str) -> list[str]:
        """Return the settings and variants of a class that need another round."""
        return [
            *(v.knob for v in self.verdicts if v.needs_rounds and v.setting_class == setting_class),
            *(v.arm for v in self.variants if v.needs_rounds and setting_class == schedule.RESTART),
        ]

    def settings_proven_to_help_or_hurt(self) -> list[str]:
        """Return the settings that are proven to pay or to hurt in any objective."""
        return [verdict.knob for verdict in self.verdicts if verdict.word in (PAYS, HURTS, MIXED)]

    def settings_to_leave_out(self) -> list[str]:
        """Return the settings that the kept settings lack, in the order of the plan."""
        return [verdict.knob for verdict in self.verdicts if verdict.is_left_out]


def _settle_by_screening(verdict: Verdict, screened: Mapping[str, Interval], zone: float) -> None:
    """Set the verdict of an open setting to nothing where a screening shows an effect in no objective.

    ``screened`` has the effect on each objective, on the deciding one first. That one must lie in the zone, and the
    others must not differ from 1.
    """
    if not screened:
        return
    deciding, *others = screened.values()
    moved = [interval for interval in others if interval.low > 0 or interval.high < 0]
    verdict.screened = max([deciding, *moved], key=lambda interval: abs(interval.mean))
    in_zone = deciding.low >= -zone and deciding.high <= zone
    if verdict.word in (UNTESTED, UNDECIDED) and in_zone and not moved:
        verdict.word, verdict.needs_rounds, verdict.is_settled_by_screening = NOTHING, False, True
        verdict.reason = f"by the screening: {format_interval(deciding)}"


def _judge_setting(
    arm: Mapping[str, Any], rounds: Sequence[Round], rule: DecisionRule, plan: Mapping[str, Any]
) -> Verdict:
    name, setting_class = arm["name"], arm["class"]
    verdict = Verdict(arm["without"], setting_class, UNDECIDED)
    verdict.taints = any(address.startswith(TAINTING_PREFIX) for address in arm["settings"])
    unchanged = next((r.number for r in rounds if arm["settings"] and _removal_had_no_effect(r, name)), None)
    if unchanged is not None:
        verdict.word, verdict.reason = REJECTED, f"in round {unchanged} its settings read back as those of the anchor"
        return verdict
    verdict.comparisons = compare_objectives(rounds, name, plan, rule, schedule.TUNED)
    count = max((found.count for found in verdict.comparisons.values()), default=0)
    least = 1 if setting_class != schedule.REBOOT else rule.least
    tried = sum(name in r.planned_arms for r in rounds)
    may_continue = count < schedule.MAX_ROUNDS and tried < schedule.MAX_ROUND_TRIES
    verdict.needs_rounds = may_continue
    if count < least:
        verdict.word = UNTESTED
        verdict.reason = (
            f"{count} of {least} {schedule.REPETITIONS[setting_class].name}{'' if least == 1 else 's'} count"
        )
        return verdict
    verdict.guards = compare_guard_metrics(rounds, name, plan, rule, schedule.TUNED)
    present = measured_rounds.list_metrics(rounds)
    verdict.details = [compare_anchor_with_arm(rounds, name, key, rule) for key in DETAILS if key in present]
    verdict.differing_texts, verdict.compared_texts = count_differing_texts(rounds, name)
    if order_objectives(plan)[0] not in verdict.comparisons:
        verdict.needs_rounds = False
        verdict.reason = f"{order_objectives(plan)[0]}, by which this run decides, was not measured"
        return verdict
    words = [found.word for found in verdict.comparisons.values()]
    verdict.word = combine_verdict_words(words, [guard.word for guard in verdict.guards])
    verdict.needs_rounds = may_continue and _can_rounds_decide(verdict)
    verdict.reason = _reason_of_verdict_word(verdict, tried)
    return verdict


def _can_rounds_decide(verdict: Verdict) -> bool:
    """Return whether the deciding objective is open, or whether a setting that hurts may gain elsewhere."""
    primary = next(iter(verdict.comparisons.values()))
    if primary.word == UNDECIDED:
        return not primary.is_limited_by_prompts
    return verdict.word == HURTS and verdict.has_open_gain


def _reason_of_verdict_word(verdict: Verdict, tried: int) -> str:
    """Return why a word is no plain result of the deciding objective; an empty text where it is."""
    named = [*verdict.comparisons.items(), *((format_metric_name(guard), guard) for guard in verdict.guards)]
    moved = [f"{name} {found.format_ratio()}" for name, found in named if found.word in (PAYS, HURTS)]
    primary = next(iter(verdict.comparisons.values()))
    if verdict.word == MIXED or (verdict.word in (PAYS, HURTS) and primary.word != verdict.word):
        return ", ".join(moved)
    gains = [guard for guard in verdict.guards if guard.word == PAYS and not guard.key[1]]
    if verdict.word == NOTHING and gains:
        listed = ", ".join(f"{format_metric_name(guard)} {guard.format_ratio()}" for guard in gains)
        return f"it gains where this run was not asked to judge: {listed}"
    if primary.word != UNDECIDED or verdict.needs_rounds:
        return ""
    if primary.is_limited_by_prompts:
        return f"its effect differs between the {primary.prompts} prompts: more prompts would decide, not more rounds"
    return f"{primary.count} rounds that count, of {tried}, did not decide"


def _removal_had_no_effect(measured: Round, name: str) -> bool:
    digests = measured.settings_digests
    return bool(digests.get(name, set()) & digests.get(schedule.TUNED, set()))
