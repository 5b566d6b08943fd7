# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An ablation: measures which settings of a host and options of an instance pay, by removing one at a time.

Knobs that take effect at once share a server, which starts anew every few rounds; those that take effect at a start get
a start for each value. Rounds continue until each knob is decided, or the time is over. Then the settings without the
knobs that do not pay are compared with stock and tuned in new rounds. However the run ends, the host has its stored
settings afterwards.
"""

from __future__ import annotations

import time
from statistics import stdev

from .._bench import progress
from .._bench.rounds import measured_rounds, schedule
from .._bench.rounds.limits import MAX_DISCARDED_IN_A_ROW
from .._bench.run import Run
from .._bench.target.measured_instance import find_instance
from .._bench.verdicts.comparison import HURTS, NOTHING, UNDECIDED
from .._bench.verdicts.setting_verdicts import TESTED_WORDS, Judgement
from .._errors import BadRequest, TuningError
from .._io.store import Store
from . import removable_options, removable_settings
from .arm_switch import RestoreFailed
from .round_runner import (
    SEARCH_TIME_SHARE,
    conduct_run,
    format_error_line,
    parse_time_and_seed,
    validate_minimums,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from .._bench.load.answer import Sample
    from .._bench.load.request import MeasuringRequest
    from .._bench.rounds.measured_rounds import Round
    from .._bench.target.measured_instance import MeasuredInstance
    from .._host.host import Host
    from .arm_switch import ArmSwitch
    from .round_runner import RoundRunner

#: Default of the largest number of rounds of a class.
ROUNDS = schedule.MAX_ROUNDS
#: Requests are doubled, up to this many times the first number, if the log ratios of anchor and twin over at least this
#: many rounds have a larger standard deviation than this.
SCATTER_ROUNDS, MAX_SCATTER, MAX_LENGTHENING = 3, 0.01, 8
#: Addresses whose writes taint the kernel, so that such a knob is removed unless it pays.
TAINTING_PREFIX = "msr:"


class AblationRequest:
    """Options of an ablation beside those of a benchmark: limits, the seed of all orders, and ``only`` some knobs.

    With ``reboots``, boot parameters have arms too, which _ablation/boot_rounds.py measures.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """Read options by name, of which any may be missing; BadRequest for an invalid one."""
        self.minutes, self.seed = parse_time_and_seed(raw)
        self.rounds = ROUNDS if raw.get("rounds") is None else int(raw["rounds"])
        self.only: list[str] | None = raw.get("knobs")
        self.reboots = bool(raw.get("reboots"))
        validate_minimums({"rounds": (self.rounds, 4)})


def run_ablation(
    host: Host, asked: MeasuringRequest, wanted: AblationRequest, tell: Callable[[str], None], clock: Any = time
) -> tuple[str, dict[str, Any]]:
    """Measure the effect of each knob; return the path of the document, and the document.

    ``tell`` is called with a line on each step. BadRequest or TuningError where the run cannot begin or be
    completed: then everything is restored too, and the samples until then are in the file.
    """
    with progress.exclusive_run():
        target = find_instance(host, asked.instance, asked.answer_timeout, clock)
        found, untested = _find_knobs(host, target, wanted)
        plan = {"untested": untested, "budget_s": 60 * wanted.minutes}
        run = Run(host, target, asked, _build_arms(found), wanted.seed, **plan)
        run.continues_after_boot = any(knob["class"] == schedule.REBOOT for knob in found)

        def work(runner: RoundRunner) -> None:
            tell("it tries each setting once")
            rejected = _try_each_knob(runner.switch, found)
            runner.plan.update(arms=_build_arms(found, rejected), rejected=rejected)
            _Ablation(runner, wanted.rounds).run_rounds()

        variants = removable_options.make_variant_builder(target, host)
        return conduct_run(run, asked, wanted.minutes, variants, work, tell, clock)


def describe_ablation(host: Host, asked: MeasuringRequest, wanted: AblationRequest) -> tuple[str, str]:
    """Return the name of the instance, and sentences on what would be measured; raises as run_ablation."""
    target = find_instance(host, asked.instance, asked.answer_timeout)
    found, untested = _find_knobs(host, target, wanted)
    parts = []
    for unit in schedule.REPETITIONS:
        names = [knob["name"] for knob in found if knob["class"] == unit]
        if names:
            parts.append(f"{unit}: {', '.join(names)}")
    text = f"{target.name} would be measured without each of these in turn, and started anew again and again; "
    text += "; ".join(parts)
    if untested:
        text += f". Not tested: {', '.join(f'{name} ({why})' for name, why in sorted(untested.items()))}"
    return target.name, f"{text}."


def _find_knobs(
    host: Host, target: MeasuredInstance, wanted: AblationRequest
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the removable knobs for build_ablation_arms, and why other knobs are not tested."""
    found, untested = removable_settings.list_removable_settings(
        host, Store(host.fs.root, read_only=True), wanted.reboots
    )
    found += removable_options.list_removable_options(target, host)
    if wanted.only is None:
        return found, untested
    names = [knob["name"] for knob in found]
    for name in wanted.only:
        if name not in names:
            why = untested.get(name, f"here are {', '.join(names) or 'none'}")
            raise BadRequest(f"knobs: {name} cannot be left out on this host: {why}.")
    return [knob for knob in found if knob["name"] in wanted.only], {}


def _build_arms(found: Sequence[Mapping[str, Any]], rejected: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the arms of the run.

    Stock has the boot parameters too, because it starts without a boot, unless boot parameters alone are removed.
    """
    booted = [knob["name"] for knob in found if knob["class"] == schedule.REBOOT]
    return schedule.build_ablation_arms(found, [*rejected, *(booted if len(booted) < len(found) else ())])


def _try_each_knob(switch: ArmSwitch, found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Remove each knob of the host once; return by name why some cannot be removed. Stock has these, too."""
    rejected = {}
    for knob in found:
        try:
            if knob["settings"] and knob["class"] != schedule.REBOOT:
                switch.live(knob)
        except RestoreFailed:
            raise
        except TuningError as error:
            rejected[knob["name"]] = format_error_line(error)
    return rejected


class _Ablation:
    """The order of an ablation: rounds of each class until all is decided, then the confirmation."""

    def __init__(self, runner: RoundRunner, most: int) -> None:
        self.runner = runner
        self.plan = runner.plan
        self._most = most
        #: Number of rounds of a class when its requests were last doubled.
        self._sized: dict[str, int] = {}

    def run_rounds(self) -> None:
        """Measure rounds of each class until all knobs are decided, then the confirmation."""
        for unit in (schedule.LIVE, schedule.RESTART):
            still = self._undecided_knobs(unit)
            while still:
                self._measure_round(unit, schedule.ABLATION, schedule.arms_of_round(self.plan["arms"], unit, still))
                still = self._undecided_knobs(unit)
        self._confirm_kept_settings()

    def _judge_run(self) -> Judgement:
        return Judgement(self.runner.run.document)

    def _undecided_knobs(self, unit: str) -> list[str]:
        """Return the knobs of a class that need another round; none where no other round may begin."""
        those = [
            planned
            for planned in self.plan["order"]
            if (planned["class"], planned["phase"]) == (unit, schedule.ABLATION)
        ]
        if len(those) >= self._most or self.runner.time_share_spent() > SEARCH_TIME_SHARE:
            return []
        judgement = self._judge_run()
        made = [
            measured for measured in judgement.rounds if (measured.unit, measured.phase) == (unit, schedule.ABLATION)
        ]
        self._double_requests_if_noisy(unit, made)
        void = [measured.discard_reason for measured in made]
        hopeless = len(void) >= MAX_DISCARDED_IN_A_ROW and (all(void[-MAX_DISCARDED_IN_A_ROW:]) or judgement.faults)
        return [] if hopeless else judgement.undecided_settings(unit)

    def _double_requests_if_noisy(self, unit: str, made: Sequence[Round]) -> None:
        """Double the requests of each arm, where anchor and twin differ too much by chance.

        The unit of repetition is a round, so a longer round weighs no more than those before; it only scatters
        less.
        """
        last = measured_rounds.log_ratios(made[self._sized.get(unit, 0) :], schedule.AGAIN, measured_rounds.ONE_STREAM)
        most = MAX_LENGTHENING * schedule.REPETITIONS[unit].requests
        if len(last) >= SCATTER_ROUNDS and stdev(last) > MAX_SCATTER and self.runner.requests[unit] < most:
            self.runner.requests[unit] *= 2
            self._sized[unit] = len(made)

    def _confirm_kept_settings(self) -> None:
        """Compare the kept settings in new rounds, if any knob has a verdict."""
        judgement = self._judge_run()
        if judgement.faults or not any(verdict.word in TESTED_WORDS for verdict in judgement.verdicts):
            return
        arms = {arm["without"]: arm for arm in self.plan["arms"] if arm["without"]}
        removed = [
            arms[verdict.knob]
            for verdict in judgement.verdicts
            if verdict.knob in arms and _should_remove(verdict.word, arms[verdict.knob])
        ]
        unit = next(arm["class"] for arm in self.plan["arms"] if arm["name"] == schedule.STOCK)
        names = [schedule.STOCK, schedule.TUNED]
        if removed:
            self.plan["arms"].append(schedule.build_kept_arm(removed, unit))
            names.append(schedule.KEPT)
        good = tried = 0
        while (
            good < schedule.CONFIRMATION_ROUNDS
            and tried < 3 * schedule.CONFIRMATION_ROUNDS
            and self.runner.time_share_spent() < 1
        ):
            self._measure_round(unit, schedule.CONFIRMATION, names)
            tried += 1
            fresh = [measured for measured in self._judge_run().rounds if measured.phase == schedule.CONFIRMATION]
            good = sum(not measured.discard_reason for measured in fresh)
            if tried >= MAX_DISCARDED_IN_A_ROW and not good:
                return

    def _measure_round(self, unit: str, phase: str, names: Sequence[str]) -> None:
        self._reject_ineffective_speculation(self.runner.measure_round(unit, phase, names))
        self.runner.run.save()

    def _reject_ineffective_speculation(self, samples: Collection[Sample]) -> None:
        """Reject the arm without speculation if it drafts, or if nothing is drafted with speculation."""
        name = f"{schedule.WITHOUT}{removable_options.SPECULATION}"
        guessed = {
            arm: sum(sample["drafted"] for sample in samples if sample["arm"] == arm) for arm in (name, schedule.TUNED)
        }
        if not any(sample["arm"] == name for sample in samples):
            return
        if guessed[name]:
            self.runner.reject(removable_options.SPECULATION, f"{guessed[name]} tokens were guessed without it")
        elif not guessed[schedule.TUNED]:
            self.runner.reject(
                removable_options.SPECULATION, "nothing is guessed with it in these prompts, so nothing is left out"
            )


def _should_remove(word: str, arm: Mapping[str, Any]) -> bool:
    """Return whether the confirmation removes a knob: one that hurts, or that taints the kernel without a gain."""
    taints = any(address.startswith(TAINTING_PREFIX) for address in arm["settings"])
    return word == HURTS or (taints and word in (NOTHING, UNDECIDED))
