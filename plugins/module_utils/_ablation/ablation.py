# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs an ablation: removes one setting or option at a time, and measures which of them make an instance faster.

Arms whose setting takes effect at once share a start of the server in each round. An arm whose setting takes effect at
a start has a start of its own. Rounds continue until each setting has a verdict, or the time is over. Then the arm
``kept``, without the settings that do not pay, is compared with ``stock`` and ``tuned`` in new rounds. At the end of
the run the host has its stored settings again, even after an error.
"""

from __future__ import annotations

import time

from .._bench import progress
from .._bench.documents.run_document import new_run_document
from .._bench.planning.expected_costs import find_expected_costs
from .._bench.planning.objectives import RequestedObjectives
from .._bench.planning.precision import ASSUMED_NOISE
from .._bench.planning.race import best_passes_by_class
from .._bench.planning.time_plan import TimePlan
from .._bench.rounds import schedule
from .._bench.run import FOLDER, Run
from .._bench.sampling.meter import parallel_stream_counts
from .._bench.target.measured_instance import find_llama_instance
from .._errors import BadRequest, TuningError
from .._io.store import Store
from .._serving.unit.installed import select_instance_and_plan
from . import removable_options, removable_settings
from .ablation_rounds import AblationRounds, classes_of_questions, find_confirmation_class, make_race_rules
from .arm_switch import RestoreFailed
from .round_runner import (
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

    from .._bench.load.request import MeasuringRequest
    from .._bench.target.measured_instance import MeasuredInstance
    from .._host.host import Host
    from .arm_switch import ArmSwitch, InstanceVariant
    from .round_runner import RoundRunner

#: Default of the largest number of rounds of a class.
ROUNDS = schedule.MAX_ROUNDS


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
        self.objectives = RequestedObjectives(raw)
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
    name = select_instance_and_plan(request.instance, host.fs.root)[0]
    with progress.hold_run_lock(f"the ablation of {name}"):
        target = find_llama_instance(host, request.instance, request.answer_timeout, clock)
        settings, untested = _list_removable_settings_and_untested_reasons(host, target, options)
        variants = plan_variants(host, target, options.arms, options.instance_options, options.intent)
        options.objectives.set_streams_to_slots_for_throughput(request, target.slots)
        plan = {"untested": untested, "budget_s": 60 * options.minutes, **options.objectives.to_plan()}
        arms = _build_arms_of_run(settings, variants.arms)
        run = Run(host, target, request, arms, options.seed, **plan)
        run.continues_after_boot = any(setting["class"] == schedule.REBOOT for setting in settings)

        def measure_rounds(runner: RoundRunner) -> None:
            report_step("it tries each setting once")
            rejected = _try_each_removal_once(runner.switch, settings)
            runner.plan.update(arms=_build_arms_of_run(settings, variants.arms, rejected), rejected=rejected)
            AblationRounds(runner, settings, options.rounds).measure_all_rounds()

        build_removal = removable_options.make_variant_builder(target, host)

        def build_variant(arm: Mapping[str, Any]) -> InstanceVariant:
            return variants.by_arm.get(arm["name"]) or build_removal(arm)

        return run_rounds_and_restore(run, request, options.minutes, build_variant, measure_rounds, report_step, clock)


def describe_planned_ablation(host: Host, request: MeasuringRequest, options: AblationRequest) -> tuple[str, str]:
    """Return the name of the instance, and sentences on what would be measured; raises as run_ablation."""
    target = find_llama_instance(host, request.instance, request.answer_timeout)
    settings, untested = _list_removable_settings_and_untested_reasons(host, target, options)
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
    options.objectives.set_streams_to_slots_for_throughput(request, target.slots)
    arms = _build_arms_of_run(settings, variants.arms)
    return target.name, f"{text}. {_describe_time(host, target, request, options, arms)}"


def _describe_time(
    host: Host,
    target: MeasuredInstance,
    request: MeasuringRequest,
    options: AblationRequest,
    arms: list[dict[str, Any]],
) -> str:
    """Return sentences on what the minutes would settle, by the costs of the last run or by a prediction."""
    streams = parallel_stream_counts(target, request)
    expected = find_expected_costs(FOLDER, host, target, request, streams)
    if expected is None:
        return "What the time settles is known after the first pass."
    costs, source = expected
    plan = new_run_document("check", target.name, "", 0, {}, arms, **options.objectives.to_plan())["plan"]
    rules = make_race_rules(plan, costs, ASSUMED_NOISE, best_passes_by_class(costs, ASSUMED_NOISE))
    time_plan = TimePlan(classes_of_questions(plan), rules, find_confirmation_class(plan))
    seconds = 60 * options.minutes
    return time_plan.shortage_message(seconds, 0.0) or time_plan.describe_settled_settings(seconds, source)


def _list_removable_settings_and_untested_reasons(
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
