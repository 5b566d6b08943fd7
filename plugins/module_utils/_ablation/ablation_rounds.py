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

from .._bench.planning.costs import Costs
from .._bench.planning.precision import ASSUMED_NOISE, best_passes_per_start
from .._bench.planning.race import FIXED_RACE_ARMS, Question, RaceRules
from .._bench.planning.time_plan import TimePlan, expected_effect, make_round_seconds, unsettled_remark
from .._bench.rounds import measured_rounds, schedule
from .._bench.rounds.limits import MAX_DISCARDED_IN_A_ROW
from .._bench.verdicts.setting_verdicts import Judgement
from .._errors import BadRequest
from . import removable_options
from .screening_rounds import ScreeningRounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from .._bench.load.answer import Sample
    from .round_runner import RoundRunner

#: A setting is raced after the screening where its estimate is above this share of half its interval: about two
#: standard errors.
LIKELY_SHARE = 0.6
#: Classes whose settings are measured without a boot.
MEASURED_CLASSES = (schedule.LIVE, schedule.RESTART)


class AblationRounds:
    """The rounds of an ablation of ``settings``, which are given as ``build_ablation_arms`` takes them.

    ``max_rounds`` limits the rounds of the race of each class.
    """

    def __init__(self, runner: RoundRunner, settings: Sequence[Mapping[str, Any]], max_rounds: int) -> None:
        self.runner = runner
        self.plan = runner.plan
        measurable = [
            setting
            for setting in settings
            if setting["class"] in MEASURED_CLASSES and setting["name"] not in self.plan["rejected"]
        ]
        #: The class of each setting and variant that is measured here.
        self._classes: dict[str, str] = {setting["name"]: setting["class"] for setting in measurable}
        self._classes.update((arm["name"], arm["class"]) for arm in self.plan["arms"] if schedule.is_variant(arm))
        stock = next(arm for arm in self.plan["arms"] if arm["name"] == schedule.STOCK)
        self._stock_class: str = stock["class"]
        #: Whether stock is measured: it leaves something out, and no boot is needed for it.
        self._confirms = bool(stock["removed"]) and self._stock_class in MEASURED_CLASSES
        self._max_rounds = max_rounds
        self._screening = ScreeningRounds(runner, measurable, self._measure_round)
        self._noise = ASSUMED_NOISE
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
        compared = (len(self._classes) + FIXED_RACE_ARMS) * len(self.plan["objectives"])
        requests = self.runner.requests
        return RaceRules(
            make_round_seconds(self.runner.costs, requests.__getitem__),
            lambda setting_class: self._noise.ratio_sd(setting_class, requests[setting_class]),
            self.plan["alpha"] / compared,
            math.log1p(self.plan["zone"]),
        )

    def _require_time_to_confirm(self) -> None:
        """Say what the time settles, and reserve the time of the confirmation; BadRequest where it has not enough."""
        budget = self.runner.budget
        confirmation_class = self._stock_class if self._confirms else None
        time_plan = TimePlan(self._classes, self.runner.costs, self._make_race_rules(), confirmation_class)
        left, spent = budget.seconds_left(), self.runner.seconds_spent()
        if self._confirms:
            message = time_plan.shortage_message(left, spent)
            if message:
                raise BadRequest(message)
            arms = 3 if time_plan.confirmation_seconds() <= left else 2
            seconds = self.runner.round_seconds(self._stock_class, arms)
            budget.reserve_rounds(schedule.CONFIRMATION_ROUNDS, seconds)
        description = time_plan.describe(left)
        self.runner.report_step(description)
        self.runner.run.document["remarks"].append(description)

    def _update_passes(self) -> None:
        """Set how often an arm is sent all prompts, from the costs and the noise until now."""
        costs = self.runner.costs
        self.runner.requests[schedule.RESTART] = best_passes_per_start(costs, self._noise)
        # Arms that share a start share its costs too, and a ratio of two of them does not have the noise of a start.
        shared = Costs(costs.start_s / (FIXED_RACE_ARMS + 1), costs.pass_s)
        self.runner.requests[schedule.LIVE] = best_passes_per_start(shared, self._noise)

    # Screening and race

    def _screen_and_race(self) -> None:
        rules = self._make_race_rules()
        least_race = rules.race_seconds([max(self._open_questions(), key=lambda question: question.effect)])
        if self._screening.can_measure_fold(self.runner.budget.free_seconds() - least_race):
            self._screening.measure_fold()
        while True:
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
        questions = self._open_questions()
        race = rules.choose_race([question for question in questions if self._is_likely(question)], seconds)
        if race:
            return race
        if self._screening.can_measure_fold(min(seconds, rules.race_seconds_of_all_classes(questions))):
            self._screening.measure_fold()
            return None
        return rules.choose_race(questions, seconds)

    def _open_questions(self) -> list[Question]:
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

    def _is_likely(self, question: Question) -> bool:
        """Return whether a setting probably has an effect; before a screening each setting may have one."""
        screened = self._judge_run().screened.get(question.name)
        return screened is None or abs(screened.mean) > LIKELY_SHARE * (screened.high - screened.mean)

    def _add_remark_on_unsettled_settings(self) -> None:
        """Add a remark where settings are not settled because the time is over."""
        questions = self._open_questions()
        rules = self._make_race_rules()
        missing = rules.race_seconds_of_all_classes(questions) - self.runner.budget.free_seconds()
        if questions and missing > 0:
            names = [question.name for question in questions]
            self.runner.run.document["remarks"].append(unsettled_remark(names, missing))

    # The confirmation

    def _confirm_kept_settings(self) -> None:
        """Compare the kept settings with stock and tuned in new rounds, if any round counts."""
        judgement = self._judge_run()
        rounds = [measured for measured in judgement.rounds if measured.phase != schedule.PROBE]
        if not self._confirms or judgement.faults or (rounds and all(r.discard_reason for r in rounds)):
            return
        arms = {arm["without"]: arm for arm in self.plan["arms"] if arm["without"]}
        removed = [arms[name] for name in judgement.settings_to_leave_out() if name in arms]
        names = [schedule.STOCK, schedule.TUNED]
        if removed:
            self.plan["arms"].append(schedule.build_kept_arm(removed, self._stock_class))
            names.append(schedule.KEPT)
        self.runner.budget.release_reserve()
        for tries in range(1, 3 * schedule.CONFIRMATION_ROUNDS + 1):
            if not self.runner.can_measure_round(self._stock_class, len(names)):
                return
            self._measure_round(self._stock_class, schedule.CONFIRMATION, names)
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
            self.runner.reject(speculation, f"{drafted[name]} tokens were guessed without it")
        elif not drafted[schedule.TUNED]:
            self.runner.reject(speculation, "nothing is guessed with it in these prompts, so nothing is left out")
