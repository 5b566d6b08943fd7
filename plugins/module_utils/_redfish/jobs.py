# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs that apply BIOS settings at a boot. A BMC of Dell applies settings only by a job.

Source: Dell's schema DellJob; DMTF DSP8010, schema Task.
"""

from __future__ import annotations

from .connection.responses import BmcError, Response, join_error_messages, parse_messages
from .connection.tasks import FAILED_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .connection.client import RedfishClient

#: States of a job of Dell that waits, and of a job that waits or runs.
WAITING_JOB_STATES = ("New", "Downloading", "Downloaded", "Scheduling", "Scheduled", "ReadyForExecution", "Waiting")
OPEN_JOB_STATES = (*WAITING_JOB_STATES, "Running")


class Job:
    """A job that applies BIOS settings at the next boot."""

    def __init__(self, path: str, resource: Mapping[str, Any]) -> None:
        self.path = path
        self.id = str(resource.get("Id") or path.rstrip("/").rsplit("/", 1)[-1])
        self.state = str(resource.get("JobState") or resource.get("TaskState") or "unknown")
        self.kind = str(resource.get("JobType") or resource.get("Name") or "")
        self.messages = list(parse_messages(resource.get("Messages")))
        if isinstance(resource.get("Message"), str):
            self.messages += parse_messages([{"Message": resource["Message"]}])

    @property
    def has_failed(self) -> bool:
        return self.state in FAILED_STATES


def fetch_failure_of_job(client: RedfishClient, path: str) -> str:
    """Return a sentence with the reason why a job or a task failed; "" for any other, and for one that is gone."""
    try:
        response: Response | None = client.fetch_resource_if_present(path) if path else None
    except BmcError:
        return ""
    job = Job(path, response.body if response else {})
    if not job.has_failed:
        return ""
    messages = join_error_messages(job.messages, client.access.scrubber)
    reason = f": '{messages}'." if messages else "."
    return f"The job {job.id} is {job.state}{reason}"
