# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures the rounds of a run that changes host and instance from arm to arm, and restores everything at its end.

The caller decides on the next round: an ablation removes settings, a tuning tries other options.
"""

from __future__ import annotations

import os
import time

from .._bench.load.request import MINUTES
from .._bench.rounds import schedule
from .._bench.sampling.meter import Meter
from .._bench.target.measured_instance import find_instance
from .._errors import BadRequest, TuningError
from .._io.kernelfs import KernelFS
from .._io.store import Store
from .._knobs import apply_stored
from . import restore_guard
from .arm_switch import ArmSwitch, RestoreFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .._bench.load.answer import Sample
    from .._bench.load.request import MeasuringRequest
    from .._bench.run import Run
    from .arm_switch import InstanceVariant

#: The share of the minutes in which rounds of the search may begin; the rest is for the confirmation.
SEARCH_TIME_SHARE = 0.75


class RoundRunner:
    """Measures rounds of arms. ``minutes`` limits the whole run, ``tell`` is called with a line on each step."""

    def __init__(
        self,
        run: Run,
        switch: ArmSwitch,
        asked: MeasuringRequest,
        minutes: float,
        tell: Callable[[str], None],
        clock: Any,
    ) -> None:
        self.run = run
        self.plan: dict[str, Any] = run.document["plan"]
        self.switch = switch
        self.asked = asked
        self.tell = tell
        self._seconds = 60 * minutes
        self._clock = clock
        self._begun = clock.monotonic()
        #: Class of a knob -> how often an arm is sent all prompts in a round.
        self.requests = {unit: rule.requests for unit, rule in schedule.REPETITIONS.items()}
        #: The name of the arm that the server was started for, None before the first start.
        self._server: str | None = None
        #: Why the token rate was not stable after the warm-up; an empty text where it was.
        self._warmth = ""

    def time_share_spent(self) -> float:
        """Return the share of the run's time that has passed."""
        return float(self._clock.monotonic() - self._begun) / self._seconds

    def measure_round(self, unit: str, phase: str, names: Sequence[str]) -> list[Sample]:
        """Measure one round, each arm once in the order of the plan; return its samples.

        An arm that fails is rejected. TuningError where it is an arm that others are compared with.
        """
        order = self.plan["order"]
        nth = 1 + sum((planned["class"], planned["phase"]) == (unit, phase) for planned in order)
        row = schedule.plan_round(self.run.document["seed"], len(order) + 1, unit, nth, names, phase)
        order.append(row)
        arms = {arm["name"]: arm for arm in self.plan["arms"]}
        shared = schedule.REPETITIONS[unit].restart_every > 0
        made: list[Sample] = []
        if shared and (row["restart"] or self._server != schedule.TUNED):
            self._start_instance(arms[schedule.TUNED])
        for name in row["arms"]:
            self.tell(f"{phase}, round {row['round']}: {name}")
            arm = arms[name]
            try:
                if shared:
                    self.switch.live(arm)
                else:
                    self._start_instance(arm)
                made += self._measure_arm(row, arm)
            except RestoreFailed:
                raise
            except TuningError as error:
                subject = schedule.rejectable_subject(arm)
                if not subject:
                    raise TuningError(f"{name} cannot be measured: {error}") from None
                self.reject(subject, format_error_line(error))
        self.run.document["samples"] += made
        return made

    def reject(self, subject: str, why: str) -> None:
        """Record why a knob or a candidate cannot be measured; a reason that is there already stays."""
        self.plan["rejected"].setdefault(subject, why)

    def _start_instance(self, arm: Mapping[str, Any]) -> None:
        self._server = None
        self.switch.start(arm)
        self._server = arm["name"]
        self._warmth = self._make_meter().warm_up()

    def _make_meter(self) -> Meter:
        switch = self.switch
        return Meter(switch.host(), switch.target, self.asked, self._clock, switch.variant.anywhere)

    def _measure_arm(self, row: Mapping[str, Any], arm: Mapping[str, Any]) -> list[Sample]:
        where = {"round": row["round"], "arm": arm["name"], "start": self.switch.starts}
        requests = self.requests[row["class"]]
        samples, dummy = self._make_meter().measure(where, requests, self.switch.proven, self.switch.digest)
        if self._warmth:
            for sample in samples:
                sample["void"] = " ".join(filter(None, [sample["void"], self._warmth]))
        return samples


def conduct_run(
    run: Run,
    asked: MeasuringRequest,
    minutes: float,
    variants: Callable[[Mapping[str, Any]], InstanceVariant],
    work: Callable[[RoundRunner], None],
    tell: Callable[[str], None],
    clock: Any = time,
) -> tuple[str, dict[str, Any]]:
    """Have ``work`` measure rounds, then restore everything; return the path of the document, and the document.

    ``variants`` makes the variant of the instance for an arm. TuningError where the run cannot be completed: then
    everything is restored too, and the samples until then are in the file.
    """
    host, target = run.host, run.target
    run.prepare(tell)
    store, fs = Store(host.fs.root), KernelFS(host.fs.root)
    switch = ArmSwitch(store, fs, target, run.settings, variants, asked.answer_timeout, clock)
    restore_guard.start_guard(store, fs, target.units[0])
    failure = None
    try:
        work(RoundRunner(run, switch, asked, minutes, tell, clock))
    except TuningError as error:
        failure, run.continues_after_boot = error, False
        run.document["remarks"].append(f"It ended early: {format_error_line(error)}")
    finally:
        tell("it puts all back")
        left = apply_stored.end_trial_and_apply_stored(store, fs).failures
    run.target = find_instance(host, target.name, asked.answer_timeout, clock)
    run.end(restored=not left and run.target.arguments == target.arguments)
    if left:
        raise TuningError(
            f"Not all stored settings could be put back: {' '.join(left)} 'sovereign-epyc settle' tries it again. "
            f"What was measured is in {run.path}."
        )
    if failure:
        raise TuningError(f"{failure} All was put back. What was measured until then is in {run.path}.")
    return run.path, run.document


def parse_time_and_seed(raw: Mapping[str, Any]) -> tuple[float, int]:
    """Return the minutes of a run, and the seed of all orders, a random one where none is given.

    ``raw`` are options by name. BadRequest for an invalid one.
    """
    minutes = MINUTES if raw.get("minutes") is None else float(raw["minutes"])
    seed = int.from_bytes(os.urandom(4), "big") if raw.get("seed") is None else int(raw["seed"])
    validate_minimums({"minutes": (minutes, 0.1), "seed": (seed, 0)})
    return minutes, seed


def validate_minimums(given: Mapping[str, tuple[float, float]]) -> None:
    """Raise BadRequest for the first option that is below its minimum, or unreasonably large."""
    for name, (value, least) in given.items():
        if not least <= value <= 2**32:
            raise BadRequest(f"{name}: {value:g} is out of range; give at least {least:g}.")


def format_error_line(error: object) -> str:
    """Return an error as one line."""
    return " ".join(str(error).split())
