# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict on each setting of an ablation, from the samples alone.

One metric decides: decoded tokens per second with one stream, as the geometric mean over the kinds of prompts. Prefill,
several streams and each kind by itself are guards: a proven loss of a guard forbids the verdict "pays". All comparisons
with the anchor share the probability of a false claim, so it holds for the whole run.

With speculation, tokens per second depend on the generated text. Where the texts of a speculating arm and of the anchor
differ, the time per step decides instead, and tokens per step must not contradict it.
"""

from __future__ import annotations

import math

from ..rounds import measured_rounds, schedule
from . import soundness, variant_verdicts
from .comparison import (
    HURTS,
    NOTHING,
    PAYS,
    UNDECIDED,
    DecisionRule,
    compare_anchor_with_arm,
    format_interval,
    format_metric_name,
)
from .confirmation import Confirmation
from .screened_effects import ScreenedEffects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Round
    from ..statistics.confidence_interval import Interval
    from .comparison import Comparison

UNTESTED, REJECTED = "not tested", "rejected"
#: The verdicts of measured settings.
TESTED_WORDS = (PAYS, HURTS, NOTHING, UNDECIDED)
OTHER_TEXT = "other text"
STEP_KEY, PER_STEP_KEY = (measured_rounds.STEPS, "", 1), (measured_rounds.PER_STEP, "", 1)


class Verdict:
    """The verdict on one setting: its word, a reason (may be empty), and the comparisons that it follows from."""

    def __init__(self, knob: str, setting_class: str, word: str, reason: str = "") -> None:
        self.knob = knob
        self.setting_class = setting_class
        self.word = word
        self.reason = reason
        self.primary: Comparison | None = None
        self.guards: list[Comparison] = []
        #: Whether more rounds may decide this setting.
        self.needs_rounds = False


class Judgement:
    """The result of an ablation: verdicts in the order of the plan, rounds, and faults that void all verdicts."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Judge a document that ``validate_document`` has returned."""
        self.rounds = measured_rounds.rounds_of_document(document)
        plan = document["plan"]
        arms = {arm["name"]: arm for arm in plan["arms"]}
        knobs = [arm for arm in plan["arms"] if arm["without"] is not None]
        compared = schedule.count_compared_arms(plan["arms"])
        rules = {
            setting_class: DecisionRule(plan["alpha"] / compared, math.log1p(plan["zone"]), rule.least)
            for setting_class, rule in schedule.REPETITIONS.items()
        }
        ablation = {
            setting_class: [
                measured
                for measured in self.rounds
                if (measured.setting_class, measured.phase) == (setting_class, schedule.ABLATION)
            ]
            for setting_class in schedule.REPETITIONS
        }
        self.twins = {
            setting_class: compare_anchor_with_arm(
                rounds, schedule.AGAIN, measured_rounds.ONE_STREAM, rules[setting_class]
            )
            for setting_class, rounds in ablation.items()
            if rounds
        }
        setting_class = arms[schedule.STOCK]["class"]
        self.stock = compare_anchor_with_arm(
            ablation[setting_class], schedule.STOCK, measured_rounds.ONE_STREAM, rules[setting_class]
        )
        self.verdicts = [
            Verdict(arm["without"], arm["class"], REJECTED, plan["rejected"][arm["without"]])
            if arm["without"] in plan["rejected"]
            else _judge_setting(arm, ablation[arm["class"]], rules[arm["class"]])
            for arm in knobs
        ]
        self.verdicts += [Verdict(name, "", UNTESTED, reason) for name, reason in sorted(plan["untested"].items())]
        #: The effects that the screening estimates, by setting, as log ratios.
        self.screened = ScreenedEffects(self.rounds, arms, plan["alpha"] / compared).intervals
        for verdict in self.verdicts:
            _settle_by_screening(verdict, self.screened.get(verdict.knob), math.log1p(plan["zone"]))
        self.faults = soundness.find_soundness_faults(document, self.rounds, self.twins)
        for verdict in self.verdicts if self.faults else ():
            if verdict.word in TESTED_WORDS:
                verdict.word, verdict.reason, verdict.needs_rounds = UNDECIDED, "the run is not sound", False
        #: The verdicts on other builds, engines and models.
        self.variants = variant_verdicts.judge_variants(document, self.rounds, not self.faults)
        self.running_name = variant_verdicts.name_of_running_instance(document)
        self.confirmation = Confirmation(document, self.rounds)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row of plain data for each setting, followed by a row for each guard; ratios may be None."""
        rows_of_variants = [row for variant in self.variants for row in variant.to_rows()]
        return rows_of_variants + [
            {"knob": verdict.knob, "verdict": word, **(comparison.to_dict() if comparison else {})}
            for verdict in self.verdicts
            for word, comparison in (
                (verdict.word, verdict.primary),
                *((guard.word, guard) for guard in verdict.guards),
            )
        ]

    def verdicts_by_gain(self) -> list[Verdict]:
        """Return the verdicts sorted by gain, the largest first; verdicts without an interval come last."""
        return sorted(
            self.verdicts,
            key=lambda verdict: (
                -verdict.primary.interval.mean if verdict.primary and verdict.primary.interval else math.inf,
                verdict.knob,
            ),
        )

    def undecided_settings(self, setting_class: str) -> list[str]:
        """Return the settings and variants of a class that need another round."""
        return [
            *(v.knob for v in self.verdicts if v.needs_rounds and v.setting_class == setting_class),
            *(v.arm for v in self.variants if v.needs_rounds and setting_class == schedule.RESTART),
        ]

    def proven_losses_of_variants(self) -> list[str]:
        """Return a sentence for each variant that is proven to be worse than the instance as it runs."""
        return [variant.headline(self.running_name) for variant in self.variants if variant.is_loss_proven]

    def settings_proven_to_help_or_hurt(self) -> list[str]:
        """Return the settings that are proven to pay or to hurt."""
        return [verdict.knob for verdict in self.verdicts if verdict.word in (PAYS, HURTS)]


def _settle_by_screening(verdict: Verdict, screened: Interval | None, zone: float) -> None:
    """Set the verdict of an undecided setting to nothing where its effect in the screening lies in the zone."""
    if verdict.word in (UNTESTED, UNDECIDED) and screened and -zone <= screened.low and screened.high <= zone:
        verdict.word, verdict.needs_rounds = NOTHING, False
        verdict.reason = f"by the screening: {format_interval(screened)}"


def _judge_setting(arm: Mapping[str, Any], rounds: Sequence[Round], rule: DecisionRule) -> Verdict:
    name, setting_class = arm["name"], arm["class"]
    verdict = Verdict(arm["without"], setting_class, UNDECIDED)
    unchanged = next((r.number for r in rounds if arm["settings"] and _removal_had_no_effect(r, name)), None)
    if unchanged is not None:
        verdict.word, verdict.reason = REJECTED, f"in round {unchanged} its settings read back as those of the anchor"
        return verdict
    verdict.primary = compare_anchor_with_arm(rounds, name, measured_rounds.ONE_STREAM, rule)
    count = verdict.primary.count
    least = 1 if setting_class != schedule.REBOOT else rule.least
    tried = sum(name in r.planned_arms for r in rounds)
    verdict.needs_rounds = count < schedule.MAX_ROUNDS and tried < schedule.MAX_ROUND_TRIES
    if count < least:
        verdict.word = UNTESTED
        verdict.reason = (
            f"{count} of {least} {schedule.REPETITIONS[setting_class].name}{'' if least == 1 else 's'} count"
        )
        return verdict
    texts_differ = any(_texts_differ(r, name) for r in rounds if not r.discard_reason)
    if texts_differ:
        _judge_by_step_time(verdict, rounds, name, rule)
    else:
        verdict.word = verdict.primary.word
        verdict.needs_rounds = verdict.needs_rounds and verdict.word == UNDECIDED
    keys = measured_rounds.guard_metrics(rounds, measured_rounds.STEPS if texts_differ else measured_rounds.DECODE)
    verdict.guards = [compare_anchor_with_arm(rounds, name, key, rule) for key in keys]
    lost = [guard for guard in verdict.guards if guard.word == HURTS]
    if verdict.word == PAYS and lost:
        verdict.word = UNDECIDED
        verdict.reason = f"better over all kinds, but {format_metric_name(lost[0])} loses: {lost[0].format_ratio()}"
    elif verdict.word == UNDECIDED and not verdict.reason and not verdict.needs_rounds:
        verdict.reason = f"{count} rounds that count, of {tried}, did not decide"
    return verdict


def _judge_by_step_time(verdict: Verdict, rounds: Sequence[Round], name: str, rule: DecisionRule) -> None:
    """Set the verdict by the time per step, unless tokens per step contradict it; for arms with different texts."""
    step, per_step = (compare_anchor_with_arm(rounds, name, key, rule) for key in (STEP_KEY, PER_STEP_KEY))
    verdict.primary = step
    verdict.reason = f"{OTHER_TEXT}: judged by time per step; tokens per step {per_step.format_ratio()}"
    words = (step.word, per_step.word)
    if words == (NOTHING, NOTHING):
        verdict.word = NOTHING
    elif step.word in (PAYS, HURTS) and per_step.word in (step.word, NOTHING):
        verdict.word = step.word
    verdict.needs_rounds = verdict.needs_rounds and UNDECIDED in words


def _texts_differ(measured: Round, name: str) -> bool:
    """Return whether an arm or tuned speculates and their texts differ; a missing digest counts as a difference."""
    if not {name, schedule.TUNED} & measured.speculating_arms or name not in measured.levels:
        return False
    return any(
        None in digests or digests != measured.texts.get((schedule.TUNED, kind))
        for (arm, kind), digests in measured.texts.items()
        if arm == name
    )


def _removal_had_no_effect(measured: Round, name: str) -> bool:
    digests = measured.settings_digests
    return bool(digests.get(name, set()) & digests.get(schedule.TUNED, set()))
