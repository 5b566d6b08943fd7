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
    error_to_single_line,
    parse_minutes_and_seed,
    run_rounds_and_restore,
)
from .._bench import progress
from .._bench.load.objective_names import LATENCY
from .._bench.planning.expected_costs import find_expected_costs
from .._bench.planning.objectives import RequestedObjectives
from .._bench.planning.precision import ASSUMED_NOISE, best_passes_per_start
from .._bench.planning.time_plan import NOT_ENOUGH_TIME, round_up_to_minutes
from .._bench.rounds import measured_rounds, schedule
from .._bench.rounds.limits import MAX_DISCARDED_IN_A_ROW
from .._bench.run import FOLDER, Run
from .._bench.sampling.meter import parallel_stream_counts
from .._bench.target.measured_instance import find_llama_instance
from .._bench.verdicts.tuning_result import TuningResult, mean_default_rate, metric_of_tuning
from .._errors import BadRequest, TuningError
from .._host.host import Host
from .._serving.unit.installed import select_instance_and_plan
from .gain_model import DEFAULT, GainModel
from .search import Search
from .search_space import SearchSpace, build_search_space
from .tuning_time import CONFIRMATION_ARMS, TuningTime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .._ablation.arm_switch import InstanceVariant
    from .._ablation.round_runner import RoundRunner
    from .._bench.load.request import MeasuringRequest
    from .._bench.rounds.measured_rounds import Key
    from .._bench.target.measured_instance import MeasuredInstance
    from .gain_model import Candidate

#: The largest number of counting rounds of a confirmation.
MAX_CONFIRMATION_ROUNDS = 24


class TuningRequest:
    """Options of a tuning beside those of every measurement: ``instance`` has the options of the instance.

    ``only`` are the names of options to try, None for all. ``objectives`` has the only objective that gets a verdict.
    ``intent`` is the intent of the plan of the instance, None for the stored intent of the host.
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
        self.objectives = RequestedObjectives({**raw, "objectives": [raw.get("objective") or LATENCY]})


def run_tuning(
    host: Host, request: MeasuringRequest, options: TuningRequest, report_step: Callable[[str], None], clock: Any = time
) -> tuple[str, dict[str, Any]]:
    """Find the best options; return the path of the run document, and the document.

    ``report_step`` is called with a line on each step. BadRequest or TuningError where the run cannot begin or be
    completed: then the instance runs as before, and the file has the samples until then.
    """
    name = select_instance_and_plan(options.instance.get("name"), host.fs.root)[0]
    with progress.hold_run_lock(f"the tuning of {name}"):
        target, candidates, space = _plan_candidates_and_search_space(host, request, options, clock)
        arms = schedule.build_tuning_arms(space.default)
        plan = {"budget_s": 60 * options.minutes, **options.objectives.to_plan()}
        run = Run(host, target, request, arms, options.seed, **plan)
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
    text = f"{target.name} would be started anew again and again, with other options: {tried}."
    expected = find_expected_costs(FOLDER, host, target, request, parallel_stream_counts(target, request))
    if expected is None:
        return target.name, f"{text} What the time settles is known after the first pass."
    costs, source = expected
    needed = TuningTime(space, costs, best_passes_per_start(costs, ASSUMED_NOISE))
    seconds = 60 * options.minutes
    return (
        target.name,
        f"{text} {needed.shortage_message(seconds, 0.0) or needed.describe_settled_options(seconds, source)}",
    )


def _plan_candidates_and_search_space(
    host: Host, request: MeasuringRequest, options: TuningRequest, clock: Any
) -> tuple[MeasuredInstance, Candidates, SearchSpace]:
    target = find_llama_instance(host, options.instance.get("name"), request.answer_timeout, clock)
    planner = host if options.intent is None else Host(host.fs, options.intent)
    candidates = Candidates(planner, options.instance, target)
    space = build_search_space(candidates.service, planner, candidates.capabilities_of(candidates.service))
    if options.only is not None:
        space.remove_other_options(options.only)
    if not space.values:
        raise BadRequest(f"{target.name} has no option that may be tried.")
    options.objectives.set_streams_to_slots_for_throughput(request, target.slots)
    return target, candidates, space


class _TuningRounds:
    """The rounds of a tuning: the probe of the default, the search, then the confirmation of the best candidate."""

    def __init__(
        self, runner: RoundRunner, candidates: Candidates, space: SearchSpace, variants: dict[str, InstanceVariant]
    ) -> None:
        self.runner = runner
        self.candidates = candidates
        self.variants = variants
        self._space = space
        model = GainModel(
            space.values, space.default, space.expected_effects, ASSUMED_NOISE.standard_deviation_of_start_mean()
        )
        self.search = Search(
            space.values,
            space.default,
            model,
            self.measure_log_rates,
            self.add_candidate_arm,
            self.count_affordable_arms,
            runner.run.document["seed"],
        )
        #: Candidate -> the name of its arm.
        self.names: dict[Candidate, str] = {DEFAULT: schedule.DEFAULT}

    def measure_all_rounds(self) -> None:
        """Measure all rounds; BadRequest where the time is too short to confirm anything."""
        runner = self.runner
        runner.measure_probe()
        self._require_metric_of_objective()
        passes = best_passes_per_start(runner.costs, ASSUMED_NOISE)
        runner.requests[schedule.RESTART] = passes
        needed = TuningTime(self._space, runner.costs, passes)
        shortage = needed.shortage_message(runner.budget.seconds_left(), runner.seconds_spent())
        if shortage:
            raise BadRequest(shortage)
        estimate = needed.describe_settled_options(runner.budget.seconds_left())
        runner.run.document["remarks"].append(estimate)
        runner.report_step(estimate)
        best = self.search.measure_until_best_is_found()
        untried = self.search.untried_values()
        if untried:
            runner.run.document["shortages"].append(needed.untried_values_message(untried))
        runner.budget.release_reserve()
        # A gain that is smaller than the smallest that matters is not worth its confirmation.
        if self.search.estimates.mean_gain(best) >= math.log1p(runner.plan["zone"]):
            self._confirm_best_candidate(self.names[best])

    def _require_metric_of_objective(self) -> None:
        objective = self.runner.plan["objective"]
        if self._metric_of_objective() not in self._rounds_of_run_document()[-1].levels[schedule.DEFAULT]:
            raise BadRequest(f"objective is {objective}, which cannot be measured on this host: choose another one.")

    def count_affordable_arms(self) -> float:
        """Return how many arms can be measured before the time that is reserved for the confirmation."""
        runner = self.runner
        runner.budget.reserve_rounds(
            schedule.CONFIRMATION_ROUNDS, runner.round_seconds(schedule.RESTART, CONFIRMATION_ARMS)
        )
        return runner.budget.free_seconds() / runner.round_seconds(schedule.RESTART, 1)

    def measure_log_rates(self, phase: str, candidates: Sequence[Candidate]) -> dict[Candidate, float] | None:
        """Measure candidates until a round counts; return log rates of those that can run, None if time is over."""
        for dummy in range(MAX_DISCARDED_IN_A_ROW):
            names = {candidate: self.names[candidate] for candidate in candidates}
            running = {candidate: name for candidate, name in names.items() if name not in self.runner.plan["rejected"]}
            if not self.runner.can_measure_round(schedule.RESTART, len(running)):
                return None
            measured = self._measure_round(phase, list(running.values()))
            if not measured.discard_reason:
                key = self._metric_of_objective()
                return {candidate: measured.levels[name][key] for candidate, name in running.items()}
        reason = measured.discard_reason.rstrip(".")
        raise TuningError(f"{MAX_DISCARDED_IN_A_ROW} rounds in a row do not count; the last one: {reason}.")

    def add_candidate_arm(self, candidate: Candidate) -> bool:
        """Add the arm of a candidate with its predicted rate; return whether the candidate can be planned."""
        plan = self.runner.plan
        if candidate in self.names:
            return True
        arm = schedule.build_candidate_arm(len(plan["arms"]) - 1, dict(candidate))
        plan["arms"].append(arm)
        name = self.names[candidate] = arm["name"]
        try:
            self.variants[name] = self.candidates.build_variant(arm["options"], name)
        except BadRequest as error:
            self.runner.record_rejection_reason(name, error_to_single_line(error))
            return False
        if len(candidate) > 1:
            rate = mean_default_rate(self._rounds_of_run_document(), self._metric_of_objective()) or 0.0
            plan["predicted"][name] = rate * math.exp(self.search.estimates.mean_gain(candidate))
        return True

    def _measure_round(self, phase: str, names: Sequence[str]) -> measured_rounds.Round:
        self.runner.measure_round(schedule.RESTART, phase, names)
        self.runner.run.save()
        return self._rounds_of_run_document()[-1]

    def _rounds_of_run_document(self) -> list[measured_rounds.Round]:
        return measured_rounds.rounds_of_document(self.runner.run.document)

    def _metric_of_objective(self) -> Key:
        return metric_of_tuning(self.runner.plan["objective"], self._rounds_of_run_document())

    def _confirm_best_candidate(self, best: str) -> None:
        """Compare the best candidate with the default and its twin in new rounds, until the gain has a verdict."""
        names = [schedule.DEFAULT, schedule.AGAIN, best]
        counting = tries = 0
        while self.runner.can_measure_round(schedule.RESTART, len(names)):
            measured = self._measure_round(schedule.CONFIRMATION, names)
            tries += 1
            counting += not measured.discard_reason
            if counting >= MAX_CONFIRMATION_ROUNDS or (tries >= MAX_DISCARDED_IN_A_ROW and not counting):
                return
            if counting >= schedule.CONFIRMATION_ROUNDS and TuningResult(self.runner.run.document).is_gain_decided:
                return
        missing = max(1, schedule.CONFIRMATION_ROUNDS - counting)
        minutes = round_up_to_minutes(missing * self.runner.round_seconds(schedule.RESTART, len(names)))
        self.runner.run.document["shortages"].append(
            f"{NOT_ENOUGH_TIME} for the confirmation: {counting} rounds count, and the gain is not proven yet. About "
            f"{minutes} more minutes would do."
        )
