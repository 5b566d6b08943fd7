# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The BIOS settings behind a BMC: what is active and what pending, which job applies it, what a boot makes of it."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .errors import Refused, message
from .faults import Faults
from .personality import Personality
from .registry import Registry


@dataclass
class Job:
    """A job of the vendors that need one to apply settings."""

    id: str
    state: str = "Scheduled"
    percent: int = 0
    names: tuple[str, ...] = ()


class Bios:
    """The settings of one machine, under names that are never opaque. Whoever calls holds the server's lock."""

    def __init__(self, personality: Personality, faults: Faults, active: Mapping[str, Any]) -> None:
        self.personality = personality
        self.faults = faults
        self.registry = Registry(personality, faults.opaque_names)
        self.messages: list[dict[str, Any]] = []
        self.jobs: dict[str, Job] = {}
        self.made = not faults.post_first  # whether the pending object exists
        self.defaults_pending = False
        self._boots_left = 0
        self._others = 0  # writes of somebody else, which change the ETags
        self._numbers = itertools.count(1)
        #: What the last boot has put in force, as the BMC sees it.
        self.active = {**personality.start(), **active}
        #: What a boot will change.
        self.pending = dict(faults.foreign_pending)
        #: What the machine has, whatever the BMC says.
        self.kernel = personality.truth(self.active)
        if faults.foreign_job:
            self._schedule()

    @property
    def scheduled(self) -> Job | None:
        """The job that waits for a boot."""
        return next((job for job in self.jobs.values() if job.state == "Scheduled"), None)

    def shown_active(self) -> dict[str, Any]:
        """`Attributes` of Bios."""
        early = self.pending if self.faults.early_active and self.scheduled else {}
        return self.registry.show({**self.active, **early})

    def shown_pending(self) -> dict[str, Any]:
        """`Attributes` of the pending object: all, or those that differ, as the vendor does it."""
        everything = self.personality["pending_shows"] == "all"
        return self.registry.show({**self.active, **self.pending} if everything else self.pending)

    def etag(self, shown: Mapping[str, Any]) -> str:
        """The ETag of what is shown."""
        text = json.dumps([shown, self._others, [asdict(job) for job in self.jobs.values()]], sort_keys=True)
        return '"' + hashlib.sha256(text.encode()).hexdigest()[:16] + '"'

    def somebody_writes(self) -> None:
        """Another client changes the object, so that its ETag is a new one."""
        self._others += 1

    def patch(self, wanted: Mapping[str, Any], apply_time: str | None) -> Job | None:
        """Take new pending values, all or none; the job that will apply them, where the vendor has jobs."""
        if self.faults.no_licence:
            raise Refused(403, "SMC.1.0.OemLicenseNotPassed", "DCMS")
        if not self.made:
            raise Refused(404, "ResourceMissingAtURI", "SD")
        if apply_time and apply_time not in self.personality["apply_times"]:
            raise Refused(400, "PropertyValueNotInList", apply_time, "ApplyTime")
        for name, value in wanted.items():
            self.registry.check(name, value)
        values = {self.registry.known[name]: value for name, value in wanted.items()}
        if values.items() <= self.pending.items() and values:
            return None
        if self.scheduled:
            raise Refused(400, "IDRAC.2.8.SYS011")
        if self.personality["conflict"] == "refuse":
            self._refuse_locked(values)
        self.pending.update(values)
        for name in [name for name, value in self.pending.items() if value == self.active[name]]:
            del self.pending[name]
        self._boots_left = 2 if self.faults.two_boots else 1
        job = self._schedule() if self.personality["jobs"] and apply_time and self.pending else None
        return job

    def _around(self, more: Mapping[str, Any]) -> dict[str, Any]:
        """The values that dependencies look at."""
        return dict(self.active) if self.faults.parent_must_be_active else {**self.active, **self.pending, **more}

    def _refuse_locked(self, values: Mapping[str, Any]) -> None:
        around = self._around(values)
        for name in values:
            if parent := self.registry.locked_by(name, around):
                raise Refused(400, "PropertyValueConflict", self.registry.shown[name], self.registry.shown[parent])

    def _schedule(self) -> Job:
        job = Job(f"JID_{100000000000 + next(self._numbers)}", names=tuple(self.pending))
        self.jobs[job.id] = job
        return job

    def make_job(self) -> Job:
        """A client asks for a job of its own."""
        if self.scheduled or not self.pending:
            raise Refused(400, "IDRAC.2.8.SYS011")
        return self._schedule()

    def clear(self) -> None:
        """Forget what is pending, unless a job holds it."""
        if self.scheduled:
            raise Refused(400, "IDRAC.2.8.SYS011")
        self.pending.clear()

    def delete_job(self, job: str) -> None:
        """Delete a job; what it would have applied goes with it."""
        if self.jobs[job].state == "Scheduled":
            self.pending.clear()
        del self.jobs[job]

    def boot(self, cold: bool = False) -> None:
        """What the POST makes of the pending values. A vendor with jobs applies nothing without one."""
        if self.faults.cold_only and not cold:
            return
        if self.defaults_pending:
            self.active, self.defaults_pending = self.personality.start(), False
            self.pending.clear()
        job = self.scheduled
        if job or (self.pending and not self.personality["jobs"]):
            self._boots_left -= 1
            if self._boots_left <= 0:
                self._apply()
                if job:
                    job.state, job.percent = "Completed", 100
        if not self.faults.os_unchanged:
            self.kernel = self.personality.truth(self.active)

    def _apply(self) -> None:
        pending, around = dict(self.pending), self._around(self.pending)
        self.messages, refused = [message("Success")], []
        for name, value in pending.items():
            if name in self.faults.accept_and_drop:
                continue
            locked = self.registry.locked_by(name, around)
            if name in self.faults.refused_at_boot or (locked and self.personality["conflict"] == "message"):
                refused.append(message("Bios.1.0.SettingRefused", name, related=self.registry.shown[name]))
            elif not locked:
                self.active[name] = value
        self.messages += refused
        self.pending.clear()
        self.made = not self.faults.post_first
