# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Actions of modules that may take hours: the module runs in the background of its host, and the action polls the host.

A connection without traffic is cut by many firewalls within minutes, and the play would fail. Here the controller polls
every few seconds, reconnects when the connection was lost, and shows the progress of the module. The work and the
result of the module stay the same.
"""

from __future__ import annotations

import os
import shlex
import time
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.measuring_run import ASKED, STEP

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Timeout of a module in seconds; it only ends a module whose controller was lost.
MODULE_TIMEOUT = 2 * 24 * 3600
#: Seconds before the first poll, because most modules end at once, and between two lines of progress.
FIRST_PAUSE, PROGRESS_INTERVAL = 0.3, 15.0
#: Growth of the pause between polls, so that a play ends soon after its module, however long that took.
PAUSE_GROWTH = 1.25
#: Seconds between two polls after the connection was lost.
PAUSE_AFTER_LOSS = 5.0
#: Seconds for which a host may be unreachable.
MAX_UNREACHABLE = 600.0
#: Seconds without a poll after which a measuring module ends its run.
CONTROLLER_TIMEOUT = 60
#: A pattern that matches the result file of a job until the module has ended.
RUNNING_PATTERN = '"finished": *\\(0\\|false\\)'
#: Keys that a background job adds to the result of its module.
JOB_KEYS = ("ansible_job_id", "results_file", "started", "finished")
MAX_LINE = 160


class BackgroundAction(ActionBase):  # type: ignore[misc]  # ansible-core has no annotations
    """An action that runs the module of the same name in the background, and shows the progress of the module."""

    _supports_check_mode = True
    _supports_async = True
    #: Seconds between two polls at most.
    longest_pause = 5.0
    #: A shell command that is part of each poll.
    poll_command = "true"

    def job_arguments_and_progress_command(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Return the arguments for the module, and the shell command that prints its progress on the host."""
        raise NotImplementedError

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module in the background and show its progress; in check mode, or with async, only run it."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        options = dict(self._task.args)
        if self._task.async_val or self._task.check_mode:
            is_async = self._task.async_val
            return {**result, **self._execute_module(module_args=options, task_vars=variables, wrap_async=is_async)}
        arguments, command = self.job_arguments_and_progress_command(options)
        self._task.async_val = MODULE_TIMEOUT
        try:
            job = self._execute_module(module_args=arguments, task_vars=variables, wrap_async=True)
        finally:
            self._task.async_val = 0
        if job.get("failed") or not job.get("results_file"):
            return {**result, **job}
        self._show_progress_until_module_ends(
            job["results_file"], command, str(variables.get("inventory_hostname", ""))
        )
        return {**result, **self._fetch_and_remove_result_file(job, variables)}

    def _show_progress_until_module_ends(self, result_file: str, progress_command: str, host: str) -> None:
        """Wait until the module has ended, and show a line of its progress now and then."""
        ended = f"{self.poll_command}; grep -qs {shlex.quote(RUNNING_PATTERN)} {shlex.quote(result_file)} || exit 9"
        begun = reached = shown = time.monotonic()
        pause, last_line = FIRST_PAUSE, ""
        # Ansible runs this in a process of its own, which survives an ansible-playbook that was killed.
        controller = os.getppid()
        while True:
            time.sleep(pause)
            if os.getppid() != controller:
                raise AnsibleActionFail("ansible-playbook has ended, so that nobody waits for this task.")
            pause = min(PAUSE_GROWTH * pause, self.longest_pause)
            now = time.monotonic()
            # The progress command can cost the host more than the poll, so it runs only when its line can be shown.
            is_due = now - shown >= PROGRESS_INTERVAL and not self._task.no_log
            question = f"{ended}; {progress_command}; true" if is_due else ended
            try:
                answer: Mapping[str, Any] = self._low_level_execute_command(question)
            except AnsibleConnectionFailure:
                if now - reached > MAX_UNREACHABLE:
                    raise
                self._connection.reset()
                pause = min(pause, PAUSE_AFTER_LOSS)
                continue
            reached = now
            if answer["rc"]:
                return
            line = _last_line_without_unprintable(answer["stdout"])
            if is_due and line and line != last_line:
                shown, last_line = now, line
                self._display.display(f"{host}: {line} ({now - begun:.0f} s)")

    def _fetch_and_remove_result_file(self, job: Mapping[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a module that has ended, and remove the file that holds it."""
        question = {"jid": job["ansible_job_id"], "_async_dir": os.path.dirname(job["results_file"])}
        status = "ansible.legacy.async_status"
        answer: dict[str, Any] = self._execute_module(module_name=status, module_args=question, task_vars=variables)
        self._low_level_execute_command(f"rm -f {shlex.quote(job['results_file'])}")
        return {key: value for key, value in answer.items() if key not in JOB_KEYS}


def _last_line_without_unprintable(text: str) -> str:
    """Return the last line that is not blank, shortened, and without characters that a terminal would interpret."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "".join(char for char in lines[-1] if char.isprintable()).strip()[:MAX_LINE] if lines else ""


class MeasuringAction(BackgroundAction):
    """An action of a module that measures an instance for minutes or hours, and writes its progress into a file.

    Each poll changes the time of a file on the host. The module ends its run where no poll comes any more, because its
    controller was interrupted or lost its connection.
    """

    #: Polls are rare, because a poll takes CPU time of the host, and a round in which other programs take 2 percent is
    #: discarded. But two polls may fail before the module ends its run.
    longest_pause = 20.0
    poll_command = f"touch {ASKED} 2>/dev/null"

    def job_arguments_and_progress_command(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
        return {"controller_timeout": CONTROLLER_TIMEOUT, **arguments}, f"cat {STEP} 2>/dev/null"


class StartingInstances(BackgroundAction):
    """An action of a module that starts instances, which read their models for minutes."""

    #: A pattern of the names of the units that are started.
    units = ""

    def job_arguments_and_progress_command(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Return the arguments, and the command that prints each starting unit with the last line of its journal."""
        return arguments, (
            f"systemctl list-units --plain --no-legend --state=activating '{self.units}' | cut -d ' ' -f 1 | while "
            'read -r unit; do echo "$unit: $(journalctl -q --no-pager --lines 1 --output cat --unit "$unit")"; done'
        )
