# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: plan
type: aggregate
short_description: A page with the plans of a fleet as maps
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Draws the plan that M(sovereign.epyc.epyc_plan) returned for each host in a run of C(sovereign.epyc.plan). A map has
    sockets, nodes, CCDs, L3 domains and CPUs, with the role of each CPU and of the ways of each L3. Hosts with equal
    plans are drawn once.
  - Writes one HTML file on the controller, also in check mode, and nothing on the hosts. The page needs no network, and
    can be read without its script.
  - Draws nothing for a run with other modules of this collection, such as a run of C(sovereign.epyc.site).
  - Hosts without a plan come first, with the reason. A host whose result this plugin cannot read has no plan.
  - Where no host has a plan, the page of an earlier run stays as it is.
  - Control characters in texts of hosts are shown as escapes, such as those for the direction of writing.
options:
  html:
    description: The file for the page, relative to the present folder. Without this option nothing is written.
    type: str
    env: [{name: SOVEREIGN_EPYC_PLAN_HTML}]
    ini: [{section: sovereign_epyc_plan, key: html}]
notes:
  - Enable it with C(callbacks_enabled=sovereign.epyc.plan,sovereign.epyc.drift), and name a file with O(html).
    P(sovereign.epyc.drift#callback) comes last, because it ends a run in check mode.
seealso:
  - module: sovereign.epyc.epyc_plan
"""

import os
from datetime import datetime, timezone
from typing import Any

from ansible.plugins.callback import CallbackBase

from ansible_collections.sovereign.epyc.plugins.module_utils._io import textfile
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_lines
from ansible_collections.sovereign.epyc.plugins.plugin_utils._host_data import make_report_despite_unreadable_hosts
from ansible_collections.sovereign.epyc.plugins.plugin_utils._plan_page import fleet_plans, plan_html

COLLECTION = "sovereign.epyc."
MODULE = "sovereign.epyc.epyc_plan"
#: Modules of the role epyc_plan and of the first tasks of site.yml. They change no setting.
MODULES_OF_PLAN = (MODULE, "sovereign.epyc.epyc_preflight", "sovereign.epyc.epyc_history")


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core has no annotations
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "sovereign.epyc.plan"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, display: Any = None, options: Any = None) -> None:
        super().__init__(display=display, options=options)
        self._forget_collected_plans()

    def _forget_collected_plans(self) -> None:
        self.collector = fleet_plans.PlanCollector()
        #: True once a task of epyc_plan has started; and once a task of another module of the collection has started.
        self.has_planned = self.runs_other_modules = False

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self._forget_collected_plans()

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        action = str(task.action)
        self.has_planned = self.has_planned or action == MODULE
        self.runs_other_modules = self.runs_other_modules or (
            action.startswith(COLLECTION) and action not in MODULES_OF_PLAN
        )

    def v2_runner_on_ok(self, result: Any) -> None:
        if str(result.task.action) == MODULE:
            self.collector.add_plan(result.host.get_name(), result.result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if str(result.task.action) == MODULE:
            self._record_failure_of_result(result, fleet_plans.FAILED, "It failed without a message.")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._record_failure_of_result(result, fleet_plans.UNREACHABLE, "It did not answer.")

    def _record_failure_of_result(self, result: Any, state: str, message: str) -> None:
        task = result.task.get_name().rpartition(" : ")[2]
        self.collector.record_host_failure(
            result.host.get_name(), state, task, str(result.result.get("msg") or message)
        )

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Write the page of plans, and show its path."""
        path = self.get_option("html")
        if not path or not self.has_planned or self.runs_other_modules:
            return
        if not self.collector.has_plans:
            self._display.display(f"No host has a plan, so nothing was written to {path}.")
            return
        try:
            summary, page = make_report_despite_unreadable_hosts(_render_counts_and_page, self.collector)
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            textfile.write_file(os.path.abspath(path), page)
        except Exception as error:
            # The message of Ansible would not name the file. The output of the run still has the plans as text.
            message = (
                f"The page of plans could not be written to {path}: {error}. Name another file with "
                "SOVEREIGN_EPYC_PLAN_HTML."
            )
            self._display.error(escape_lines(message), wrap_text=False)
            return
        self._display.display(f"{summary} They are drawn in {path}.")


def _render_counts_and_page(collector: fleet_plans.PlanCollector) -> tuple[str, str]:
    """Return the summary of the fleet and the HTML page."""
    document = collector.build_document(datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
    return plan_html.format_plan_counts(document), plan_html.render_plan_page(document)
