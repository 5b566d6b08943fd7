# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arms of an ablation that need a boot: the controller reboots the host, and calls this once in each boot.

A call measures the arm of this boot, adds its samples to the document, and configures the next boot for the next arm.
Boot parameters are removed from the boot configuration alone, never from the stored requests: the boot service restores
them in the configuration during the very boot without them. So the boot after that is tuned again, whoever starts it.
"""

from __future__ import annotations

import time
from contextlib import suppress

from .._bench import progress
from .._bench.documents import run_document as documents
from .._bench.load import prompts as all_prompts
from .._bench.rounds import schedule
from .._bench.rounds.limits import MAX_DISCARDED_IN_A_ROW
from .._bench.run import format_now
from .._bench.sampling.meter import Meter, leave_cpus_of_instance
from .._bench.target import fingerprint
from .._bench.target.measured_instance import find_instance
from .._bench.verdicts.setting_verdicts import Judgement
from .._drift.judge import judge_requests
from .._errors import BadRequest, TuningError
from .._io import command
from .._knobs import apply_stored, trial
from .._knobs.protocol.stored_requests import load_stored_requests
from .._serving.options.unit_names import instance_unit
from . import restore_guard
from .arm_switch import digest_settings, write_originals
from .round_runner import format_error_line, validate_minimums

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .._bench.load.request import MeasuringRequest
    from .._host.host import Host
    from .._io.store import Store
    from .._knobs.protocol.knob import Settings

#: Default of the largest number of boots of an arm, and seconds that the units of a boot may take to start.
MAX_BOOTS, BOOT_TIMEOUT = 10, 1800.0
BOOT_PARAMETERS = "cmdline:"


class BootRounds:
    """A run that continues in other boots. ``host`` is writable, ``most`` limits the boots of an arm."""

    def __init__(
        self,
        host: Host,
        store: Store,
        path: str,
        asked: MeasuringRequest,
        most: int,
        clock: Any = time,
    ) -> None:
        """Load the document; BadRequest where the run has ended, or began with other prompts."""
        validate_minimums({"boots": (most, schedule.REPETITIONS[schedule.REBOOT].least)})
        self.host = host
        self.store = store
        self.path = path
        self.asked = asked
        self.most = most
        self.clock = clock
        self.document = documents.load_document(path)
        self.plan: dict[str, Any] = self.document["plan"]
        self.tuned: Settings = self.document["fingerprint"]["settings"]
        self.boot_id = host.fs.read(trial.BOOT_ID)
        if self.document["ended"]:
            raise BadRequest(f"The run in {path} has ended: begin another one by ablation.yml.")
        if self.document["fingerprint"]["prompts_sha256"] != all_prompts.digest_prompts(asked.all_prompts):
            raise BadRequest(f"The run in {path} asks other prompts: give kinds, prompts and tokens as it was given.")

    def continue_after_boot(
        self, booted: Mapping[str, Any] | None, stop: bool, tell: Callable[[str], None]
    ) -> dict[str, Any] | None:
        """Measure the arm of this boot, and return the next boot; None where the run has ended.

        ``booted`` is what the previous call returned. With ``stop`` no further arm is measured, and only the
        tuned state is restored. ``tell`` is called with a line on each step.
        """
        booted = booted or None
        last = booted is not None and not booted.get("arm")
        with progress.exclusive_run():
            if booted and booted.get("boot_id") == self.boot_id:
                raise TuningError("This host has not rebooted: its boot id is still that of the call before.")
            if booted and not last:
                tell(f"round {booted.get('round')}: {booted.get('arm')}")
                self._measure_booted_arm(booted)
            following = None if stop or last else self._prepare_next_arm()
            if following:
                return following
            tell("it puts all back")
            return None if self._restore_and_finish(last) else self._describe_boot(0, "")

    def _describe_boot(self, number: int, arm: str) -> dict[str, Any]:
        return {"round": number, "arm": arm, "boot_id": self.boot_id}

    def _save_document(self) -> None:
        documents.save_document(self.path, self.document)

    def _measure_booted_arm(self, booted: Mapping[str, Any]) -> None:
        rows = [planned for planned in self.plan["order"] if str(planned["round"]) == str(booted.get("round"))]
        arms = [arm for arm in self.plan["arms"] if arm["name"] == booted.get("arm")]
        if not rows or not arms or arms[0]["name"] not in self._unmeasured_arms(rows[0]):
            raise BadRequest(f"booted: round {booted.get('round')} of {self.path} waits for no {booted.get('arm')}.")
        (arm,) = arms
        try:
            self.document["samples"] += self._take_samples(rows[0]["round"], arm)
        except TuningError as error:
            subject = schedule.rejectable_subject(arm)
            if not subject:
                raise TuningError(f"{arm['name']} cannot be measured: {format_error_line(error)}") from None
            self.plan["rejected"].setdefault(subject, format_error_line(error))
        self._save_document()

    def _take_samples(self, number: int, arm: Mapping[str, Any]) -> list[Any]:
        name = self.document["instance"]
        # Units that start in this boot would count as other programs, so the measurement waits for them. The wait may
        # time out, and then they are seen as such.
        with suppress(TuningError):
            command.try_command(["systemctl", "is-system-running", "--wait"], BOOT_TIMEOUT)
        command.run_command(["systemctl", "start", instance_unit(name)])
        target = find_instance(self.host, name, self.asked.answer_timeout, self.clock)
        if target.arguments != self.document["fingerprint"]["arguments"]:
            raise TuningError(f"{instance_unit(name)} was started with other arguments than the run began with.")
        wanted = {**self.tuned, **arm["settings"]}
        settings = fingerprint.read_settings(self.host)
        unlike = _differing_setting_message(settings, wanted)
        if unlike:
            raise TuningError(unlike)
        leave_cpus_of_instance(self.host, target.cpus)
        meter = Meter(self.host, target, self.asked, self.clock)
        uneven = meter.warm_up()
        starts = [sample["start"] for sample in self.document["samples"]]
        where = {"round": number, "arm": arm["name"], "start": max(starts, default=0) + 1}
        requests = schedule.REPETITIONS[schedule.REBOOT].requests
        samples, dummy = meter.measure(
            where, requests, digest_settings(settings), lambda: digest_settings(fingerprint.read_settings(self.host))
        )
        for sample in samples:
            sample["witness"]["boot_id"] = self.boot_id
            sample["void"] = " ".join(filter(None, [sample["void"], uneven])) or None
        return samples

    def _prepare_next_arm(self) -> dict[str, Any] | None:
        """Return the next arm after its boot was configured; None where all is decided."""
        arms = {arm["name"]: arm for arm in self.plan["arms"]}
        while True:
            row = self._current_round()
            if row is None:
                return None
            arm = arms[self._unmeasured_arms(row)[0]]
            restore_guard.refuse_second_trial(self.store)
            try:
                self._configure_next_boot(arm)
            except TuningError as error:
                self.plan["rejected"].setdefault(
                    schedule.rejectable_subject(arm) or arm["name"], format_error_line(error)
                )
                self._save_document()
                continue
            return self._describe_boot(row["round"], arm["name"])

    def _current_round(self) -> dict[str, Any] | None:
        """Return the round that is not complete, or a new one where one is needed; else None."""
        order = self.plan["order"]
        mine = [planned for planned in order if planned["class"] == schedule.REBOOT]
        if mine and self._unmeasured_arms(mine[-1]):
            last: dict[str, Any] = mine[-1]
            return last
        judgement = Judgement(self.document)
        still = judgement.undecided_settings(schedule.REBOOT)
        void = [measured.discard_reason for measured in judgement.rounds if measured.unit == schedule.REBOOT]
        if (
            not still
            or len(mine) >= self.most
            or (len(void) >= MAX_DISCARDED_IN_A_ROW and all(void[-MAX_DISCARDED_IN_A_ROW:]))
        ):
            return None
        names = schedule.arms_of_round(self.plan["arms"], schedule.REBOOT, still)
        row = schedule.plan_round(self.document["seed"], len(order) + 1, schedule.REBOOT, len(mine) + 1, names)
        order.append(row)
        self._save_document()
        return row

    def _unmeasured_arms(self, row: Mapping[str, Any]) -> list[str]:
        made = {sample["arm"] for sample in self.document["samples"] if sample["round"] == row["round"]}
        out = {schedule.WITHOUT + knob for knob in self.plan["rejected"]}
        return [name for name in row["arms"] if name not in made and name not in out]

    def _configure_next_boot(self, arm: Mapping[str, Any]) -> None:
        """Configure the next boot for an arm; the journal is on the disk before anything is written."""
        if not arm["settings"]:
            return
        restore_guard.write_trial_journal(self.store, self.host.fs, instance_unit(self.document["instance"]))
        try:
            write_originals(self.store, self.host, arm["settings"])
        except TuningError:
            apply_stored.end_trial_and_apply_stored(self.store, self.host.fs)
            raise

    def _restore_and_finish(self, tuned: bool) -> bool:
        """Restore the stored settings and end the document; return False where that needs a boot first.

        ``tuned`` says that this boot was made for the restoring.
        """
        left = apply_stored.end_trial_and_apply_stored(self.store, self.host.fs).failures
        verdicts = judge_requests(self.host, self.store, load_stored_requests(self.store)[1])
        found = fingerprint.read_settings(self.host)
        unlike = " ".join(left) or _differing_setting_message(found, self.tuned)
        if not tuned and any(
            found.get(address) != self.tuned[address] for address in self.tuned if address.startswith(BOOT_PARAMETERS)
        ):
            return False
        drifted = [verdict.address for verdict in verdicts if verdict.supported and not verdict.is_clean]
        if not unlike and drifted:
            unlike = f"{drifted[0]} is not as it was configured."
        if unlike:
            self.document["remarks"].append(
                f"Not all is as it was: {format_error_line(unlike)} Run site.yml, and reboot.yml."
            )
        self.document.update(restored=not unlike, ended=format_now())
        self._save_document()
        return True


def _differing_setting_message(found: Settings, wanted: Settings) -> str:
    """Return the first setting that is not as wanted in this boot, an empty text where all are.

    Interrupts may have other numbers after a boot, so that their addresses mean other interrupts; they are not
    compared.
    """
    for address, value in sorted(wanted.items()):
        if not address.startswith("irq:") and found.get(address) != value:
            return f"{address} is {found.get(address)} in this boot, and should be {value}."
    return ""
