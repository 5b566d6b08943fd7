# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of the module model_file: shows the progress of the download, and passes the token.

Ansible writes the arguments of a module to a disk of the host. The token must not be on a disk, so it goes over the
connection into a file in memory, which the module removes first.
"""

from __future__ import annotations

import shlex
import uuid
from contextlib import suppress
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure

from ansible_collections.sovereign.epyc.plugins.plugin_utils._background import BackgroundAction


class ActionModule(BackgroundAction):
    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module with the token in a file of the host's memory; in check mode the token stays here."""
        token = self._task.args.pop("token", None)
        if not token:
            return super().run(tmp, task_vars)
        file = f"/run/sovereign-epyc-{uuid.uuid4().hex}.token"
        self._task.args["token_file"] = file
        if self._task.check_mode:
            return super().run(tmp, task_vars)
        path = shlex.quote(file)
        done = self._low_level_execute_command(f"umask 077 && cat > {path}", in_data=str(token).encode())
        if done["rc"]:
            raise AnsibleActionFail(f"token: {file} cannot be written on the host, so run the task with become.")
        try:
            return super().run(tmp, task_vars)
        finally:
            # In a task with async, the module may not have started yet. The module removes the file itself then.
            with suppress(AnsibleConnectionFailure):
                if not self._task.async_val:
                    self._low_level_execute_command(f"rm -f {path}")

    def job_arguments_and_progress_command(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Return the arguments with a file for the progress, and the command that prints this file."""
        progress = arguments.get("progress") or f"/run/sovereign-epyc-{uuid.uuid4().hex}.progress"
        return {**arguments, "progress": progress}, f"cat {shlex.quote(str(progress))} 2>/dev/null"
