# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks of a BMC that answers a request before it has done it: 202, and what to ask about the rest."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .errors import RefusedRequest, build_message
from .faults import Faults

ROOT = "/redfish/v1"
SERVICE = f"{ROOT}/TaskService"
TASKS, MONITORS = f"{SERVICE}/Tasks", f"{SERVICE}/TaskMonitors"


@dataclass
class Task:
    """A request that is done when it was asked about often enough."""

    id: str
    work: Callable[[], object]
    polls_left: int
    state: str = "Running"
    messages: tuple[dict[str, Any], ...] = ()

    @property
    def is_open(self) -> bool:
        return self.state == "Running"

    def build_document(self) -> dict[str, Any]:
        """Return the resource of the task."""
        return {
            "@odata.id": f"{TASKS}/{self.id}",
            "@odata.type": "#Task.v1_7_1.Task",
            "Id": self.id,
            "Name": "Task",
            "TaskState": self.state,
            "TaskStatus": "Critical" if self.state == "Exception" else "OK",
            "TaskMonitor": f"{MONITORS}/{self.id}",
            "Messages": list(self.messages),
        }


class Tasks:
    """The open and ended tasks of a BMC. Callers have to hold the lock of `Host`."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.by_id: dict[str, Task] = {}
        self._numbers = itertools.count(1)

    def begin_task(self, work: Callable[[], object]) -> Task:
        """Begin a task that does the work after as many questions as the faults say."""
        task = Task(str(next(self._numbers)), work, self.faults.task_polls)
        self.by_id[task.id] = task
        return task

    def note_question(self) -> None:
        """Let open tasks get on by one question."""
        for task in self.by_id.values():
            if not task.is_open:
                continue
            task.polls_left -= 1
            if task.polls_left > 0:
                continue
            if self.faults.task_fails:
                task.state, task.messages = "Exception", (build_message("GeneralError", text=self.faults.task_fails),)
                continue
            try:
                task.work()
                task.state, task.messages = "Completed", (build_message("Success"),)
            except RefusedRequest as error:
                task.state, task.messages = "Exception", tuple(error.messages)

    def find_task(self, path: str) -> Task | None:
        """Return the task of a path, which is that of the task or of its monitor."""
        folder, _, name = path.rpartition("/")
        return self.by_id.get(name) if folder in (TASKS, MONITORS) else None
