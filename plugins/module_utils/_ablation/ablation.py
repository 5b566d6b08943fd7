# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs an ablation: removes one setting or option at a time, and measures which of them make an instance faster.

Arms whose setting takes effect at once share a server, which restarts every few rounds. An arm whose setting takes
effect at a start has a start of its own. Rounds continue until each setting has a verdict, or the time is over. Then
the arm ``kept``, without the settings that do not pay, is compared with ``stock`` and ``tuned`` in new rounds. At the
end of the run the host has its stored settings again, even after an error.
"""

from __future__ import annotations

import time
from statistics import stdev

from .._bench import progress
from .._bench.rounds import measured_rounds, schedule
from .._bench.rounds.limits import MAX_DISCARDED_IN_A_ROW
from .._bench.run import Run
from .._bench.target.measured_instance import find_llama_instance
from .._bench.verdicts.comparison import HURTS, NOTHING, UNDECIDED
from .._bench.verdicts.setting_verdicts import TESTED_WORDS, Judgement
from .._errors import BadRequest, TuningError
from .._io.store import Store
from . import removable_options, removable_settings
from .arm_switch import RestoreFailed
from .round_runner import (
    SEARCH_TIME_SHARE,
    error_to_single_line,
    parse_minutes_and_seed,
    refuse_numbers_out_of_range,
    run_rounds_and_restore,
)
from .variants import plan_variants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from .._bench.load.answer import Sample
    from .._bench.load.request import MeasuringRequest
    from .._bench.rounds.measured_rounds import Round
    from .._bench.target.measured_instance import MeasuredInstance
    from .._host.host import Host
    from .arm_switch import ArmSwitch, InstanceVariant
    from .round_runner import RoundRunner

#: Default of the largest number of rounds of a class.
ROUNDS = schedule.MAX_ROUNDS
#: The log ratios of tuned to its twin are noise. Their standard deviation over at least this many rounds doubles the
#: requests of each arm where it is above this limit, up to this many times the first number of requests.
NOISE_ROUNDS, MAX_NOISE, MAX_LENGTHENING = 3, 0.01, 8
#: A write to such an address taints the kernel, so a setting with such an address is removed unless it pays.
TAINTING_PREFIX = "msr:"


class AblationRequest:
    """Options of an ablation beside those of every measurement; ``only`` are the names of settings to test.

    With ``reboots``, boot parameters have arms too, which _ablation/boot_rounds.py measures.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """Read options by name, of which any may be missing; BadRequest for an invalid option."""
        self.minutes, self.seed = parse_minutes_and_seed(raw)
        self.rounds = ROUNDS if raw.get("rounds") is None else int(raw["rounds"])
        self.only: list[str] | None = raw.get("knobs")
        self.reboots = bool(raw.get("reboots"))
        #: The options of each arm with another program, model or other options; then the options of the instance and
        #: the intent that such arms are planned from.
        self.arms: list[dict[str, Any]] = list(raw.get("arms") or [])
        self.instance_options: dict[str, Any] | None = raw.get("instance_options")
        self.intent: dict[str, Any] | None = raw.get("intent")
        if self.arms and self.only is None:
            self.only = []
        refuse_numbers_out_of_range({"rounds": (self.rounds, 4)})


def run_ablation(
    host: Host,
    request: MeasuringRequest,
    options: AblationRequest,
    report_step: Callable[[str], None],
    clock: Any = time,
) -> tuple[str, dict[str, Any]]:
    """Measure the effect of each removable setting; return the path of the run document, and the document.

    ``report_step`` is called with a line on each step. BadRequest or TuningError where the run cannot begin or be
    completed: then the settings are restored too, and the file has the samples until then.
    """
    with progress.hold_run_lock(f"the ablation of {request.instance or 'the only instance'}"):
        target = find_llama_instance(host, request.instance, request.answer_timeout, clock)
        settings, untested = _list_removable_and_untested(host, target, options)
        variants = plan_variants(host, target, options.arms, options.instance_options, options.intent)
        plan = {"untested": untested, "budget_s": 60 * options.minutes}
        arms = _build_arms_of_run(settings, variants.arms)
        run = Run(host, target, request, arms, options.seed, **plan)
        run.continues_after_boot = any(setting["class"] == schedule.REBOOT for setting in settings)

        def measure_rounds(runner: RoundRunner) -> None:
            report_step("it tries each setting once")
            rejected = _try_each_removal_once(runner.switch, settings)
            runner.plan.update(arms=_build_arms_of_run(settings, variants.arms, rejected), rejected=rejected)
            _AblationRounds(runner, options.rounds).measure_all_rounds()

        build_removal = removable_options.make_variant_builder(target, host)

        def build_variant(arm: Mapping[str, Any]) -> InstanceVariant:
            return variants.by_arm.get(arm["name"]) or build_removal(arm)

        return run_rounds_and_restore(run, request, options.minutes, build_variant, measure_rounds, report_step, clock)


def describe_planned_ablation(host: Host, request: MeasuringRequest, options: AblationRequest) -> tuple[str, str]:
    """Return the name of the instance, and sentences on what would be measured; raises as run_ablation."""
    target = find_llama_instance(host, request.instance, request.answer_timeout)
    settings, untested = _list_removable_and_untested(host, target, options)
    variants = plan_variants(host, target, options.arms, options.instance_options, options.intent)
    parts = []
    for setting_class in schedule.REPETITIONS:
        names = [setting["name"] for setting in settings if setting["class"] == setting_class]
        if names:
            parts.append(f"{setting_class}: {', '.join(names)}")
    if variants.arms:
        parts.append(f"compared with: {', '.join(arm['name'][len(schedule.VARIANT) :] for arm in variants.arms)}")
    without = "without each of these in turn" if settings else "in turn with other options"
    text = f"{target.name} would be measured {without}, and started anew again and again; {'; '.join(parts)}"
    if untested:
        text += f". Not tested: {', '.join(f'{name} ({reason})' for name, reason in sorted(untested.items()))}"
    return target.name, f"{text}."


def _list_removable_and_untested(
    host: Host, target: MeasuredInstance, options: AblationRequest
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the removable settings and options for build_ablation_arms, and by name why others are not tested."""
    store = Store(host.fs.root, read_only=True)
    removable, untested = removable_settings.list_removable_settings(host, store, options.reboots)
    removable += removable_options.list_removable_options(target, host)
    if options.only is None:
        return removable, untested
    names = [setting["name"] for setting in removable]
    for name in options.only:
        if name not in names:
            reason = untested.get(name, f"here are {', '.join(names) or 'none'}")
            raise BadRequest(f"knobs: {name} cannot be left out on this host: {reason}.")
    return [setting for setting in removable if setting["name"] in options.only], {}


def _build_arms_of_run(
    settings: Sequence[Mapping[str, Any]], variants: Sequence[dict[str, Any]], rejected: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the arms of the run.

    Stock keeps the boot parameters because it starts without a boot, unless the run removes nothing but boot
    parameters.
    """
    booted = [setting["name"] for setting in settings if setting["class"] == schedule.REBOOT]
    in_stock = [*rejected, *(booted if len(booted) < len(settings) else ())]
    return schedule.build_ablation_arms(settings, in_stock, variants)


def _try_each_removal_once(switch: ArmSwitch, settings: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Remove each setting of the host once; return by name why some settings cannot be removed."""
    rejected = {}
    for setting in settings:
        try:
            if setting["settings"] and setting["class"] != schedule.REBOOT:
                switch.apply_settings(setting)
        except RestoreFailed:
            raise
        except TuningError as error:
            rejected[setting["name"]] = error_to_single_line(error)
    return rejected


class _AblationRounds:
    """The rounds of an ablation: those of each class until every setting has a verdict, then the confirmation."""

    def __init__(self, runner: RoundRunner, max_rounds: int) -> None:
        self.runner = runner
        self.plan = runner.plan
        self._max_rounds = max_rounds
        #: Class -> the number of its rounds when its requests were last doubled.
        self._rounds_at_doubling: dict[str, int] = {}

    def measure_all_rounds(self) -> None:
        for setting_class in (schedule.LIVE, schedule.RESTART):
            while undecided := self._undecided_settings(setting_class):
                names = schedule.arm_names_of_round(self.plan["arms"], setting_class, undecided)
                self._measure_round(setting_class, schedule.ABLATION, names)
        self._confirm_kept_settings()

    def _judge_run(self) -> Judgement:
        return Judgement(self.runner.run.document)

    def _undecided_settings(self, setting_class: str) -> list[str]:
        """Return the settings of a class that need another round; none where no other round may begin."""
        phase = (setting_class, schedule.ABLATION)
        planned = sum((planned["class"], planned["phase"]) == phase for planned in self.plan["order"])
        if planned >= self._max_rounds or self.runner.share_of_minutes_spent() > SEARCH_TIME_SHARE:
            return []
        judgement = self._judge_run()
        rounds = [measured for measured in judgement.rounds if (measured.setting_class, measured.phase) == phase]
        self._double_requests_if_noisy(setting_class, rounds)
        if measured_rounds.last_rounds_all_discarded(rounds) or (
            len(rounds) >= MAX_DISCARDED_IN_A_ROW and judgement.faults
        ):
            return []
        return judgement.undecided_settings(setting_class)

    def _double_requests_if_noisy(self, setting_class: str, rounds: Sequence[Round]) -> None:
        """Double the requests of each arm where tuned and its twin differ too much by chance.

        A round counts once however long it is, so longer rounds do not outweigh the rounds before; they only have less
        noise.
        """
        recent = rounds[self._rounds_at_doubling.get(setting_class, 0) :]
        noise = measured_rounds.log_ratios_of_counting_rounds(recent, schedule.AGAIN, measured_rounds.ONE_STREAM)
        most = MAX_LENGTHENING * schedule.REPETITIONS[setting_class].requests
        if len(noise) >= NOISE_ROUNDS and stdev(noise) > MAX_NOISE and self.runner.requests[setting_class] < most:
            self.runner.requests[setting_class] *= 2
            self._rounds_at_doubling[setting_class] = len(rounds)

    def _confirm_kept_settings(self) -> None:
        """Compare the kept settings with stock and tuned in new rounds, if any setting was measured."""
        judgement = self._judge_run()
        if judgement.faults or not any(verdict.word in TESTED_WORDS for verdict in judgement.verdicts):
            return
        arms = {arm["without"]: arm for arm in self.plan["arms"] if arm["without"]}
        removed = [
            arms[verdict.knob]
            for verdict in judgement.verdicts
            if verdict.knob in arms and _should_leave_out_of_kept(verdict.word, arms[verdict.knob])
        ]
        setting_class = next(arm["class"] for arm in self.plan["arms"] if arm["name"] == schedule.STOCK)
        names = [schedule.STOCK, schedule.TUNED]
        if removed:
            self.plan["arms"].append(schedule.build_kept_arm(removed, setting_class))
            names.append(schedule.KEPT)
        for tries in range(1, 3 * schedule.CONFIRMATION_ROUNDS + 1):
            if self.runner.share_of_minutes_spent() >= 1:
                return
            self._measure_round(setting_class, schedule.CONFIRMATION, names)
            rounds = [measured for measured in self._judge_run().rounds if measured.phase == schedule.CONFIRMATION]
            counting = sum(not measured.discard_reason for measured in rounds)
            if counting >= schedule.CONFIRMATION_ROUNDS or (tries >= MAX_DISCARDED_IN_A_ROW and not counting):
                return

    def _measure_round(self, setting_class: str, phase: str, names: Sequence[str]) -> None:
        self._reject_ineffective_speculation(self.runner.measure_round(setting_class, phase, names))
        self.runner.run.save()

    def _reject_ineffective_speculation(self, samples: Collection[Sample]) -> None:
        """Reject the arm without speculation where it drafts tokens, or where tuned drafts no tokens."""
        speculation = removable_options.SPECULATION
        name = schedule.removal_arm_name(speculation)
        drafted = {
            arm: sum(sample["drafted"] for sample in samples if sample["arm"] == arm) for arm in (name, schedule.TUNED)
        }
        if not any(sample["arm"] == name for sample in samples):
            return
        if drafted[name]:
            self.runner.reject(speculation, f"{drafted[name]} tokens were guessed without it")
        elif not drafted[schedule.TUNED]:
            self.runner.reject(speculation, "nothing is guessed with it in these prompts, so nothing is left out")


def _should_leave_out_of_kept(verdict_word: str, arm: Mapping[str, Any]) -> bool:
    """Return whether ``kept`` lacks a setting: one that hurts, or one that taints the kernel without a gain."""
    taints = any(address.startswith(TAINTING_PREFIX) for address in arm["settings"])
    return verdict_word == HURTS or (taints and verdict_word in (NOTHING, UNDECIDED))
