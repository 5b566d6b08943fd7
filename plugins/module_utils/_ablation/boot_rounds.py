# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arms of an ablation that need a boot. The controller reboots the host, and calls this once in each boot.

A call measures the arm that was booted into, adds that to the document of the run, and has the next boot be that of the
next arm. Boot parameters are left out of the configuration alone, never of the stored requests: the boot service puts
them back into it in the very boot that is without them. So the boot after that is tuned again, whoever starts it.
"""

from __future__ import annotations

import time
from contextlib import suppress

from .._bench import progress
from .._bench.documents import run_document as documents
from .._bench.load import prompts as all_prompts
from .._bench.rounds import schedule
from .._bench.run import now
from .._bench.sampling.meter import Meter, step_aside
from .._bench.target import fingerprint
from .._bench.target.measured_instance import find
from .._bench.verdicts.setting_verdicts import Judgement
from .._drift.judge import judge_requests
from .._errors import BadRequest, TuningError
from .._io import command
from .._knobs import apply_stored, trial
from .._knobs.protocol.stored_requests import load_stored_requests
from .._serving.options.unit_names import instance_unit
from . import restore_guard
from .arm_switch import digest_of, hold
from .round_runner import HOPELESS, line, refuse_less

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .._bench.load.request import Asked
    from .._host.host import Host
    from .._io.store import Store
    from .._knobs.protocol.knob import Settings

#: Boots of an arm at most, and how many seconds the units of a boot may take to start.
BOOTS, PATIENCE = 10, 1800.0
BOOT_PARAMETERS = "cmdline:"


class Boots:
    """A run that goes on in other boots. ``host`` can be written to, ``most`` limits the boots of an arm."""

    def __init__(
        self,
        host: Host,
        store: Store,
        path: str,
        asked: Asked,
        most: int,
        clock: Any = time,
    ) -> None:
        """Read the document. BadRequest where it has ended, or was begun with other prompts."""
        refuse_less({"boots": (most, schedule.UNITS[schedule.REBOOT].least)})
        self.host = host
        self.store = store
        self.path = path
        self.asked = asked
        self.most = most
        self.clock = clock
        self.document = documents.load(path)
        self.plan: dict[str, Any] = self.document["plan"]
        self.tuned: Settings = self.document["fingerprint"]["settings"]
        self.boot_id = host.fs.read(trial.BOOT_ID)
        if self.document["ended"]:
            raise BadRequest(f"The run in {path} has ended: begin another one by ablation.yml.")
        if self.document["fingerprint"]["prompts_sha256"] != all_prompts.digest(asked.all):
            raise BadRequest(f"The run in {path} asks other prompts: give kinds, prompts and tokens as it was given.")

    def go_on(self, booted: Mapping[str, Any] | None, stop: bool, tell: Callable[[str], None]) -> dict[str, Any] | None:
        """Measure what was ``booted`` into, and return what to boot into next; None where the run has ended.

        Give back in the next boot what this returned. With ``stop`` no arm comes any more, only the tuned state.
        ``tell`` gets a line on each step.
        """
        booted = booted or None
        last = booted is not None and not booted.get("arm")
        with progress.alone():
            if booted and booted.get("boot_id") == self.boot_id:
                raise TuningError("This host has not rebooted: its boot id is still that of the call before.")
            if booted and not last:
                tell(f"round {booted.get('round')}: {booted.get('arm')}")
                self._measure(booted)
            following = None if stop or last else self._following()
            if following:
                return following
            tell("it puts all back")
            return None if self._end(last) else self._boot(0, "")

    def _boot(self, number: int, arm: str) -> dict[str, Any]:
        return {"round": number, "arm": arm, "boot_id": self.boot_id}

    def _save(self) -> None:
        documents.save(self.path, self.document)

    # What was booted into

    def _measure(self, booted: Mapping[str, Any]) -> None:
        rows = [one for one in self.plan["order"] if str(one["round"]) == str(booted.get("round"))]
        arms = [one for one in self.plan["arms"] if one["name"] == booted.get("arm")]
        if not rows or not arms or arms[0]["name"] not in self._left(rows[0]):
            raise BadRequest(f"booted: round {booted.get('round')} of {self.path} waits for no {booted.get('arm')}.")
        (arm,) = arms
        try:
            self.document["samples"] += self._samples(rows[0]["round"], arm)
        except TuningError as error:
            subject = schedule.subject(arm)
            if not subject:
                raise TuningError(f"{arm['name']} cannot be measured: {line(error)}") from None
            self.plan["rejected"].setdefault(subject, line(error))
        self._save()

    def _samples(self, number: int, arm: Mapping[str, Any]) -> list[Any]:
        name = self.document["instance"]
        # What starts in the same boot would be seen as other programs. It may never end, and then is seen.
        with suppress(TuningError):
            command.try_command(["systemctl", "is-system-running", "--wait"], PATIENCE)
        command.run_command(["systemctl", "start", instance_unit(name)])
        target = find(self.host, name, self.asked.limit, self.clock)
        if target.arguments != self.document["fingerprint"]["arguments"]:
            raise TuningError(f"{instance_unit(name)} was started with other arguments than the run began with.")
        wanted = {**self.tuned, **arm["settings"]}
        settings = fingerprint.settings(self.host)
        unlike = _unlike(settings, wanted)
        if unlike:
            raise TuningError(unlike)
        step_aside(self.host, target.cpus)
        meter = Meter(self.host, target, self.asked, self.clock)
        uneven = meter.warm_up()
        starts = [one["start"] for one in self.document["samples"]]
        where = {"round": number, "arm": arm["name"], "start": max(starts, default=0) + 1}
        requests = schedule.UNITS[schedule.REBOOT].requests
        samples, dummy = meter.measure(
            where, requests, digest_of(settings), lambda: digest_of(fingerprint.settings(self.host))
        )
        for one in samples:
            one["witness"]["boot_id"] = self.boot_id
            one["void"] = " ".join(filter(None, [one["void"], uneven])) or None
        return samples

    # What comes next

    def _following(self) -> dict[str, Any] | None:
        """Return the next arm, with the boot of it configured; None where all is decided."""
        arms = {arm["name"]: arm for arm in self.plan["arms"]}
        while True:
            row = self._row()
            if row is None:
                return None
            arm = arms[self._left(row)[0]]
            restore_guard.refuse_another(self.store)
            try:
                self._configure(arm)
            except TuningError as error:
                self.plan["rejected"].setdefault(schedule.subject(arm) or arm["name"], line(error))
                self._save()
                continue
            return self._boot(row["round"], arm["name"])

    def _row(self) -> dict[str, Any] | None:
        """Return the round that is under way, or a new one where one is needed."""
        order = self.plan["order"]
        mine = [one for one in order if one["class"] == schedule.REBOOT]
        if mine and self._left(mine[-1]):
            last: dict[str, Any] = mine[-1]
            return last
        judgement = Judgement(self.document)
        still = judgement.open(schedule.REBOOT)
        void = [one.void for one in judgement.rounds if one.unit == schedule.REBOOT]
        if not still or len(mine) >= self.most or (len(void) >= HOPELESS and all(void[-HOPELESS:])):
            return None
        names = schedule.members(self.plan["arms"], schedule.REBOOT, still)
        row = schedule.row(self.document["seed"], len(order) + 1, schedule.REBOOT, len(mine) + 1, names)
        order.append(row)
        self._save()
        return row

    def _left(self, row: Mapping[str, Any]) -> list[str]:
        """Return the arms of a round that are neither measured nor rejected."""
        made = {one["arm"] for one in self.document["samples"] if one["round"] == row["round"]}
        out = {schedule.WITHOUT + knob for knob in self.plan["rejected"]}
        return [name for name in row["arms"] if name not in made and name not in out]

    def _configure(self, arm: Mapping[str, Any]) -> None:
        """Have the next boot be that of an arm; the journal is on the disk before anything is written."""
        if not arm["settings"]:
            return
        restore_guard.note(self.store, self.host.fs, instance_unit(self.document["instance"]))
        try:
            hold(self.store, self.host, arm["settings"])
        except TuningError:
            apply_stored.end_trial_and_apply_stored(self.store, self.host.fs)
            raise

    # The end

    def _end(self, tuned: bool) -> bool:
        """Put the stored settings back, and end the document; return False where a boot has to bring them first.

        ``tuned`` says that this boot was for that.
        """
        left = apply_stored.end_trial_and_apply_stored(self.store, self.host.fs).failures
        verdicts = judge_requests(self.host, self.store, load_stored_requests(self.store)[1])
        found = fingerprint.settings(self.host)
        unlike = " ".join(left) or _unlike(found, self.tuned)
        if not tuned and any(
            found.get(one) != self.tuned[one] for one in self.tuned if one.startswith(BOOT_PARAMETERS)
        ):
            return False
        drifted = [one.address for one in verdicts if one.supported and not one.is_clean]
        if not unlike and drifted:
            unlike = f"{drifted[0]} is not as it was configured."
        if unlike:
            self.document["remarks"].append(f"Not all is as it was: {line(unlike)} Run site.yml, and reboot.yml.")
        self.document.update(restored=not unlike, ended=now())
        self._save()
        return True


def _unlike(found: Settings, wanted: Settings) -> str:
    """Return the first setting that is not as wanted in this boot, an empty text where all are.

    Interrupts may have other numbers in another boot, so that their addresses mean others.
    """
    for address, value in sorted(wanted.items()):
        if not address.startswith("irq:") and found.get(address) != value:
            return f"{address} is {found.get(address)} in this boot, and should be {value}."
    return ""
