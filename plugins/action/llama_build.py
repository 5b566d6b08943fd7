# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of the module llama_build: runs the build in the background, and shows its progress."""

from __future__ import annotations

import shlex
from typing import Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._background import BackgroundAction

FOLDER = "/opt/llama"


class ActionModule(BackgroundAction):
    def job_arguments_and_progress_command(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Return the arguments, and the command that prints the last line of the newest log in the folder.

        The newest log is the log of this build, because builds in a folder run one after another.
        """
        folder = shlex.quote(str(arguments.get("folder") or FOLDER))
        return arguments, f'log=$(ls -t {folder}/*.log 2>/dev/null | head -n 1); test "$log" && tail -n 1 "$log"'
