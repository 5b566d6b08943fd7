# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rounds of a screening: the arms of the design are measured, each beside the anchor and its mirror arm.

A round that is discarded is measured again. An arm that does not start is rejected: then each of its settings is
removed by itself, and a setting without which the server does not start is rejected instead and stays in all later
arms.
"""

from __future__ import annotations

from .._bench.planning import screening
from .._bench.rounds import schedule
from .._bench.rounds.measured_rounds import last_rounds_all_discarded, rounds_of_document
from .._errors import TuningError
from .arm_switch import RestoreFailed
from .round_runner import error_to_single_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .round_runner import RoundRunner

#: A screening is given up where more than this share of its arms do not start.
MAX_REJECTED_SHARE = 0.25


class ScreeningRounds:
    """The screening of settings, which are given as ``build_ablation_arms`` takes them.

    ``measure_round`` measures a round of a class and a phase with some arms, and saves the document.
    """

    def __init__(
        self,
        runner: RoundRunner,
        settings: Sequence[Mapping[str, Any]],
        measure_round: Callable[[str, str, Sequence[str]], None],
    ) -> None:
        self._runner = runner
        self._settings = {setting["name"]: setting for setting in settings}
        self._measure_round = measure_round
        self.setting_class = schedule.screening_class(setting["class"] for setting in settings)
        self.folds = 0
        #: Settings without which the server has started in an arm.
        self._removable: set[str] = set()
        self.is_given_up = len(settings) < screening.LEAST_SETTINGS

    def fold_seconds(self) -> float:
        """Return the seconds of a fold by the costs until now."""
        rounds = screening.count_fold_rounds(len(self._settings))
        return rounds * self._runner.round_seconds(self.setting_class, screening.ARMS_PER_ROUND)

    def can_measure_fold(self, seconds: float) -> bool:
        """Return whether another fold is allowed and takes at most ``seconds``."""
        return not self.is_given_up and self.folds < screening.MAX_FOLDS and self.fold_seconds() <= seconds

    def measure_fold(self) -> None:
        """Measure all arms of a fold, until the time is over or the screening is given up."""
        names = list(self._settings)
        waiting = screening.build_mirror_pairs(names, self._runner.run.document["seed"], self.folds)
        self.folds += 1
        while waiting and not self.is_given_up:
            if not self._runner.can_measure_round(self.setting_class, screening.ARMS_PER_ROUND):
                self.is_given_up = True
                return
            pairs = waiting[: screening.PAIRS_PER_ROUND]
            arms = [arm for pair in pairs for arm in map(self._find_or_add_arm, pair)]
            rejected = set(self._runner.plan["rejected"])
            arm_names = dict.fromkeys(arm["name"] for arm in arms if arm["name"] not in rejected)
            self._measure_round(self.setting_class, schedule.SCREENING, [schedule.TUNED, *arm_names])
            failed = [arm for arm in arms if arm["name"] in set(self._runner.plan["rejected"]) - rejected]
            for arm in failed:
                self._reject_settings_that_cannot_go(arm)
            rounds = [
                measured
                for measured in rounds_of_document(self._runner.run.document)
                if measured.phase == schedule.SCREENING
            ]
            self._removable.update(name for arm in arms if arm["name"] in rounds[-1].levels for name in arm["removed"])
            if not failed and not rounds[-1].discard_reason:
                waiting = waiting[screening.PAIRS_PER_ROUND :]
            self.is_given_up = last_rounds_all_discarded(rounds) or self._too_many_arms_rejected()

    def _find_or_add_arm(self, removed: Sequence[str]) -> Mapping[str, Any]:
        """Return the arm that leaves out these settings, without those that turned out not to be removable."""
        plan = self._runner.plan
        removable = [name for name in removed if name not in plan["rejected"]]
        screened = [arm for arm in plan["arms"] if schedule.is_screening_arm(arm)]
        arm = next((arm for arm in screened if arm["removed"] == removable), None)
        if arm is None:
            settings = [self._settings[name] for name in removable]
            arm = schedule.build_screening_arm(len(screened) + 1, settings, self.setting_class)
            plan["arms"].append(arm)
        return arm

    def _reject_settings_that_cannot_go(self, arm: Mapping[str, Any]) -> None:
        """Remove each setting of a failed arm by itself, unless it was removed before; reject those that fail."""
        runner, arms = self._runner, {arm["name"]: arm for arm in self._runner.plan["arms"]}
        for name in arm["removed"]:
            if name in self._removable or name in runner.plan["rejected"]:
                continue
            alone = arms[schedule.removal_arm_name(name)]
            try:
                runner.report_step(f"screening: {alone['name']} is tried by itself")
                runner.switch_to_arm(alone, self.setting_class)
                self._removable.add(name)
            except RestoreFailed:
                raise
            except TuningError as error:
                runner.record_rejection_reason(name, error_to_single_line(error))

    def _too_many_arms_rejected(self) -> bool:
        plan = self._runner.plan
        screened = [arm["name"] for arm in plan["arms"] if schedule.is_screening_arm(arm)]
        rejected = sum(name in plan["rejected"] for name in screened)
        pairs = 2 * screening.PAIRS_PER_ROUND
        return rejected > pairs and rejected > MAX_REJECTED_SHARE * len(screened)
