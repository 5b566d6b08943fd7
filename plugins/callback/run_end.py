# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: run_end
type: aggregate
short_description: The last lines of a run that tunes hosts
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Shows, at the end of a run of C(sovereign.epyc.site) or C(sovereign.epyc.roll), a line for each kind of host with
    the number of settings that were changed and the boot parameters that wait for a reboot, and then the next command.
  - Hosts that failed have a line too. The next command is then the same run, limited to them.
  - Shows nothing in check mode, where P(sovereign.epyc.drift#callback) reports, and nothing after other playbooks.
notes:
  - Enable it with C(callbacks_enabled=sovereign.epyc.run_end). Name it before P(sovereign.epyc.drift#callback), which
    may end the run.
seealso:
  - plugin: sovereign.epyc.drift
    plugin_type: callback
"""

from typing import TYPE_CHECKING, Any

from ansible import context
from ansible.plugins.callback import CallbackBase

from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_lines
from ansible_collections.sovereign.epyc.plugins.plugin_utils import _run_end
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import commands

if TYPE_CHECKING:
    from collections.abc import Mapping

COLLECTION = "sovereign.epyc."
HISTORY, LAST_RUN, BOOT = f"{COLLECTION}epyc_history", f"{COLLECTION}epyc_last_run", f"{COLLECTION}kernel_cmdline"


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core has no annotations
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "sovereign.epyc.run_end"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, display: Any = None, options: Any = None) -> None:
        super().__init__(display=display, options=options)
        self._forget_results()

    def _forget_results(self) -> None:
        self.results: dict[str, _run_end.HostResult] = {}
        #: True once a task has started that only runs of site.yml have.
        self.tunes_hosts = False

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self._forget_results()

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self.tunes_hosts = self.tunes_hosts or str(task.action) == LAST_RUN

    def v2_runner_on_ok(self, result: Any) -> None:
        self._take_result(result.host.get_name(), str(result.task.action), result.result)

    def _take_result(self, host: str, action: str, result: Mapping[str, Any]) -> None:
        entry = self.results.setdefault(host, _run_end.HostResult())
        if action == HISTORY and "changes" in result:
            entry.changes = dict(result["changes"])
        if action in (BOOT, LAST_RUN) and "pending" in result:
            entry.waiting = list(result["pending"])
        if action == LAST_RUN and "pending" in result:  # All of the last run holds, so this one ends here.
            entry.changes = {}

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Show the last lines of the run."""
        if not self.tunes_hosts or context.CLIARGS.get("check"):
            return
        inventory = commands.command_line_inventories()
        counts = {host: stats.summarize(host) for host in stats.processed}
        failed = [host for host, count in counts.items() if count["failures"] or count["unreachable"]]
        lines = _run_end.render_last_lines(
            self.results,
            sorted(failed),
            commands.command_line_without_check(inventory),
            inventory,
            commands.command_line_hosts_pattern(),
        )
        self._display.display(escape_lines("\n".join(lines)))
