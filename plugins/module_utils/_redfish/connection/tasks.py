# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests that a BMC answers before it has done them: the task, or its monitor, is asked until the task ends.

Source: DMTF DSP0266, "Asynchronous operations", and DSP8010, schema Task.
"""

from __future__ import annotations

from .responses import BmcError, parse_messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .client import RedfishClient
    from .responses import Message, Response

#: States of a task that ended without doing its work, and of one that waits for something outside, such as a boot.
FAILED_STATES = ("Exception", "Killed", "Cancelled", "Failed", "CompletedWithErrors")
WAITING_STATES = ("Pending", "Suspended", "Scheduled")
ENDED_STATES = ("Completed", "CompletedWithWarnings")
#: Outcomes of a task as far as a client knows them.
ENDED, FAILED, WAITING, NOT_KNOWN = "ended", "failed", "waiting", "not known"
#: Seconds between two questions about a task whose BMC does not say how long to wait.
TASK_PAUSES = (1, 2, 4, 8, 15)


class Task:
    """What is known of a task: its path ("" where the BMC named none), its state, its outcome and its messages."""

    def __init__(
        self, path: str, state: str, outcome: str, messages: Sequence[Message] = (), pause: float | None = None
    ) -> None:
        self.path = path
        self.state = state
        self.outcome = outcome
        self.messages = list(messages)
        #: The seconds after which the BMC wants to be asked again; None where it does not say.
        self.pause = pause

    @property
    def name(self) -> str:
        return self.path.rstrip("/").rsplit("/", 1)[-1]


def follow_task(client: RedfishClient, response: Response) -> Task | None:
    """Ask about the task of a response until it ends, fails or waits for a boot; None for a response without a task.

    After ``patience`` seconds the outcome is NOT_KNOWN, as it is where the BMC names no task.
    """
    path = find_task_path(response)
    if path is None:
        return None
    task = Task(path, "", NOT_KNOWN)
    waited, questions = 0.0, 0
    while path:
        task = _ask_about_task(client, path)
        pause = task.pause or TASK_PAUSES[min(questions, len(TASK_PAUSES) - 1)]
        if task.outcome != NOT_KNOWN or waited + pause > client.access.patience:
            break
        client.sleep(pause)
        waited, questions = waited + pause, questions + 1
    return task


def find_task_path(response: Response) -> str | None:
    """Return the path of the task, "" where the BMC named none, and None where all is done already."""
    is_task = isinstance(response.body.get("TaskState"), str)
    if response.status != 202 and not is_task:
        return None
    named = response.headers.get("location")
    if not named:
        named = response.body.get("TaskMonitor") or (response.body.get("@odata.id") if is_task else "")
    return str(named or "")


def _ask_about_task(client: RedfishClient, path: str) -> Task:
    try:
        response = client.send_request("GET", path, wants_resource=False)
    except BmcError:
        # The BMC may be back for the next question. Whatever it did meanwhile is found by reading the settings.
        return Task(path, "unknown", NOT_KNOWN)
    state = str(response.body.get("TaskState") or response.body.get("JobState") or "")
    messages = [*parse_messages(response.body.get("Messages")), *response.messages]
    if response.status in (404, 410):
        # Monitors of ended tasks vanish.
        return Task(path, "gone", ENDED)
    if state in FAILED_STATES or response.status >= 400:
        return Task(path, state or f"status {response.status}", FAILED, messages)
    if state in WAITING_STATES:
        return Task(path, state, WAITING, messages)
    if state in ENDED_STATES or (response.status != 202 and not state):
        return Task(path, state, ENDED, messages)
    return Task(path, state or "running", NOT_KNOWN, messages, response.retry_after_seconds())
