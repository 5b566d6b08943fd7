# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tuning of one instance: candidates are planned and measured, and the best one has to beat the default.

However it ends, the instance runs as its unit says afterwards. The result is only in the document of the run.
"""

from __future__ import annotations

import math
import time

from .._ablation.round_runner import (
    SEARCH_TIME_SHARE,
    conduct_run,
    format_error_line,
    parse_time_and_seed,
)
from .._bench import progress
from .._bench.rounds import measured_rounds, schedule
from .._bench.rounds.limits import MAX_DISCARDED_IN_A_ROW
from .._bench.run import Run
from .._bench.statistics.confidence_interval import mean
from .._bench.target.measured_instance import find_instance
from .._bench.verdicts.tuning_result import TuningResult
from .._errors import BadRequest, TuningError
from .._host.host import Host
from .candidates import Candidates
from .search import DEFAULT, MAX_RACE_ROUNDS, Search
from .search_space import SearchSpace, build_search_space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .._ablation.arm_switch import InstanceVariant
    from .._ablation.round_runner import RoundRunner
    from .._bench.load.request import MeasuringRequest
    from .._bench.target.measured_instance import MeasuredInstance
    from .search import Candidate


class TuningRequest:
    """Options of a tuning beside those of a benchmark: the instance, and ``only`` some options to try.

    ``intent`` is what the instance was planned with, None for the stored intent of the host.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """Read options by name; BadRequest for an invalid one."""
        self.instance: dict[str, Any] = dict(raw["instance"])
        name = self.instance.get("name")
        if name is not None and not isinstance(name, str):
            raise BadRequest(f"instance: name is '{name}': say the name of an instance, which is one text.")
        self.intent: dict[str, Any] | None = raw.get("intent")
        self.only: list[str] | None = raw.get("options")
        self.minutes, self.seed = parse_time_and_seed(raw)


def run_tuning(
    host: Host, asked: MeasuringRequest, wanted: TuningRequest, tell: Callable[[str], None], clock: Any = time
) -> tuple[str, dict[str, Any]]:
    """Find the best options; return the path of the document, and the document.

    ``tell`` is called with a line on each step. BadRequest or TuningError where the run cannot begin or be
    completed: then the instance runs as before, and the samples until then are in the file.
    """
    with progress.exclusive_run():
        target, candidates, found = _prepare_tuning(host, asked, wanted, clock)
        arms = schedule.build_tuning_arms(found.default)
        run = Run(host, target, asked, arms, wanted.seed, budget_s=60 * wanted.minutes)
        variants: dict[str, InstanceVariant] = {}
        return conduct_run(
            run,
            asked,
            wanted.minutes,
            lambda arm: variants.get(arm["name"], candidates.own),
            lambda runner: _TuningRounds(runner, candidates, found, variants).run_rounds(),
            tell,
            clock,
        )


def describe_tuning(host: Host, asked: MeasuringRequest, wanted: TuningRequest) -> tuple[str, str]:
    """Return the name of the instance, and sentences on what would be tried; raises as run_tuning."""
    target, dummy, found = _prepare_tuning(host, asked, wanted, time)
    tried = "; ".join(
        f"{option} {', '.join(str(value) for value in values)} (it is {found.default[option]})"
        for option, values in found.values.items()
    )
    return target.name, f"{target.name} would be started anew again and again, with other options: {tried}."


def _prepare_tuning(
    host: Host, asked: MeasuringRequest, wanted: TuningRequest, clock: Any
) -> tuple[MeasuredInstance, Candidates, SearchSpace]:
    target = find_instance(host, wanted.instance.get("name"), asked.answer_timeout, clock)
    planner = host if wanted.intent is None else Host(host.fs, wanted.intent)
    candidates = Candidates(planner, wanted.instance, target)
    found = build_search_space(candidates.service, planner)
    if wanted.only is not None:
        found.limit_to(wanted.only)
    if not found.values:
        raise BadRequest(f"{target.name} has no option that may be tried.")
    return target, candidates, found


class _TuningRounds:
    """The rounds of one tuning: those of the search, then those that confirm its result."""

    def __init__(
        self, runner: RoundRunner, candidates: Candidates, space: SearchSpace, variants: dict[str, InstanceVariant]
    ) -> None:
        self.runner = runner
        self.candidates = candidates
        self.variants = variants
        self.search = Search(space.values, space.default, self.measure_levels)
        #: Candidate -> the name of its arm, an empty text for a rejected one.
        self.names: dict[Candidate, str] = {DEFAULT: schedule.DEFAULT}

    def run_rounds(self) -> None:
        """Search the best candidate, and confirm it."""
        best = self.search.run()
        if best != DEFAULT:
            self._confirm_best(self.names[best])

    def measure_levels(self, phase: str, candidates: Sequence[Candidate]) -> dict[Candidate, float] | None:
        """Measure until a round counts; return the level of each candidate, None where the time is over."""
        for candidate in candidates:
            if candidate not in self.names:
                self._add_candidate_arm(candidate, phase)
        for dummy in range(MAX_DISCARDED_IN_A_ROW):
            if self.runner.time_share_spent() > SEARCH_TIME_SHARE:
                return None
            names = {candidate: self.names[candidate] for candidate in candidates}
            there = {
                candidate: name
                for candidate, name in names.items()
                if name and name not in self.runner.plan["rejected"]
            }
            one = self._measure_round(phase, list(there.values()))
            if not one.discard_reason:
                return {candidate: one.levels[name][measured_rounds.WHOLE_REQUEST] for candidate, name in there.items()}
        raise TuningError(
            f"{MAX_DISCARDED_IN_A_ROW} rounds in a row do not count; the last one: {one.discard_reason.rstrip('.')}."
        )

    def _add_candidate_arm(self, candidate: Candidate, phase: str) -> None:
        """Add the arm of a candidate with its predicted rate, or reject the candidate."""
        plan = self.runner.plan
        arm = schedule.build_candidate_arm(len(plan["arms"]) - 1, dict(candidate))
        plan["arms"].append(arm)
        name = self.names[candidate] = arm["name"]
        try:
            self.variants[name] = self.candidates.variant(arm["options"], name)
        except BadRequest as error:
            self.runner.reject(name, format_error_line(error))
            return
        if phase != schedule.SWEEP:
            plan["predicted"][name] = self._default_rate() * math.exp(self.search.predict_gain(candidate))

    def _default_rate(self) -> float:
        """Return the tokens per second of the default in the sweep, the basis of predictions."""
        those = [
            measured
            for measured in measured_rounds.rounds_of_document(self.runner.run.document)
            if measured.phase == schedule.SWEEP and not measured.discard_reason
        ]
        return 1000 * math.exp(
            mean([measured.levels[schedule.DEFAULT][measured_rounds.WHOLE_REQUEST] for measured in those])
        )

    def _measure_round(self, phase: str, names: Sequence[str]) -> measured_rounds.Round:
        self.runner.measure_round(schedule.RESTART, phase, names)
        self.runner.run.save()
        return measured_rounds.rounds_of_document(self.runner.run.document)[-1]

    def _confirm_best(self, best: str) -> None:
        """Compare the best candidate with the default and its twin in new rounds, until it is decided."""
        good = tried = 0
        while tried < 2 * MAX_RACE_ROUNDS and self.runner.time_share_spent() < 1:
            good += not self._measure_round(
                schedule.CONFIRMATION, [schedule.DEFAULT, schedule.AGAIN, best]
            ).discard_reason
            tried += 1
            if (
                good >= schedule.CONFIRMATION_ROUNDS and TuningResult(self.runner.run.document).is_decided
            ) or good >= MAX_RACE_ROUNDS:
                return
            if tried >= MAX_DISCARDED_IN_A_ROW and not good:
                return
