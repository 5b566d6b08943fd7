# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of the module model_quantize: runs in the background, and shows its progress."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath
from typing import Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._background import BackgroundAction


class ActionModule(BackgroundAction):
    def job_arguments_and_progress_command(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Return the arguments, and the command that prints the size of the new file so far."""
        path = PurePosixPath(str(arguments.get("path")))
        part = shlex.quote(str(path.with_name(f".{path.name}.part") / "new" / path.name))
        return arguments, f'test -f {part} && echo "$(du --apparent-size -h {part} | cut -f 1) of {path.name} written"'
