# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures rounds of an ablation or a tuning: switches the host from arm to arm, and restores it at the end of the run.

The caller decides which arms the next round has.
"""

from __future__ import annotations

import os
import time

from .._bench.load.request import MINUTES
from .._bench.planning.budget import Budget
from .._bench.planning.costs import CostMeter
from .._bench.progress import RunStopped
from .._bench.rounds import schedule
from .._bench.sampling.meter import Meter
from .._bench.target.measured_instance import find_llama_instance
from .._errors import BadRequest, TuningError
from .._io.kernelfs import KernelFS
from .._io.store import Store
from .._knobs import apply_stored
from . import restore_guard
from .arm_switch import ArmSwitch, RestoreFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from .._bench.load.answer import Sample
    from .._bench.load.request import MeasuringRequest
    from .._bench.planning.costs import Costs
    from .._bench.run import Run
    from .arm_switch import InstanceVariant

#: Passes of the probe, whose differences show the noise of a pass.
PROBE_PASSES = 2


class RoundRunner:
    """Measures rounds; ``minutes`` limits the whole run, and ``report_step`` is called with a line on each step.

    ``budget`` is the time of the run. ``cost_meter`` has the durations of all starts and passes until now.
    """

    def __init__(
        self,
        run: Run,
        switch: ArmSwitch,
        request: MeasuringRequest,
        minutes: float,
        report_step: Callable[[str], None],
        clock: Any,
    ) -> None:
        self.run = run
        self.plan: dict[str, Any] = run.document["plan"]
        self.switch = switch
        self.request = request
        self.report_step = report_step
        self._clock = clock
        self._begun = clock.monotonic()
        self.budget = Budget(minutes, clock)
        self.cost_meter = CostMeter()
        #: Class -> how often an arm is sent all prompts in a round.
        self.requests = {setting_class: rule.requests for setting_class, rule in schedule.REPETITIONS.items()}
        #: Why the token rate was not stable after the warm-up, an empty text for a stable rate.
        self._unstable_reason = ""

    @property
    def costs(self) -> Costs:
        """The mean seconds of a start and of a pass until now; the probe is measured before."""
        costs = self.cost_meter.costs
        assert costs is not None
        return costs

    def round_seconds(self, setting_class: str, arms: int) -> float:
        """Return the seconds of a round of a class with a number of arms, by the costs until now."""
        return self.costs.round_seconds(setting_class, arms, self.requests[setting_class])

    def can_measure_round(self, setting_class: str, arms: int) -> bool:
        """Return whether a round with a number of arms can end before the time that is reserved."""
        return self.round_seconds(setting_class, arms) <= self.budget.free_seconds()

    def measure_probe(self) -> list[Sample]:
        """Measure the anchor alone, and record in the plan what a start and a pass cost; return the samples."""
        anchor = schedule.anchor_name(self.plan["arms"])
        passes = self.requests[schedule.RESTART]
        self.requests[schedule.RESTART] = PROBE_PASSES
        samples = self.measure_round(schedule.RESTART, schedule.PROBE, [anchor])
        self.requests[schedule.RESTART] = passes
        self.record_costs_in_plan()
        return samples

    def record_costs_in_plan(self) -> None:
        """Record in the plan what a start and a pass cost until now."""
        for setting_class in (schedule.LIVE, schedule.RESTART):
            self.plan.setdefault("costs", {})[setting_class] = self.costs.to_plan()

    def seconds_spent(self) -> float:
        """Return the seconds since the start of the run."""
        return float(self._clock.monotonic() - self._begun)

    def measure_round(self, setting_class: str, phase: str, names: Sequence[str]) -> list[Sample]:
        """Plan and measure one round with each of these arms once; return its samples.

        An arm that fails is rejected. TuningError for the failure of an arm that other arms are compared with.
        """
        order = self.plan["order"]
        nth_of_class = 1 + sum((planned["class"], planned["phase"]) == (setting_class, phase) for planned in order)
        row = schedule.plan_round(self.run.document["seed"], len(order) + 1, setting_class, nth_of_class, names, phase)
        order.append(row)
        arms = {arm["name"]: arm for arm in self.plan["arms"]}
        samples: list[Sample] = []
        if row["restart"]:
            self._start_instance(arms[schedule.TUNED])
        for name in row["arms"]:
            self.report_step(f"{phase}, round {row['round']}: {name}; {self.budget.format_time_left()}")
            arm = arms[name]
            try:
                self.switch_to_arm(arm, setting_class)
                samples += self._measure_arm(row, arm)
            except RestoreFailed:
                raise
            except TuningError as error:
                subject = schedule.rejectable_setting_or_candidate(arm)
                if not subject:
                    raise TuningError(f"{name} cannot be measured: {error}") from None
                self.record_rejection_reason(subject, error_to_single_line(error))
        self.run.document["samples"] += samples
        return samples

    def switch_to_arm(self, arm: Mapping[str, Any], setting_class: str) -> None:
        """Apply the settings of an arm to the running server, or start the server for the arm, by the class."""
        if schedule.REPETITIONS[setting_class].shares_start:
            self.switch.apply_settings(arm)
        else:
            self._start_instance(arm)

    def record_rejection_reason(self, subject: str, reason: str) -> None:
        """Record why a setting or a candidate cannot be measured; an earlier reason is not replaced."""
        self.plan["rejected"].setdefault(subject, reason)

    def _start_instance(self, arm: Mapping[str, Any]) -> None:
        begun = self._clock.monotonic()
        self.switch.start_instance(arm)
        self._unstable_reason = self._build_meter_of_running_instance().warm_up_and_report_instability()
        self.cost_meter.add_start(self._clock.monotonic() - begun)

    def _build_meter_of_running_instance(self) -> Meter:
        switch = self.switch
        return Meter(switch.host(), switch.target, self.request, self._clock, switch.variant.anywhere, self.run.target)

    def _measure_arm(self, row: Mapping[str, Any], arm: Mapping[str, Any]) -> list[Sample]:
        place = {"round": row["round"], "arm": arm["name"], "start": self.switch.starts}
        passes, begun = self.requests[row["class"]], self._clock.monotonic()
        samples, dummy = self._build_meter_of_running_instance().measure_samples(
            place, passes, self.switch.settings_digest, self.switch.read_settings_digest
        )
        self.cost_meter.add_passes(self._clock.monotonic() - begun, passes)
        add_discard_reason(samples, self._unstable_reason)
        return samples


def run_rounds_and_restore(
    run: Run,
    request: MeasuringRequest,
    minutes: float,
    build_variant: Callable[[Mapping[str, Any]], InstanceVariant],
    measure_rounds: Callable[[RoundRunner], None],
    report_step: Callable[[str], None],
    clock: Any = time,
) -> tuple[str, dict[str, Any]]:
    """Call ``measure_rounds`` for all rounds, then restore the host; return the path of the document, and the document.

    ``build_variant`` returns the variant of the instance for an arm. TuningError where the run cannot be completed:
    then the host is restored too, and the file has the samples until then.
    """
    host, target = run.host, run.target
    run.leave_cpus_and_measure_bandwidth(report_step)
    store, fs = Store(host.fs.root), KernelFS(host.fs.root)
    switch = ArmSwitch(store, fs, target, run.settings, build_variant, request.answer_timeout, clock)
    restore_guard.start_restore_guard(store, fs, target.units[0])
    failure: Exception | None = None
    try:
        measure_rounds(RoundRunner(run, switch, request, minutes, report_step, clock))
    except (TuningError, RunStopped) as error:
        failure, run.continues_after_boot = error, False
        run.document["remarks"].append(f"It ended early: {error_to_single_line(error)}")
    finally:
        report_step("it puts all back")
        failures = apply_stored.end_trial_and_apply_stored(store, fs).failures
    run.target = find_llama_instance(host, target.name, request.answer_timeout, clock)
    run.finish_document(restored=not failures and run.target.arguments == target.arguments)
    if failures:
        raise TuningError(
            f"Not all stored settings could be put back: {' '.join(failures)} 'sovereign-epyc settle' tries it again. "
            f"What was measured is in {run.path}."
        )
    if failure:
        error_type = BadRequest if isinstance(failure, BadRequest) else TuningError
        raise error_type(f"{failure} All was put back. What was measured until then is in {run.path}.")
    return run.path, run.document


def add_discard_reason(samples: Iterable[Sample], reason: str) -> None:
    """Add a reason, where it is not empty, to the reasons why these samples are discarded."""
    for sample in samples:
        sample["void"] = " ".join(filter(None, [sample["void"], reason])) or None


def parse_minutes_and_seed(raw: Mapping[str, Any]) -> tuple[float, int]:
    """Return the minutes of a run, and the seed that decides the order of arms: a random seed where no seed is given.

    ``raw`` are options by name. BadRequest for an invalid option.
    """
    minutes = MINUTES if raw.get("minutes") is None else float(raw["minutes"])
    seed = int.from_bytes(os.urandom(4), "big") if raw.get("seed") is None else int(raw["seed"])
    refuse_numbers_out_of_range({"minutes": (minutes, 0.1), "seed": (seed, 0)})
    return minutes, seed


def refuse_numbers_out_of_range(options: Mapping[str, tuple[float, float]]) -> None:
    """Raise BadRequest for an option below its minimum or above 2**32; ``options`` has value and minimum by name."""
    for name, (value, least) in options.items():
        if not least <= value <= 2**32:
            raise BadRequest(f"{name}: {value:g} is out of range; give at least {least:g}.")


def error_to_single_line(error: object) -> str:
    """Return the message of an error without line breaks."""
    return " ".join(str(error).split())
