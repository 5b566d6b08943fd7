# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rounds of a run that changes host and instance from arm to arm, and the way back, however it ends.

What decides on the next round is not here: an ablation leaves settings out, a tuning tries other options.
"""

from __future__ import annotations

import os
import time

from .._bench.rounds import schedule
from .._bench.sampling.meter import Meter
from .._bench.target.measured_instance import find
from .._errors import BadRequest, TuningError
from .._io.kernelfs import KernelFS
from .._io.store import Store
from .._knobs import apply_stored
from . import restore_guard
from .arm_switch import NotBack, Switch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .._bench.load.answer import Sample
    from .._bench.load.request import Asked
    from .._bench.run import Run
    from .arm_switch import Variant

#: The minutes of a whole run, and the share of them in which rounds may begin that choose; the rest is for those that
#: confirm the choice.
MINUTES, CHOOSING = 240, 0.75
#: So many void rounds in a row are the end: what disturbs does not go away.
HOPELESS = 10


class Runner:
    """Measures rounds of arms. ``minutes`` are those of the whole run, and ``tell`` gets a line on each step."""

    def __init__(
        self, run: Run, switch: Switch, asked: Asked, minutes: float, tell: Callable[[str], None], clock: Any
    ) -> None:
        self.run = run
        self.plan: dict[str, Any] = run.document["plan"]
        self.switch = switch
        self.asked = asked
        self.tell = tell
        self._seconds = 60 * minutes
        self._clock = clock
        self._begun = clock.monotonic()
        #: How many times an arm of a class is asked all prompts in a round.
        self.requests = {unit: rule.requests for unit, rule in schedule.UNITS.items()}
        #: What the server that runs has been started with, None before the first start.
        self._server: str | None = None
        #: Why its pace was not even when it had warmed up.
        self._warmth = ""

    def spent(self) -> float:
        """Return the share of the time that is over."""
        return float(self._clock.monotonic() - self._begun) / self._seconds

    def round(self, unit: str, phase: str, names: Sequence[str]) -> list[Sample]:
        """Measure one round, each arm once in the order of the plan; return its samples.

        An arm that cannot be measured is rejected. TuningError for one that is compared with, or leaves nothing out.
        """
        order = self.plan["order"]
        nth = 1 + sum((one["class"], one["phase"]) == (unit, phase) for one in order)
        row = schedule.row(self.run.document["seed"], len(order) + 1, unit, nth, names, phase)
        order.append(row)
        arms = {arm["name"]: arm for arm in self.plan["arms"]}
        shared = schedule.UNITS[unit].restart_every > 0
        made: list[Sample] = []
        if shared and (row["restart"] or self._server != schedule.TUNED):
            self._start(arms[schedule.TUNED])
        for name in row["arms"]:
            self.tell(f"{phase}, round {row['round']}: {name}")
            arm = arms[name]
            try:
                if shared:
                    self.switch.live(arm)
                else:
                    self._start(arm)
                made += self._measure(row, arm)
            except NotBack:
                raise
            except TuningError as error:
                subject = schedule.subject(arm)
                if not subject:
                    raise TuningError(f"{name} cannot be measured: {error}") from None
                self.reject(subject, line(error))
        self.run.document["samples"] += made
        return made

    def reject(self, subject: str, why: str) -> None:
        """Note why a knob or a candidate cannot be measured; the first reason stays."""
        self.plan["rejected"].setdefault(subject, why)

    def _start(self, arm: Mapping[str, Any]) -> None:
        self._server = None
        self.switch.start(arm)
        self._server = arm["name"]
        self._warmth = self._meter().warm_up()

    def _meter(self) -> Meter:
        switch = self.switch
        return Meter(switch.host(), switch.target, self.asked, self._clock, switch.variant.anywhere)

    def _measure(self, row: Mapping[str, Any], arm: Mapping[str, Any]) -> list[Sample]:
        where = {"round": row["round"], "arm": arm["name"], "start": self.switch.starts}
        requests = self.requests[row["class"]]
        samples, dummy = self._meter().measure(where, requests, self.switch.proven, self.switch.digest)
        if self._warmth:
            for one in samples:
                one["void"] = " ".join(filter(None, [one["void"], self._warmth]))
        return samples


def conduct(
    run: Run,
    asked: Asked,
    minutes: float,
    variants: Callable[[Mapping[str, Any]], Variant],
    work: Callable[[Runner], None],
    tell: Callable[[str], None],
    clock: Any = time,
) -> tuple[str, dict[str, Any]]:
    """Have ``work`` measure with a runner, then put all back; return the file of the run, and its document.

    ``variants`` says how an arm has the unit. TuningError where it cannot be measured to its end: then all is put back
    too, and what was measured until then is in the file.
    """
    host, target = run.host, run.target
    run.prepare(tell)
    store, fs = Store(host.fs.root), KernelFS(host.fs.root)
    switch = Switch(store, fs, target, run.settings, variants, asked.limit, clock)
    restore_guard.begin(store, fs, target.units[0])
    failure = None
    try:
        work(Runner(run, switch, asked, minutes, tell, clock))
    except TuningError as error:
        failure, run.goes_on = error, False
        run.document["remarks"].append(f"It ended early: {line(error)}")
    finally:
        tell("it puts all back")
        left = apply_stored.end_trial_and_apply_stored(store, fs).failures
    run.target = find(host, target.name, asked.limit, clock)
    run.end(restored=not left and run.target.arguments == target.arguments)
    if left:
        raise TuningError(
            f"Not all stored settings could be put back: {' '.join(left)} 'sovereign-epyc settle' tries it again. "
            f"What was measured is in {run.path}."
        )
    if failure:
        raise TuningError(f"{failure} All was put back. What was measured until then is in {run.path}.")
    return run.path, run.document


def time_and_seed(raw: Mapping[str, Any]) -> tuple[float, int]:
    """Return the minutes of a run, and the seed of all orders, which is drawn where none is given.

    ``raw`` are options by name. BadRequest for one that cannot be.
    """
    minutes = MINUTES if raw.get("minutes") is None else float(raw["minutes"])
    seed = int.from_bytes(os.urandom(4), "big") if raw.get("seed") is None else int(raw["seed"])
    refuse_less({"minutes": (minutes, 0.1), "seed": (seed, 0)})
    return minutes, seed


def refuse_less(given: Mapping[str, tuple[float, float]]) -> None:
    """Refuse a number by its name that is less than the one behind it, or beyond all reason."""
    for name, (value, least) in given.items():
        if not least <= value <= 2**32:
            raise BadRequest(f"{name}: {value:g} cannot be; take at least {least:g}.")


def line(error: object) -> str:
    """Return an error as one line."""
    return " ".join(str(error).split())
