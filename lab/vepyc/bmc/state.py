# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The BIOS settings behind a BMC: active and pending values, jobs that apply them, and what a boot does."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .errors import RefusedRequest, build_message
from .faults import Faults
from .personality import Personality
from .registry import Registry


@dataclass
class Job:
    """A job that applies settings at the next boot, for vendors that need one."""

    id: str
    state: str = "Scheduled"
    percent: int = 0
    names: tuple[str, ...] = ()
    message: str = ""


class Bios:
    """The settings of a machine, by their clear names. Callers have to hold the lock of `Host`."""

    def __init__(self, personality: Personality, faults: Faults, active: Mapping[str, Any]) -> None:
        self.personality = personality
        self.faults = faults
        self.registry = Registry(personality, faults)
        self.messages: list[dict[str, Any]] = []
        self.jobs: dict[str, Job] = {}
        self.has_pending_object = not faults.post_first  # True if the pending object exists
        self.defaults_pending = False
        self._boots_left = 0
        self._others = 0  # writes of other clients, which change the ETags
        self._numbers = itertools.count(1)
        #: The values that the last boot has put in force, as the BMC shows them.
        self.active = {**personality.default_settings(), **active}
        #: The values that the next boot will put in force.
        self.pending = dict(faults.foreign_pending)
        #: What the machine really has, which the BMC may show wrongly.
        self.machine_state = personality.settings_to_machine_state(self.active)
        if faults.foreign_job:
            self._schedule_job()

    @property
    def scheduled_job(self) -> Job | None:
        """The job that waits for a boot."""
        return next((job for job in self.jobs.values() if job.state == "Scheduled"), None)

    @property
    def apply_times(self) -> list[str]:
        """The times at which the BMC can apply settings."""
        return list(self.faults.apply_times or self.personality["apply_times"])

    def active_attributes(self) -> dict[str, Any]:
        """Return `Attributes` of the resource Bios."""
        early = self.pending if self.faults.early_active and self.scheduled_job else {}
        return self.registry.client_values({**self.active, **early}, "active")

    def pending_attributes(self) -> dict[str, Any]:
        """Return `Attributes` of the pending object: all, or only those that differ, depending on the vendor."""
        everything = self.personality["pending_shows"] == "all"
        shown = {**self.active, **self.pending} if everything else self.pending
        return {**self.registry.client_values(shown, "pending"), **self.faults.only_in_pending}

    def compute_etag(self, shown: Mapping[str, Any]) -> str:
        """Return the ETag of an object with these attributes."""
        text = json.dumps([shown, self._others, [asdict(job) for job in self.jobs.values()]], sort_keys=True)
        weak = "W/" if self.faults.if_match in ("weak", "strong") else ""
        return f'{weak}"{hashlib.sha256(text.encode()).hexdigest()[:16]}"'

    def note_foreign_write(self) -> None:
        """Record a write of another client, which changes the ETag."""
        self._others += 1

    def store_pending(self, wanted: Mapping[str, Any], apply_time: str | None) -> Job | None:
        """Store new pending values, all or none; return the job that will apply them, if the vendor has jobs."""
        if self.faults.no_licence:
            raise RefusedRequest(403, "SMC.1.0.OemLicenseNotPassed", "DCMS")
        if not self.has_pending_object:
            raise RefusedRequest(404, "ResourceMissingAtURI", "SD")
        if apply_time and apply_time not in self.apply_times:
            raise RefusedRequest(400, "PropertyValueNotInList", apply_time, "ApplyTime")
        wanted = {name: self.registry.parse_client_value(name, value) for name, value in wanted.items()}
        for name, value in wanted.items():
            self.registry.validate_value(name, value)
        values = {self.registry.known[name]: value for name, value in wanted.items()}
        if values.items() <= self.pending.items() and values:
            return None
        if self.scheduled_job:
            raise RefusedRequest(400, "IDRAC.2.8.SYS011")
        if self.personality["conflict"] == "refuse":
            self._refuse_locked(values)
        self.pending.update(
            {name: value for name, value in values.items() if name not in self.faults.accept_and_drop_at_once}
        )
        for name in [name for name, value in self.pending.items() if value == self.active[name]]:
            del self.pending[name]
        self._boots_left = 2 if self.faults.two_boots else 1
        job = self._schedule_job() if self.personality["jobs"] and apply_time and self.pending else None
        return job

    def _values_for_dependencies(self, new_values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values by which dependencies are decided."""
        return dict(self.active) if self.faults.parent_must_be_active else {**self.active, **self.pending, **new_values}

    def _refuse_locked(self, values: Mapping[str, Any]) -> None:
        around = self._values_for_dependencies(values)
        for name in values:
            if parent := self.registry.locking_attribute(name, around):
                raise RefusedRequest(
                    400, "PropertyValueConflict", self.registry.shown[name], self.registry.shown[parent]
                )

    def _schedule_job(self) -> Job:
        job = Job(f"JID_{100000000000 + next(self._numbers)}", names=tuple(self.pending))
        self.jobs[job.id] = job
        return job

    def create_job(self) -> Job:
        """Create a job for the pending values, as a client asks for it."""
        if self.scheduled_job or not self.pending:
            raise RefusedRequest(400, "IDRAC.2.8.SYS011")
        return self._schedule_job()

    def clear_pending(self) -> None:
        """Drop the pending values; RefusedRequest if a job is scheduled for them."""
        if self.scheduled_job:
            raise RefusedRequest(400, "IDRAC.2.8.SYS011")
        self.pending.clear()

    def delete_job(self, job: str) -> None:
        """Delete a job, and the pending values if it was to apply them."""
        if self.jobs[job].state == "Scheduled":
            self.pending.clear()
        del self.jobs[job]

    def apply_at_boot(self, cold: bool = False) -> None:
        """Apply pending values as a boot does. With jobs, values without a job stay pending."""
        if self.faults.cold_only and not cold:
            return
        if self.defaults_pending:
            self.active, self.defaults_pending = self.personality.default_settings(), False
            self.pending.clear()
        job = self.scheduled_job
        if job or (self.pending and not self.personality["jobs"]):
            self._boots_left -= 1
            if self._boots_left <= 0 and job and self.faults.job_fails:
                job.state, job.percent, job.message = "Failed", 100, self.faults.job_fails
                self.pending.clear()
            elif self._boots_left <= 0:
                self._apply_pending()
                if job:
                    job.state, job.percent = "Completed", 100
        if not self.faults.os_unchanged:
            self.machine_state = self.personality.settings_to_machine_state(self.active)

    def _apply_pending(self) -> None:
        pending, around = dict(self.pending), self._values_for_dependencies(self.pending)
        self.messages, refused = [build_message("Success")], []
        for name, value in pending.items():
            if name in self.faults.accept_and_drop:
                continue
            locked = self.registry.locking_attribute(name, around)
            if name in self.faults.refused_at_boot or (locked and self.personality["conflict"] == "message"):
                refused.append(build_message("Bios.1.0.SettingRefused", name, related=self.registry.shown[name]))
            elif not locked:
                self.active[name] = value
        self.messages += refused
        self.pending.clear()
        self.has_pending_object = not self.faults.post_first
