# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs a tuning: plans and measures candidates of one instance, and compares the best candidate with the default.

At the end of the run the instance has its own options again, even after an error. The result is only in the run
document.
"""

from __future__ import annotations

import math
import time

from .._ablation.candidates import Candidates
from .._ablation.round_runner import (
    SEARCH_TIME_SHARE,
    error_to_single_line,
    parse_minutes_and_seed,
    run_rounds_and_restore,
)
from .._bench import progress
from .._bench.rounds import measured_rounds, schedule
from .._bench.rounds.limits import MAX_DISCARDED_IN_A_ROW
from .._bench.run import Run
from .._bench.target.measured_instance import find_llama_instance
from .._bench.verdicts.tuning_result import TuningResult, mean_default_request_rate
from .._errors import BadRequest, TuningError
from .._host.host import Host
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
    """Options of a tuning beside those of every measurement: ``instance`` has the options of the instance.

    ``only`` are the names of options to try, None for all. ``intent`` is the intent of the plan of the instance, None
    for the stored intent of the host.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """Read options by name; BadRequest for an invalid option."""
        self.instance: dict[str, Any] = dict(raw["instance"])
        name = self.instance.get("name")
        if name is not None and not isinstance(name, str):
            raise BadRequest(f"instance: name is '{name}': say the name of an instance, which is one text.")
        self.intent: dict[str, Any] | None = raw.get("intent")
        self.only: list[str] | None = raw.get("options")
        self.minutes, self.seed = parse_minutes_and_seed(raw)


def run_tuning(
    host: Host, request: MeasuringRequest, options: TuningRequest, report_step: Callable[[str], None], clock: Any = time
) -> tuple[str, dict[str, Any]]:
    """Find the best options; return the path of the run document, and the document.

    ``report_step`` is called with a line on each step. BadRequest or TuningError where the run cannot begin or be
    completed: then the instance runs as before, and the file has the samples until then.
    """
    with progress.hold_run_lock(f"the tuning of {options.instance.get('name') or 'the only instance'}"):
        target, candidates, space = _plan_candidates_and_search_space(host, request, options, clock)
        arms = schedule.build_tuning_arms(space.default)
        run = Run(host, target, request, arms, options.seed, budget_s=60 * options.minutes)
        variants: dict[str, InstanceVariant] = {}
        return run_rounds_and_restore(
            run,
            request,
            options.minutes,
            lambda arm: variants.get(arm["name"], candidates.default),
            lambda runner: _TuningRounds(runner, candidates, space, variants).measure_all_rounds(),
            report_step,
            clock,
        )


def describe_planned_tuning(host: Host, request: MeasuringRequest, options: TuningRequest) -> tuple[str, str]:
    """Return the name of the instance, and sentences on what would be tried; raises as run_tuning."""
    target, dummy, space = _plan_candidates_and_search_space(host, request, options, time)
    tried = "; ".join(
        f"{option} {', '.join(str(value) for value in values)} (it is {space.default[option]})"
        for option, values in space.values.items()
    )
    return target.name, f"{target.name} would be started anew again and again, with other options: {tried}."


def _plan_candidates_and_search_space(
    host: Host, request: MeasuringRequest, options: TuningRequest, clock: Any
) -> tuple[MeasuredInstance, Candidates, SearchSpace]:
    target = find_llama_instance(host, options.instance.get("name"), request.answer_timeout, clock)
    planner = host if options.intent is None else Host(host.fs, options.intent)
    candidates = Candidates(planner, options.instance, target)
    space = build_search_space(candidates.service, planner)
    if options.only is not None:
        space.remove_other_options(options.only)
    if not space.values:
        raise BadRequest(f"{target.name} has no option that may be tried.")
    return target, candidates, space


class _TuningRounds:
    """The rounds of a tuning: first the search, then the confirmation of the best candidate."""

    def __init__(
        self, runner: RoundRunner, candidates: Candidates, space: SearchSpace, variants: dict[str, InstanceVariant]
    ) -> None:
        self.runner = runner
        self.candidates = candidates
        self.variants = variants
        self.search = Search(space.values, space.default, self.measure_log_rates)
        #: Candidate -> the name of its arm.
        self.names: dict[Candidate, str] = {DEFAULT: schedule.DEFAULT}

    def measure_all_rounds(self) -> None:
        best = self.search.measure_until_best_is_found()
        if best != DEFAULT:
            self._confirm_best_candidate(self.names[best])

    def measure_log_rates(self, phase: str, candidates: Sequence[Candidate]) -> dict[Candidate, float] | None:
        """Measure candidates until a round counts; return log rates of those that can run, None if time is over."""
        for candidate in candidates:
            if candidate not in self.names:
                self._add_candidate_arm(candidate, phase)
        for dummy in range(MAX_DISCARDED_IN_A_ROW):
            if self.runner.share_of_minutes_spent() > SEARCH_TIME_SHARE:
                return None
            names = {candidate: self.names[candidate] for candidate in candidates}
            running = {candidate: name for candidate, name in names.items() if name not in self.runner.plan["rejected"]}
            measured = self._measure_round(phase, list(running.values()))
            if not measured.discard_reason:
                key = measured_rounds.WHOLE_REQUEST
                return {candidate: measured.levels[name][key] for candidate, name in running.items()}
        reason = measured.discard_reason.rstrip(".")
        raise TuningError(f"{MAX_DISCARDED_IN_A_ROW} rounds in a row do not count; the last one: {reason}.")

    def _add_candidate_arm(self, candidate: Candidate, phase: str) -> None:
        """Add the arm of a candidate with its predicted rate; reject a candidate that cannot be planned."""
        plan = self.runner.plan
        arm = schedule.build_candidate_arm(len(plan["arms"]) - 1, dict(candidate))
        plan["arms"].append(arm)
        name = self.names[candidate] = arm["name"]
        try:
            self.variants[name] = self.candidates.build_variant(arm["options"], name)
        except BadRequest as error:
            self.runner.reject(name, error_to_single_line(error))
            return
        if phase != schedule.SWEEP:
            rate = mean_default_request_rate(measured_rounds.rounds_of_document(self.runner.run.document)) or 0.0
            plan["predicted"][name] = rate * math.exp(self.search.predict_gain(candidate))

    def _measure_round(self, phase: str, names: Sequence[str]) -> measured_rounds.Round:
        self.runner.measure_round(schedule.RESTART, phase, names)
        self.runner.run.save()
        return measured_rounds.rounds_of_document(self.runner.run.document)[-1]

    def _confirm_best_candidate(self, best: str) -> None:
        """Compare the best candidate with the default and its twin in new rounds, until the gain has a verdict."""
        counting = 0
        for tries in range(1, 2 * MAX_RACE_ROUNDS + 1):
            if self.runner.share_of_minutes_spent() >= 1:
                return
            measured = self._measure_round(schedule.CONFIRMATION, [schedule.DEFAULT, schedule.AGAIN, best])
            counting += not measured.discard_reason
            if counting >= MAX_RACE_ROUNDS or (tries >= MAX_DISCARDED_IN_A_ROW and not counting):
                return
            if counting >= schedule.CONFIRMATION_ROUNDS and TuningResult(self.runner.run.document).is_gain_decided:
                return
