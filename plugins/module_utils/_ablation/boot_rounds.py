# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures the arms of an ablation that need a boot; the controller calls ``continue_after_boot`` once in each boot.

A call measures the arm of this boot, adds its samples to the document, and configures the next boot for the next arm. A
boot parameter is removed from the boot configuration only, never from the stored requests. During the boot without the
parameter, the boot service restores it in the boot configuration. So the following boot has all parameters again, even
if the controller is lost.
"""

from __future__ import annotations

import time
from contextlib import suppress

from .._bench import progress
from .._bench.documents import run_document as documents
from .._bench.load import prompts as all_prompts
from .._bench.rounds import schedule
from .._bench.rounds.measured_rounds import last_rounds_all_discarded
from .._bench.sampling.meter import Meter, move_off_instance_cpus
from .._bench.target import fingerprint
from .._bench.target.measured_instance import find_llama_instance
from .._bench.verdicts.setting_verdicts import Judgement
from .._drift.judge import judge_requests
from .._errors import BadRequest, TuningError
from .._io import command
from .._knobs import apply_stored, trial
from .._knobs.protocol.stored_requests import load_stored_requests
from .._notation.numbers import format_utc_time
from .._serving.options.unit_names import instance_unit_name
from . import restore_guard
from .arm_switch import digest_settings, write_originals_in_undo_order
from .round_runner import add_discard_reason, error_to_single_line, refuse_numbers_out_of_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .._bench.load.request import MeasuringRequest
    from .._host.host import Host
    from .._io.store import Store
    from .._knobs.protocol.knob import Settings

#: The default of the largest number of boots of an arm, and the seconds that all units may take to start in a boot.
MAX_BOOTS, BOOT_TIMEOUT = 10, 1800.0
BOOT_PARAMETERS = "cmdline:"


class BootRounds:
    """An ablation that continues in several boots.

    ``host`` is writable, and ``max_boots`` limits the boots of an arm.
    """

    def __init__(
        self,
        host: Host,
        store: Store,
        path: str,
        request: MeasuringRequest,
        max_boots: int,
        clock: Any = time,
    ) -> None:
        """Load the document of the run; BadRequest where the run has ended, or began with other prompts."""
        refuse_numbers_out_of_range({"boots": (max_boots, schedule.REPETITIONS[schedule.REBOOT].least)})
        self.host = host
        self.store = store
        self.path = path
        self.request = request
        self.max_boots = max_boots
        self.clock = clock
        self.document = documents.load_document(path)
        self.plan: dict[str, Any] = self.document["plan"]
        self.tuned: Settings = self.document["fingerprint"]["settings"]
        self.boot_id = host.fs.read(trial.BOOT_ID)
        if self.document["ended"]:
            raise BadRequest(f"The run in {path} has ended: begin another one by ablation.yml.")
        if self.document["fingerprint"]["prompts_sha256"] != all_prompts.digest_prompts(request.all_prompts):
            raise BadRequest(f"The run in {path} asks other prompts: give kinds, prompts and tokens as it was given.")

    def continue_after_boot(
        self, booted: Mapping[str, Any] | None, stop: bool, report_step: Callable[[str], None]
    ) -> dict[str, Any] | None:
        """Measure the arm of this boot; return round, arm and boot id for the next boot, None where the run has ended.

        ``booted`` is the result of the previous call. With ``stop`` no further arm is measured, and only the stored
        settings are restored. ``report_step`` is called with a line on each step.
        """
        booted = booted or None
        # A boot for no arm restores the stored settings.
        is_restored = booted is not None and not booted.get("arm")
        with progress.hold_run_lock(f"the ablation of {self.document['instance']}"):
            if booted and booted.get("boot_id") == self.boot_id:
                raise TuningError("This host has not rebooted: its boot id is still that of the call before.")
            if booted and not is_restored:
                report_step(f"round {booted.get('round')}: {booted.get('arm')}")
                self._measure_booted_arm(booted)
            next_boot = None if stop or is_restored else self._configure_boot_of_next_arm()
            if next_boot:
                return next_boot
            report_step("it puts all back")
            return None if self._restore_and_end_run(is_restored) else self._boot_to_dict(0, "")

    def _boot_to_dict(self, round_number: int, arm: str) -> dict[str, Any]:
        return {"round": round_number, "arm": arm, "boot_id": self.boot_id}

    def _save_document(self) -> None:
        documents.save_document(self.path, self.document)

    def _measure_booted_arm(self, booted: Mapping[str, Any]) -> None:
        rows = [planned for planned in self.plan["order"] if str(planned["round"]) == str(booted.get("round"))]
        arms = [arm for arm in self.plan["arms"] if arm["name"] == booted.get("arm")]
        if not rows or not arms or arms[0]["name"] not in self._unmeasured_arms(rows[0]):
            raise BadRequest(f"booted: round {booted.get('round')} of {self.path} waits for no {booted.get('arm')}.")
        (arm,) = arms
        try:
            self.document["samples"] += self._measure_samples_of_arm(rows[0]["round"], arm)
        except TuningError as error:
            subject = schedule.rejectable_setting_or_candidate(arm)
            if not subject:
                raise TuningError(f"{arm['name']} cannot be measured: {error_to_single_line(error)}") from None
            self.plan["rejected"].setdefault(subject, error_to_single_line(error))
        self._save_document()

    def _measure_samples_of_arm(self, number: int, arm: Mapping[str, Any]) -> list[Any]:
        name = self.document["instance"]
        # Units that are still starting would count as other programs, so the measurement waits until all units have
        # started. A unit that never finishes starting ends the wait by its timeout, and counts as another program.
        with suppress(TuningError):
            command.try_command(["systemctl", "is-system-running", "--wait"], BOOT_TIMEOUT)
        command.run_command(["systemctl", "start", instance_unit_name(name)])
        target = find_llama_instance(self.host, name, self.request.answer_timeout, self.clock)
        if target.arguments != self.document["fingerprint"]["arguments"]:
            raise TuningError(f"{instance_unit_name(name)} was started with other arguments than the run began with.")
        settings = fingerprint.read_values_of_stored_settings(self.host)
        message = _differing_setting_message(settings, {**self.tuned, **arm["settings"]})
        if message:
            raise TuningError(message)
        move_off_instance_cpus(self.host, target.cpus)
        meter = Meter(self.host, target, self.request, self.clock)
        unstable_reason = meter.warm_up_and_report_instability()
        starts = [sample["start"] for sample in self.document["samples"]]
        place = {"round": number, "arm": arm["name"], "start": max(starts, default=0) + 1}
        requests = schedule.REPETITIONS[schedule.REBOOT].requests
        samples, dummy = meter.measure_samples(
            place,
            requests,
            digest_settings(settings),
            lambda: digest_settings(fingerprint.read_values_of_stored_settings(self.host)),
        )
        add_discard_reason(samples, unstable_reason)
        for sample in samples:
            sample["witness"]["boot_id"] = self.boot_id
        return samples

    def _configure_boot_of_next_arm(self) -> dict[str, Any] | None:
        """Configure the next boot for the next arm, and return the boot; None where no further arm is needed."""
        arms = {arm["name"]: arm for arm in self.plan["arms"]}
        while True:
            row = self._unfinished_or_new_round()
            if row is None:
                return None
            arm = arms[self._unmeasured_arms(row)[0]]
            restore_guard.require_host_tool_and_no_trial(self.store)
            try:
                self._configure_next_boot(arm)
            except TuningError as error:
                self.plan["rejected"].setdefault(
                    schedule.rejectable_setting_or_candidate(arm) or arm["name"], error_to_single_line(error)
                )
                self._save_document()
                continue
            return self._boot_to_dict(row["round"], arm["name"])

    def _unfinished_or_new_round(self) -> dict[str, Any] | None:
        """Return the planned round with unmeasured arms, or else a new round; None where no further round is needed."""
        order = self.plan["order"]
        planned_rounds: list[dict[str, Any]] = [planned for planned in order if planned["class"] == schedule.REBOOT]
        if planned_rounds and self._unmeasured_arms(planned_rounds[-1]):
            return planned_rounds[-1]
        judgement = Judgement(self.document)
        undecided = judgement.undecided_settings(schedule.REBOOT)
        rounds = [measured for measured in judgement.rounds if measured.setting_class == schedule.REBOOT]
        if not undecided or len(planned_rounds) >= self.max_boots or last_rounds_all_discarded(rounds):
            return None
        names = schedule.arm_names_of_round(self.plan["arms"], schedule.REBOOT, undecided)
        nth_of_class = len(planned_rounds) + 1
        row = schedule.plan_round(self.document["seed"], len(order) + 1, schedule.REBOOT, nth_of_class, names)
        order.append(row)
        self._save_document()
        return row

    def _unmeasured_arms(self, planned_round: Mapping[str, Any]) -> list[str]:
        measured = {sample["arm"] for sample in self.document["samples"] if sample["round"] == planned_round["round"]}
        rejected = set(map(schedule.removal_arm_name, self.plan["rejected"]))
        return [name for name in planned_round["arms"] if name not in measured | rejected]

    def _configure_next_boot(self, arm: Mapping[str, Any]) -> None:
        """Configure the next boot for an arm; the journal of the trial is on the disk before the first write."""
        if not arm["settings"]:
            return
        restore_guard.write_trial_journal(self.store, self.host.fs, instance_unit_name(self.document["instance"]))
        try:
            write_originals_in_undo_order(self.store, self.host, arm["settings"])
        except TuningError:
            apply_stored.end_trial_and_apply_stored(self.store, self.host.fs)
            raise

    def _restore_and_end_run(self, is_restoring_boot: bool) -> bool:
        """Restore the stored settings and end the document; return False where restoring needs another boot first.

        ``is_restoring_boot`` is True where the host was rebooted only to restore the settings.
        """
        failures = apply_stored.end_trial_and_apply_stored(self.store, self.host.fs).failures
        verdicts = judge_requests(self.host, self.store, load_stored_requests(self.store)[1])
        settings = fingerprint.read_values_of_stored_settings(self.host)
        message = " ".join(failures) or _differing_setting_message(settings, self.tuned)
        boot_parameters = [address for address in self.tuned if address.startswith(BOOT_PARAMETERS)]
        if not is_restoring_boot and any(settings.get(name) != self.tuned[name] for name in boot_parameters):
            return False
        drifted = [verdict.address for verdict in verdicts if verdict.supported and not verdict.is_clean]
        if not message and drifted:
            message = f"{drifted[0]} is not as it was configured."
        if message:
            self.document["remarks"].append(
                f"Not all is as it was: {error_to_single_line(message)} Run site.yml, and reboot.yml."
            )
        self.document.update(restored=not message, ended=format_utc_time())
        self._save_document()
        return True


def _differing_setting_message(settings: Settings, expected: Settings) -> str:
    """Return the message for the first setting that differs from its expected value, or an empty text.

    Interrupts are not compared, because an interrupt may have another number after a boot.
    """
    for address, value in sorted(expected.items()):
        if not address.startswith("irq:") and settings.get(address) != value:
            return f"{address} is {settings.get(address)} in this boot, and should be {value}."
    return ""
