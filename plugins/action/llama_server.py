# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's half of the module llama_server: models that are read for minutes, and which one it is."""

from __future__ import annotations

from typing import Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._background import BackgroundAction

#: Prints each instance that is being started, with the last line of its journal.
STARTING = (
    "systemctl list-units --plain --no-legend --state=activating 'llama-*.service' | cut -d ' ' -f 1 | "
    'while read -r unit; do echo "$unit: $(journalctl -q --no-pager --lines 1 --output cat --unit "$unit")"; done'
)


class ActionModule(BackgroundAction):
    def prepared(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Print what systemd is starting."""
        return arguments, STARTING
