# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of the module model_file: a download of hours, and how far it is."""

from __future__ import annotations

import shlex
import uuid
from typing import Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._background import InBackground


class ActionModule(InBackground):
    def prepared(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Have the module write its progress to a file, and print that."""
        progress = arguments.get("progress") or f"/run/sovereign-epyc-{uuid.uuid4().hex}.progress"
        return {**arguments, "progress": progress}, f"cat {shlex.quote(str(progress))} 2>/dev/null"
