# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tuning of one instance: candidates are made, measured, and the best of them has to beat the default.

Whatever happens, the instance runs as its unit says in the end. What was found out is only in the file of the run.
"""

from __future__ import annotations

import math
import time

from .._ablation.round_runner import CHOOSING, HOPELESS, conduct, line, time_and_seed
from .._bench import progress
from .._bench.rounds import measured_rounds, schedule
from .._bench.run import Run
from .._bench.statistics.confidence_interval import mean
from .._bench.target.measured_instance import find
from .._bench.verdicts.tuning_result import Tuning
from .._errors import BadRequest, TuningError
from .._host.host import Host
from .candidates import Candidates
from .search import DEFAULT, RACE, Search
from .search_space import Space, space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .._ablation.arm_switch import Variant
    from .._ablation.round_runner import Runner
    from .._bench.load.request import Asked
    from .._bench.target.measured_instance import Target
    from .search import Candidate


class Wanted:
    """What a tuning is asked for beside a benchmark: the options of the instance, and ``only`` some of them tried.

    ``intent`` is what the instance was planned with, None for what is stored on the host.
    """

    __slots__ = ("instance", "intent", "minutes", "only", "seed")

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """Read options by name. BadRequest for one that cannot be."""
        self.instance: dict[str, Any] = dict(raw["instance"])
        name = self.instance.get("name")
        if name is not None and not isinstance(name, str):
            raise BadRequest(f"instance: name is '{name}': say the name of an instance, which is one text.")
        self.intent: dict[str, Any] | None = raw.get("intent")
        self.only: list[str] | None = raw.get("options")
        self.minutes, self.seed = time_and_seed(raw)


def measure(
    host: Host, asked: Asked, wanted: Wanted, tell: Callable[[str], None], clock: Any = time
) -> tuple[str, dict[str, Any]]:
    """Find the best options; return the file of the run, and its document.

    ``tell`` gets a line on each step. BadRequest or TuningError where it cannot be measured, or not to its end: then
    the instance runs as before too, and what was measured until then is in the file.
    """
    with progress.alone():
        target, candidates, found = _begin(host, asked, wanted, clock)
        arms = schedule.tuning(found.default)
        run = Run(host, target, asked, arms, wanted.seed, budget_s=60 * wanted.minutes)
        variants: dict[str, Variant] = {}
        return conduct(
            run,
            asked,
            wanted.minutes,
            lambda arm: variants.get(arm["name"], candidates.own),
            lambda runner: _Course(runner, candidates, found, variants).run(),
            tell,
            clock,
        )


def announced(host: Host, asked: Asked, wanted: Wanted) -> tuple[str, str]:
    """Return the name of the instance that would be tuned, and sentences on how; raises as ``measure`` does."""
    target, dummy, found = _begin(host, asked, wanted, time)
    tried = "; ".join(
        f"{option} {', '.join(str(value) for value in values)} (it is {found.default[option]})"
        for option, values in found.values.items()
    )
    return target.name, f"{target.name} would be started anew again and again, with other options: {tried}."


def _begin(host: Host, asked: Asked, wanted: Wanted, clock: Any) -> tuple[Target, Candidates, Space]:
    target = find(host, wanted.instance.get("name"), asked.limit, clock)
    planner = host if wanted.intent is None else Host(host.fs, wanted.intent)
    candidates = Candidates(planner, wanted.instance, target)
    found = space(candidates.service, planner)
    if wanted.only is not None:
        found.only(wanted.only)
    if not found.values:
        raise BadRequest(f"{target.name} has no option that may be tried.")
    return target, candidates, found


class _Course:
    """The rounds of one tuning: those that the search asks for, then those that confirm what it found."""

    def __init__(self, runner: Runner, candidates: Candidates, space: Space, variants: dict[str, Variant]) -> None:
        self.runner = runner
        self.candidates = candidates
        self.variants = variants
        self.search = Search(space.values, space.default, self.measured)
        #: The name of the arm of each candidate, "" of one that is rejected.
        self.names: dict[Candidate, str] = {DEFAULT: schedule.DEFAULT}

    def run(self) -> None:
        """Search and confirm."""
        best = self.search.run()
        if best != DEFAULT:
            self._confirm(self.names[best])

    def measured(self, phase: str, candidates: Sequence[Candidate]) -> dict[Candidate, float] | None:
        """Measure until a round counts; return the level of each candidate in it, None where the time is over."""
        for candidate in candidates:
            if candidate not in self.names:
                self._admit(candidate, phase)
        for dummy in range(HOPELESS):
            if self.runner.spent() > CHOOSING:
                return None
            names = {one: self.names[one] for one in candidates}
            there = {one: name for one, name in names.items() if name and name not in self.runner.plan["rejected"]}
            one = self._round(phase, list(there.values()))
            if not one.void:
                return {candidate: one.levels[name][measured_rounds.WHOLE_REQUEST] for candidate, name in there.items()}
        raise TuningError(f"{HOPELESS} rounds in a row do not count; the last one: {one.void.rstrip('.')}.")

    def _admit(self, candidate: Candidate, phase: str) -> None:
        """Give a candidate an arm, with what is predicted for it; or reject it."""
        plan = self.runner.plan
        arm = schedule.candidate(len(plan["arms"]) - 1, dict(candidate))
        plan["arms"].append(arm)
        name = self.names[candidate] = arm["name"]
        try:
            self.variants[name] = self.candidates.variant(arm["options"], name)
        except BadRequest as error:
            self.runner.reject(name, line(error))
            return
        if phase != schedule.SWEEP:
            plan["predicted"][name] = self._rate() * math.exp(self.search.predicted(candidate))

    def _rate(self) -> float:
        """Return tokens per second of the default in the rounds that prediction is made from."""
        those = [
            one for one in measured_rounds.of(self.runner.run.document) if one.phase == schedule.SWEEP and not one.void
        ]
        return 1000 * math.exp(mean([one.levels[schedule.DEFAULT][measured_rounds.WHOLE_REQUEST] for one in those]))

    def _round(self, phase: str, names: Sequence[str]) -> measured_rounds.Round:
        self.runner.round(schedule.RESTART, phase, names)
        self.runner.run.save()
        return measured_rounds.of(self.runner.run.document)[-1]

    def _confirm(self, best: str) -> None:
        """Race the best against the default and its twin on fresh rounds, until it is decided."""
        good = tried = 0
        while tried < 2 * RACE and self.runner.spent() < 1:
            good += not self._round(schedule.CONFIRMATION, [schedule.DEFAULT, schedule.AGAIN, best]).void
            tried += 1
            if (good >= schedule.CONFIRMING and Tuning(self.runner.run.document).decided) or good >= RACE:
                return
            if tried >= HOPELESS and not good:
                return
