# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rounds of an ablation: which rounds are measured in the given time, from the probe to the confirmation.

- The probe measures the anchor alone, for the costs of a start and of a pass. A run that cannot even confirm in its
  time ends there, with the minutes that it needs. The time of the confirmation is reserved before all else.
- The screening estimates the effects of all settings at once. It proves no gain: it shows which settings have none.
- The race leaves out one setting at a time, of those that may have an effect, the most effect per minute first.
- The confirmation compares what is kept with stock and tuned in new rounds.
"""

from __future__ import annotations

import math

from .._bench.planning.precision import ASSUMED_NOISE, Noise
from .._bench.planning.race import Question, RaceRules, best_passes_by_class
from .._bench.planning.time_plan import TimePlan, expected_effect, unsettled_settings_message
from .._bench.rounds import measured_rounds, schedule
from .._bench.rounds.limits import MAX_DISCARDED_IN_A_ROW
from .._bench.rounds.noise_estimate import estimate_noise
from .._bench.verdicts.comparison import make_decision_rule
from .._bench.verdicts.setting_verdicts import Judgement
from .._errors import BadRequest
from . import removable_options
from .screening_rounds import ScreeningRounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from .._bench.load.answer import Sample
    from .._bench.planning.costs import Costs
    from .round_runner import RoundRunner

#: A setting is raced after the screening where its estimate is above this share of half its interval: about two
#: standard errors.
LIKELY_SHARE = 0.6
#: The largest share of the time for which a confirmation may have more than one pass to a start.
CONFIRMATION_SHARE = 0.3
#: Classes whose settings are measured without a boot.
MEASURED_CLASSES = (schedule.LIVE, schedule.RESTART)


class AblationRounds:
    """The rounds of an ablation of ``settings``, which are given as ``build_ablation_arms`` takes them.

    ``max_rounds`` limits the rounds of the race of each class.
    """

    def __init__(self, runner: RoundRunner, settings: Sequence[Mapping[str, Any]], max_rounds: int) -> None:
        self.runner = runner
        self.plan = runner.plan
        self._classes = classes_of_questions(self.plan)
        self._confirmation_class = find_confirmation_class(self.plan)
        self._max_rounds = max_rounds
        measurable = [setting for setting in settings if setting["name"] in self._classes]
        self._screening = ScreeningRounds(runner, measurable, self._measure_round)
        self._noise = ASSUMED_NOISE
        #: The number of arms for whose confirmation time is reserved.
        self._confirmed_arms = 2
        self._judgement: Judgement | None = None

    def measure_all_rounds(self) -> None:
        """Measure all rounds that do not need a boot; BadRequest where the time does not suffice to confirm."""
        if not self._classes:
            return
        self.runner.measure_probe()
        self._update_passes()
        self._require_time_to_confirm()
        self._screen_and_race()
        self._add_remark_on_unsettled_settings()
        self._confirm_kept_settings()

    # The time

    def _make_race_rules(self) -> RaceRules:
        return make_race_rules(self.plan, self.runner.costs, self._noise, self.runner.requests)

    def _require_time_to_confirm(self) -> None:
        """Say what the time settles, and reserve the time of the confirmation; BadRequest where it has not enough."""
        time_plan = TimePlan(self._classes, self._make_race_rules(), self._confirmation_class)
        left = self.runner.budget.seconds_left()
        message = time_plan.shortage_message(left, self.runner.seconds_spent())
        if message:
            raise BadRequest(message)
        description = time_plan.describe_settled_settings(left)
        self.runner.report_step(description)
        self.runner.run.document["remarks"].append(description)
        # Without time for a race no setting will be left out of kept, so that only stock and tuned are confirmed.
        self._reserve_confirmation(3 if time_plan.seconds_to_settle(1) <= left else 2)

    def _reserve_confirmation(self, arms: int) -> None:
        """Reserve the time for the confirmation of so many arms, by the costs until now."""
        self._confirmed_arms = arms
        if self._confirmation_class:
            seconds = self.runner.round_seconds(self._confirmation_class, arms)
            self.runner.budget.reserve_rounds(schedule.CONFIRMATION_ROUNDS, seconds)

    def _update_passes(self) -> None:
        """Set how often an arm is sent all prompts, from the costs and the noise until now.

        More passes are worth nothing where they take the time of the confirmation.
        """
        self._noise = self._estimate_noise()
        most_seconds = CONFIRMATION_SHARE * self.runner.budget.seconds_left()
        for setting_class, passes in best_passes_by_class(self.runner.costs, self._noise).items():
            confirmation = schedule.CONFIRMATION_ROUNDS * self.runner.costs.round_seconds(setting_class, 3)
            pass_seconds = self.runner.costs.round_seconds(setting_class, 3, 2) * schedule.CONFIRMATION_ROUNDS
            more = max(0.0, most_seconds - confirmation) / (pass_seconds - confirmation)
            self.runner.requests[setting_class] = min(passes, 1 + int(more))

    def _estimate_noise(self) -> Noise:
        """Return the noise of passes and starts; what the rounds until now do not show is assumed."""
        judgement = self._judge_run()
        known = estimate_noise(judgement.rounds)
        pass_sd = ASSUMED_NOISE.pass_sd if known.pass_sd is None else known.pass_sd
        start_sd = known.start_sd
        value_sd = judgement.screening_value_sd
        if start_sd is None and value_sd is not None and self._screening.setting_class == schedule.RESTART:
            start_sd = math.sqrt(max(0.0, value_sd**2 - pass_sd**2))
        return Noise(pass_sd, ASSUMED_NOISE.start_sd if start_sd is None else start_sd)

    # Screening and race

    def _screen_and_race(self) -> None:
        dearest = sorted(self._list_settings_needing_rounds(), key=lambda question: -question.effect)[:1]
        least_race_seconds = self._make_race_rules().estimate_seconds_to_decide(dearest)
        if self._screening.can_measure_fold(self.runner.budget.free_seconds() - least_race_seconds):
            self._screening.measure_fold()
            self._update_passes()
        while True:
            self._reserve_confirmation(self._confirmed_arms)
            race = self._choose_race_or_measure_fold()
            if race is None:
                continue
            if not race:
                return
            names = [question.name for question in race]
            setting_class = race[0].setting_class
            arm_names = schedule.arm_names_of_round(self.plan["arms"], setting_class, names)
            self._measure_round(setting_class, schedule.ABLATION, arm_names)

    def _choose_race_or_measure_fold(self) -> list[Question] | None:
        """Return the questions of the next round of the race, none for the end; None after another fold."""
        rules, seconds = self._make_race_rules(), self.runner.budget.free_seconds()
        questions = self._list_settings_needing_rounds()
        race = rules.choose_questions_of_next_round(
            [question for question in questions if self._has_probable_effect(question)], seconds
        )
        if race:
            return race
        if self._screening.can_measure_fold(min(seconds, rules.estimate_seconds_to_decide_all_classes(questions))):
            self._screening.measure_fold()
            return None
        return rules.choose_questions_of_next_round(questions, seconds)

    def _list_settings_needing_rounds(self) -> list[Question]:
        """Return the settings that need more rounds and whose class may have more."""
        judgement = self._judge_run()
        questions: list[Question] = []
        if measured_rounds.last_rounds_all_discarded(judgement.rounds):
            return questions
        for setting_class in MEASURED_CLASSES:
            phase = (setting_class, schedule.ABLATION)
            rounds = [measured for measured in judgement.rounds if (measured.setting_class, measured.phase) == phase]
            planned = sum((planned["class"], planned["phase"]) == phase for planned in self.plan["order"])
            if planned >= self._max_rounds or (len(rounds) >= MAX_DISCARDED_IN_A_ROW and judgement.faults):
                continue
            for name in judgement.undecided_settings(setting_class):
                count = sum(not r.discard_reason and schedule.removal_arm_name(name) in r.levels for r in rounds)
                questions.append(Question(name, setting_class, self._estimate_effect(name), count))
        return questions

    def _estimate_effect(self, name: str) -> float:
        screened = self._judge_run().screened.get(name)
        return screened.mean if screened else expected_effect(name)

    def _has_probable_effect(self, question: Question) -> bool:
        """Return whether a setting probably has an effect; before a screening each setting may have one."""
        screened = self._judge_run().screened.get(question.name)
        return screened is None or abs(screened.mean) > LIKELY_SHARE * (screened.high - screened.mean)

    def _add_remark_on_unsettled_settings(self) -> None:
        """Add a remark where settings are not settled because the time is over."""
        questions = self._list_settings_needing_rounds()
        rules = self._make_race_rules()
        missing = rules.estimate_seconds_to_decide_all_classes(questions) - self.runner.budget.free_seconds()
        if questions and missing > 0:
            names = [question.name for question in questions]
            self.runner.run.document["shortages"].append(unsettled_settings_message(names, missing))

    # The confirmation

    def _confirm_kept_settings(self) -> None:
        """Compare the kept settings with stock and tuned in new rounds, if any round counts."""
        judgement = self._judge_run()
        rounds = [measured for measured in judgement.rounds if measured.phase != schedule.PROBE]
        setting_class = self._confirmation_class
        if setting_class is None or judgement.faults or (rounds and all(r.discard_reason for r in rounds)):
            return
        arms = {arm["without"]: arm for arm in self.plan["arms"] if arm["without"]}
        removed = [arms[name] for name in judgement.settings_to_leave_out() if name in arms]
        names = [schedule.STOCK, schedule.TUNED]
        if removed:
            self.plan["arms"].append(schedule.build_kept_arm(removed, setting_class))
            names.append(schedule.KEPT)
        self.runner.budget.release_reserve()
        for tries in range(1, 3 * schedule.CONFIRMATION_ROUNDS + 1):
            if not self.runner.can_measure_round(setting_class, len(names)):
                return
            self._measure_round(setting_class, schedule.CONFIRMATION, names)
            fresh = [measured for measured in self._judge_run().rounds if measured.phase == schedule.CONFIRMATION]
            counting = sum(not measured.discard_reason for measured in fresh)
            if counting >= schedule.CONFIRMATION_ROUNDS or (tries >= MAX_DISCARDED_IN_A_ROW and not counting):
                return

    # Rounds

    def _judge_run(self) -> Judgement:
        """Return the judgement of all rounds until now."""
        if self._judgement is None:
            self._judgement = Judgement(self.runner.run.document)
        return self._judgement

    def _measure_round(self, setting_class: str, phase: str, names: Sequence[str]) -> None:
        self._reject_ineffective_speculation(self.runner.measure_round(setting_class, phase, names))
        self._judgement = None
        self.runner.run.save()

    def _reject_ineffective_speculation(self, samples: Collection[Sample]) -> None:
        """Reject the arm without speculation where it drafts tokens, or where tuned drafts no tokens."""
        speculation = removable_options.SPECULATION
        name = schedule.removal_arm_name(speculation)
        drafted = {
            arm: sum(sample["drafted"] for sample in samples if sample["arm"] == arm) for arm in (name, schedule.TUNED)
        }
        if not any(sample["arm"] == name for sample in samples):
            return
        if drafted[name]:
            self.runner.record_rejection_reason(speculation, f"{drafted[name]} tokens were guessed without it")
        elif not drafted[schedule.TUNED]:
            self.runner.record_rejection_reason(
                speculation, "nothing is guessed with it in these prompts, so nothing is left out"
            )


def classes_of_questions(plan: Mapping[str, Any]) -> dict[str, str]:
    """Return the class of each setting and variant of a plan that is measured without a boot."""
    subjects = {schedule.rejectable_setting_or_candidate(arm): arm["class"] for arm in plan["arms"]}
    return {
        name: setting_class
        for name, setting_class in subjects.items()
        if name is not None and setting_class in MEASURED_CLASSES and name not in plan["rejected"]
    }


def find_confirmation_class(plan: Mapping[str, Any]) -> str | None:
    """Return the class of stock; None where nothing is confirmed: stock lacks nothing, or needs a boot."""
    stock = next(arm for arm in plan["arms"] if arm["name"] == schedule.STOCK)
    return stock["class"] if stock["removed"] and stock["class"] in MEASURED_CLASSES else None


def make_race_rules(plan: Mapping[str, Any], costs: Costs, noise: Noise, passes: Mapping[str, int]) -> RaceRules:
    """Return what the race of a plan costs and needs."""
    rule = make_decision_rule(plan, schedule.RESTART)
    return RaceRules(costs, noise, passes, rule.alpha, rule.zone)
