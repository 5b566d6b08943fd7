# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An ablation: which settings of a host and options of an instance pay, each left out in turn, and all together.

Knobs that act at once share a server, which starts anew every few rounds; those that act at a start get a start for
each value. Rounds go on until each knob is decided, or the time is up. Then what is left without the knobs that do not
pay is raced against stock and tuned on fresh rounds. Whatever happens, the host has its stored settings in the end.
"""

from __future__ import annotations

import time
from statistics import stdev

from .._bench import progress
from .._bench.rounds import measured_rounds, schedule
from .._bench.run import Run
from .._bench.target.measured_instance import find
from .._bench.verdicts.comparison import HURTS, NOTHING, UNDECIDED
from .._bench.verdicts.setting_verdicts import RACED, Judgement
from .._errors import BadRequest, TuningError
from .._io.store import Store
from . import removable_options, removable_settings
from .arm_switch import NotBack
from .round_runner import CHOOSING, HOPELESS, conduct, line, refuse_less, time_and_seed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from .._bench.load.answer import Sample
    from .._bench.load.request import Asked
    from .._bench.rounds.measured_rounds import Round
    from .._bench.target.measured_instance import Target
    from .._host.host import Host
    from .arm_switch import Switch
    from .round_runner import Runner

#: Rounds of each class at most.
ROUNDS = schedule.MOST
#: The scatter of the anchor against its twin is that of so many rounds at least. Where it is more than this, arms are
#: asked twice as often, up to so many times as often as at first.
SIZED_BY, SCATTER, LONGEST = 3, 0.01, 8
#: What writes these taints the kernel, so such a knob has to pay to be kept.
TAINTS = "msr:"


class Wanted:
    """What an ablation is asked for beside a benchmark: limits, the seed of all orders, and ``only`` some knobs.

    With ``reboots``, boot parameters have arms too, for _ablation/boot_rounds.py to measure.
    """

    __slots__ = ("minutes", "only", "reboots", "rounds", "seed")

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """Read options by name, of which any may be missing. BadRequest for one that cannot be."""
        self.minutes, self.seed = time_and_seed(raw)
        self.rounds = ROUNDS if raw.get("rounds") is None else int(raw["rounds"])
        self.only: list[str] | None = raw.get("knobs")
        self.reboots = bool(raw.get("reboots"))
        refuse_less({"rounds": (self.rounds, 4)})


def measure(
    host: Host, asked: Asked, wanted: Wanted, tell: Callable[[str], None], clock: Any = time
) -> tuple[str, dict[str, Any]]:
    """Measure what each knob does; return the file of the run, and its document.

    ``tell`` gets a line on each step. BadRequest or TuningError where it cannot be measured, or not to its end: then
    all is put back too, and what was measured until then is in the file.
    """
    with progress.alone():
        target = find(host, asked.instance, asked.limit, clock)
        found, untested = _knobs(host, target, wanted)
        plan = {"untested": untested, "budget_s": 60 * wanted.minutes}
        run = Run(host, target, asked, _arms(found), wanted.seed, **plan)
        run.goes_on = any(knob["class"] == schedule.REBOOT for knob in found)

        def work(runner: Runner) -> None:
            tell("it tries each setting once")
            rejected = _rejected(runner.switch, found)
            runner.plan.update(arms=_arms(found, rejected), rejected=rejected)
            _Ablation(runner, wanted.rounds).race()

        variants = removable_options.variants(target, host)
        return conduct(run, asked, wanted.minutes, variants, work, tell, clock)


def announced(host: Host, asked: Asked, wanted: Wanted) -> tuple[str, str]:
    """Return the name of the instance that would be measured, and sentences on how; raises as ``measure`` does."""
    target = find(host, asked.instance, asked.limit)
    found, untested = _knobs(host, target, wanted)
    parts = []
    for unit in schedule.UNITS:
        names = [knob["name"] for knob in found if knob["class"] == unit]
        if names:
            parts.append(f"{unit}: {', '.join(names)}")
    text = f"{target.name} would be measured without each of these in turn, and started anew again and again; "
    text += "; ".join(parts)
    if untested:
        text += f". Not tested: {', '.join(f'{name} ({why})' for name, why in sorted(untested.items()))}"
    return target.name, f"{text}."


def _knobs(host: Host, target: Target, wanted: Wanted) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return what is to be left out, as schedule.arms takes it, and why other knobs are not tested."""
    found, untested = removable_settings.of_host(host, Store(host.fs.root, read_only=True), wanted.reboots)
    found += removable_options.of_instance(target, host)
    if wanted.only is None:
        return found, untested
    names = [one["name"] for one in found]
    for name in wanted.only:
        if name not in names:
            why = untested.get(name, f"here are {', '.join(names) or 'none'}")
            raise BadRequest(f"knobs: {name} cannot be left out on this host: {why}.")
    return [one for one in found if one["name"] in wanted.only], {}


def _arms(found: Sequence[Mapping[str, Any]], rejected: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the arms. Stock keeps the boot parameters, unless nothing else is left out: it starts without a boot."""
    booted = [knob["name"] for knob in found if knob["class"] == schedule.REBOOT]
    return schedule.arms(found, [*rejected, *(booted if len(booted) < len(found) else ())])


def _rejected(switch: Switch, found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Leave out each knob of the host once; return why some cannot be, by name. Stock has to do with these, too."""
    rejected = {}
    for knob in found:
        try:
            if knob["settings"] and knob["class"] != schedule.REBOOT:
                switch.live(knob)
        except NotBack:
            raise
        except TuningError as error:
            rejected[knob["name"]] = line(error)
    return rejected


class _Ablation:
    """Which rounds are run: of each class until all is decided, then those that confirm what is kept."""

    def __init__(self, runner: Runner, most: int) -> None:
        self.runner = runner
        self.plan = runner.plan
        self._most = most
        #: How many rounds of a class there were when its arms were last made longer.
        self._sized: dict[str, int] = {}

    def race(self) -> None:
        """Measure rounds of each class until all is decided, then the confirmation."""
        for unit in (schedule.LIVE, schedule.RESTART):
            still = self._undecided(unit)
            while still:
                self._round(unit, schedule.ABLATION, schedule.members(self.plan["arms"], unit, still))
                still = self._undecided(unit)
        self._confirm()

    def _judgement(self) -> Judgement:
        return Judgement(self.runner.run.document)

    def _undecided(self, unit: str) -> list[str]:
        """Return the knobs of a class that need another round; none where there may be no other."""
        those = [one for one in self.plan["order"] if (one["class"], one["phase"]) == (unit, schedule.ABLATION)]
        if len(those) >= self._most or self.runner.spent() > CHOOSING:
            return []
        judgement = self._judgement()
        made = [one for one in judgement.rounds if (one.unit, one.phase) == (unit, schedule.ABLATION)]
        self._lengthen(unit, made)
        void = [one.void for one in made]
        hopeless = len(void) >= HOPELESS and (all(void[-HOPELESS:]) or judgement.faults)
        return [] if hopeless else judgement.open(unit)

    def _lengthen(self, unit: str, made: Sequence[Round]) -> None:
        """Ask twice as often in each arm from now on, where the anchor and its twin differ too much by chance.

        What counts is a round, so a longer one weighs no more than those before; it only scatters less.
        """
        last = measured_rounds.differences(made[self._sized.get(unit, 0) :], schedule.AGAIN, measured_rounds.ONE_STREAM)
        most = LONGEST * schedule.UNITS[unit].requests
        if len(last) >= SIZED_BY and stdev(last) > SCATTER and self.runner.requests[unit] < most:
            self.runner.requests[unit] *= 2
            self._sized[unit] = len(made)

    def _confirm(self) -> None:
        """Race what is kept on fresh rounds, where anything was found out that could be kept."""
        judgement = self._judgement()
        if judgement.faults or not any(one.word in RACED for one in judgement.verdicts):
            return
        arms = {arm["without"]: arm for arm in self.plan["arms"] if arm["without"]}
        removed = [arms[one.knob] for one in judgement.verdicts if one.knob in arms and _goes(one.word, arms[one.knob])]
        unit = next(arm["class"] for arm in self.plan["arms"] if arm["name"] == schedule.STOCK)
        names = [schedule.STOCK, schedule.TUNED]
        if removed:
            self.plan["arms"].append(schedule.kept(removed, unit))
            names.append(schedule.KEPT)
        good = tried = 0
        while good < schedule.CONFIRMING and tried < 3 * schedule.CONFIRMING and self.runner.spent() < 1:
            self._round(unit, schedule.CONFIRMATION, names)
            tried += 1
            fresh = [one for one in self._judgement().rounds if one.phase == schedule.CONFIRMATION]
            good = sum(not one.void for one in fresh)
            if tried >= HOPELESS and not good:
                return

    def _round(self, unit: str, phase: str, names: Sequence[str]) -> None:
        self._look_at_guesses(self.runner.round(unit, phase, names))
        self.runner.run.save()

    def _look_at_guesses(self, samples: Collection[Sample]) -> None:
        """Reject an arm without speculation that guesses, and one where nothing is guessed with speculation."""
        name = f"{schedule.WITHOUT}{removable_options.SPECULATION}"
        guessed = {arm: sum(one["drafted"] for one in samples if one["arm"] == arm) for arm in (name, schedule.TUNED)}
        if not any(one["arm"] == name for one in samples):
            return
        if guessed[name]:
            self.runner.reject(removable_options.SPECULATION, f"{guessed[name]} tokens were guessed without it")
        elif not guessed[schedule.TUNED]:
            self.runner.reject(
                removable_options.SPECULATION, "nothing is guessed with it in these prompts, so nothing is left out"
            )


def _goes(word: str, arm: Mapping[str, Any]) -> bool:
    """Return whether a knob is removed for the confirmation: one that hurts, or that taints the kernel for nothing."""
    taints = any(address.startswith(TAINTS) for address in arm["settings"])
    return word == HURTS or (taints and word in (NOTHING, UNDECIDED))
