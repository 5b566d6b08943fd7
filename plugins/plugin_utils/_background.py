# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules that may take hours run in the background of their host, so that no connection has to last as long.

A connection over which nothing goes is cut by many firewalls within minutes, and the play would fail. Here the
controller asks every few seconds, goes on when a connection was lost, and shows how far the module is. What the module
itself does, and what it returns, is the same.
"""

from __future__ import annotations

import os
import shlex
import time
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.progress import FILE

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Seconds after which a module is ended. It only bounds what a lost controller leaves behind.
LIMIT = 2 * 24 * 3600
#: Seconds before the first question, for most modules end at once; and how often progress is shown.
FIRST, SHOWN = 0.3, 15.0
#: How much longer each pause is than the one before. A play ends soon after its module, whatever time that took.
GROWTH = 1.25
#: For how many seconds a host may be out of reach.
LOST = 600.0
#: What is in the file of a job, in these words, until the module has ended.
RUNNING = '"finished": *\\(0\\|false\\)'
#: What a job adds to the result of its module.
OF_THE_JOB = ("ansible_job_id", "results_file", "started", "finished")
WIDTH = 160


class InBackground(ActionBase):  # type: ignore[misc]  # ansible-core has no annotations
    """Runs the module of its name, and shows a line that a command of the host prints about it."""

    _supports_check_mode = True
    _supports_async = True
    #: Seconds between two questions at most.
    longest = 5.0

    def prepared(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Return the arguments for the module, and the command that prints how far it is."""
        raise NotImplementedError

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module; with a task's own async, or in check mode, as any other."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        given = dict(self._task.args)
        if self._task.async_val or self._task.check_mode:
            wrapped = self._task.async_val
            return {**result, **self._execute_module(module_args=given, task_vars=variables, wrap_async=wrapped)}
        arguments, command = self.prepared(given)
        self._task.async_val = LIMIT
        try:
            job = self._execute_module(module_args=arguments, task_vars=variables, wrap_async=True)
        finally:
            self._task.async_val = 0
        if job.get("failed") or not job.get("results_file"):
            return {**result, **job}
        self._wait(job["results_file"], command, str(variables.get("inventory_hostname", "")))
        return {**result, **self._collected(job, variables)}

    def _wait(self, file: str, command: str, host: str) -> None:
        """Wait until the module has ended, and show what changes meanwhile."""
        ended = f"grep -qs {shlex.quote(RUNNING)} {shlex.quote(file)} || exit 9"
        begun = reached = shown = time.monotonic()
        pause, last = FIRST, ""
        while True:
            time.sleep(pause)
            pause = min(GROWTH * pause, self.longest)
            now = time.monotonic()
            # How far it is can cost the host more than whether it ended, so that is asked only when it can be shown.
            due = now - shown >= SHOWN and not self._task.no_log
            question = f"{ended}; {command}; true" if due else ended
            try:
                answer: Mapping[str, Any] = self._low_level_execute_command(question)
            except AnsibleConnectionFailure:
                if now - reached > LOST:
                    raise
                self._connection.reset()
                continue
            reached = now
            if answer["rc"]:
                return
            line = _plain(answer["stdout"])
            if due and line and line != last:
                shown, last = now, line
                self._display.display(f"{host}: {line} ({now - begun:.0f} s)")

    def _collected(self, job: Mapping[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a module that has ended, and remove the file that holds it."""
        where = {"jid": job["ansible_job_id"], "_async_dir": os.path.dirname(job["results_file"])}
        status = "ansible.legacy.async_status"
        done: dict[str, Any] = self._execute_module(module_name=status, module_args=where, task_vars=variables)
        self._low_level_execute_command(f"rm -f {shlex.quote(job['results_file'])}")
        return {key: value for key, value in done.items() if key not in OF_THE_JOB}


def _plain(text: str) -> str:
    """Return the last line of a text without what a terminal would take for a command."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "".join(char for char in lines[-1] if char.isprintable()).strip()[:WIDTH] if lines else ""


class Measuring(InBackground):
    """A module that measures an instance, which takes minutes or hours, and writes down how far it is."""

    #: A question takes processor time of the host, and a round is void where others take 2 percent.
    longest = 30.0

    def prepared(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Print the line of the run."""
        return arguments, f"cat {FILE} 2>/dev/null"


class StartingInstances(InBackground):
    """A module that starts instances, whose models are read for minutes."""

    #: A pattern of the names of their units.
    units = ""

    def prepared(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Print each instance that is being started, with the last line of its journal."""
        return arguments, (
            f"systemctl list-units --plain --no-legend --state=activating '{self.units}' | cut -d ' ' -f 1 | while "
            'read -r unit; do echo "$unit: $(journalctl -q --no-pager --lines 1 --output cat --unit "$unit")"; done'
        )
