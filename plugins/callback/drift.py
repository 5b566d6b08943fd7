# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: drift
type: aggregate
short_description: A report on the drift of a fleet
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Reports which settings of a fleet are not as configured, from the results of M(sovereign.epyc.epyc_drift_info),
    which C(sovereign.epyc.drift) runs on each host. Also reports the changes that any play in check mode would make, as
    far as check mode shows changes. Other plays have no report.
  - Groups hosts with equal drift. Shows for each setting whether it is wrong now, at the next boot, or waits for a
    reboot, which role and variables request it, and which command repairs it. Compares with the report before.
  - A setting that could not be read has the status unknown. A task that check mode had to skip, and a result that this
    plugin cannot read, have this status too.
  - Control characters in texts of hosts are shown as escapes, such as those for colours and for the direction of
    writing. In JSON the texts are unchanged.
  - Shows only the name of a task with C(no_log).
  - Where no host was checked, files of an earlier report stay as they are.
options:
  terminal:
    description: Whether to show the report as a page in the terminal.
    type: bool
    default: true
    env: [{name: SOVEREIGN_EPYC_DRIFT_TERMINAL}]
    ini: [{section: sovereign_epyc_drift, key: terminal}]
  json:
    description: >-
      A file for the report as JSON. It has everything that the other formats show, and C(docs/drift-report.schema.json)
      describes it.
    type: path
    env: [{name: SOVEREIGN_EPYC_DRIFT_JSON}]
    ini: [{section: sovereign_epyc_drift, key: json}]
  html:
    description: A file for the report as one HTML page, which needs no network.
    type: path
    env: [{name: SOVEREIGN_EPYC_DRIFT_HTML}]
    ini: [{section: sovereign_epyc_drift, key: html}]
  markdown:
    description: A file for the report as Markdown.
    type: path
    env: [{name: SOVEREIGN_EPYC_DRIFT_MARKDOWN}]
    ini: [{section: sovereign_epyc_drift, key: markdown}]
  junit:
    description: A file for the report as JUnit XML, with a suite for each host and a case for each layer.
    type: path
    env: [{name: SOVEREIGN_EPYC_DRIFT_JUNIT}]
    ini: [{section: sovereign_epyc_drift, key: junit}]
  metrics:
    description: A file for the report as metrics of Prometheus. A textfile collector only reads names with C(.prom).
    type: path
    env: [{name: SOVEREIGN_EPYC_DRIFT_METRICS}]
    ini: [{section: sovereign_epyc_drift, key: metrics}]
  previous:
    description:
      - An earlier report as JSON. The comparison shows which findings are new, which are resolved, and since when
        others are known.
      - Without this option, the comparison is with the file of O(json) before this run.
    type: path
    env: [{name: SOVEREIGN_EPYC_DRIFT_PREVIOUS}]
    ini: [{section: sovereign_epyc_drift, key: previous}]
  exit_code:
    description:
      - Whether to set the exit code of C(ansible-playbook). It is V(0) when all is as configured, V(2) on drift, and
        V(1) where a host failed or could not be reached, no host was checked, or the report could not be made or
        written.
      - Ends the run when the report is made, so name this plugin last in C(callbacks_enabled).
    type: bool
    default: true
    env: [{name: SOVEREIGN_EPYC_DRIFT_EXIT_CODE}]
    ini: [{section: sovereign_epyc_drift, key: exit_code}]
notes:
  - Enable it with C(callbacks_enabled=sovereign.epyc.drift). With C(stdout_callback=sovereign.epyc.drift), the screen
    shows nothing but the report.
  - Runs with several playbooks have a report for each, and end after the first one that is not clean.
seealso:
  - module: sovereign.epyc.epyc_drift_info
"""

import json
import os
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from ansible import context
from ansible.playbook.handler import Handler
from ansible.plugins.callback import CallbackBase
from ansible.utils import color

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._formats import newer_format_message
from ansible_collections.sovereign.epyc.plugins.module_utils._io import textfile
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.address_kinds import OTHER
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_lines
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import (
    commands,
    drift_html,
    fleet_metrics,
    fleet_report,
    junit_file,
    markdown_page,
    schema,
    task_results,
    terminal_page,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._host_data import (
    Malformed,
    make_report_despite_unreadable_hosts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

FORMATS: dict[str, Callable[[fleet_report.Document], str]] = {
    "html": drift_html.render_drift_html_page,
    "markdown": markdown_page.render_markdown,
    "junit": junit_file.render_junit,
    "metrics": fleet_metrics.render_fleet_metrics,
    # The JSON file is written last, because the next run compares with it.
    "json": lambda document: json.dumps(document, indent=1) + "\n",
}


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core has no annotations
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "sovereign.epyc.drift"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, display: Any = None, options: Any = None) -> None:
        super().__init__(display=display, options=options)
        self.collector = fleet_report.ResultCollector()
        #: Hosts on which a module has checked all settings, and those of them that have findings.
        self.fully_checked: set[str] = set()
        self.hosts_with_findings: set[str] = set()
        self.in_check_mode = bool(context.CLIARGS.get("check"))
        self.is_active = self.in_check_mode

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self.collector = fleet_report.ResultCollector()
        self.fully_checked, self.hosts_with_findings = set(), set()
        self.is_active = self.in_check_mode

    def v2_playbook_on_play_start(self, play: Any) -> None:
        # A play without hosts starts no task, but its report has to say that no host was checked.
        tasks = [task for entry in play.get_tasks() for task in (entry if isinstance(entry, list) else [entry])]
        self.is_active = self.is_active or task_results.DRIFT_MODULE in map(_short_module_name, tasks)

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self.is_active = self.is_active or _short_module_name(task) == task_results.DRIFT_MODULE

    def v2_runner_on_ok(self, result: Any) -> None:
        self._add_check_mode_findings(result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._add_check_mode_findings(result, skipped=True)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        # The assertion of drift.yml fails for a host with findings, and the report has these findings already.
        is_verdict = _short_module_name(result.task) == "assert" and result.host.get_name() in self.hosts_with_findings
        if not self._add_findings_of_host_check(result) and self.is_active and not is_verdict:
            message = str(result.result.get("msg") or result.result.get("censored") or "It failed without a message.")
            self.collector.record_host_failure(
                result.host.get_name(), fleet_report.FAILED, _split_role_and_task_name(result.task)[1], message
            )

    def v2_runner_on_unreachable(self, result: Any) -> None:
        if self.is_active:
            message = str(result.result.get("msg") or "It did not answer.")
            self.collector.record_host_failure(
                result.host.get_name(), fleet_report.UNREACHABLE, _split_role_and_task_name(result.task)[1], message
            )

    def _add_check_mode_findings(self, result: Any, skipped: bool = False) -> None:
        """Add what a result in check mode says about the host, unless a module has checked the whole host."""
        # Changes of handlers are not reported, because they follow from the changes of other tasks.
        if self._add_findings_of_host_check(result) or not self.in_check_mode or isinstance(result.task, Handler):
            return
        if result.host.get_name() in self.fully_checked:
            return
        role, task = _split_role_and_task_name(result.task)
        self._add_findings(
            result,
            lambda: task_results.check_mode_result_to_findings(
                task, role, str(result.task.action), result.result, skipped
            ),
        )

    def _add_findings_of_host_check(self, result: Any) -> bool:
        """Add the findings of a module that checks the whole host. Return False for the result of another module."""
        if _short_module_name(result.task) == task_results.BIOS_MODULE and self.is_active and not self.in_check_mode:
            task = _split_role_and_task_name(result.task)[1]
            return self._add_findings(result, lambda: task_results.bios_result_to_findings(task, result.result))
        converters = {task_results.DRIFT_MODULE: task_results.drift_result_to_findings}
        if self.in_check_mode:
            converters[task_results.REPAIR_MODULE] = task_results.repair_result_to_findings
        convert = converters.get(_short_module_name(result.task))
        if convert is not None and self.in_check_mode:
            # Earlier tasks of this playbook set nothing, so counts of the layer OTHER would mislead.
            self.collector.remove_layer_counts(result.host.get_name(), OTHER)
        if convert is None or not self._add_findings(result, lambda: convert(result.result)):
            return False
        name = result.host.get_name()
        self.fully_checked.add(name)
        if self.collector.get_or_add_host_row(name).findings:
            self.hosts_with_findings.add(name)
        return True

    def _add_findings(
        self, result: Any, convert: Callable[[], task_results.Seen | task_results.SeenWithMap | None]
    ) -> bool:
        """Add the findings that ``convert`` returns for a result. Return False for a result without any."""
        name = result.host.get_name()
        try:
            seen = convert()
            if seen is not None:
                self.collector.add_findings_counts_and_map(name, *seen)
        except Exception as error:
            # Ansible would only warn and go on without the result, and the host would look clean.
            role, task = _split_role_and_task_name(result.task)
            seen = task_results.unreadable_result_finding(task, role, str(result.task.action), error)
            self.collector.add_findings_counts_and_map(name, *seen)
        return seen is not None

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Show and write the report, and end the run with the exit code of the report."""
        if not self.is_active:
            return
        self._match_host_rows_with_stats(stats)
        try:
            document, page, files = self._build_and_render_report()
            if self.get_option("terminal"):
                self._display.display(page)
            if document["summary"]["hosts"]:
                for path, text in files.items():
                    textfile.write_file(os.path.abspath(path), text)
            elif files:
                self._display.display(f"Nothing was written to {', '.join(files)}.")
            code = fleet_report.report_exit_code(document)
        except TuningError as error:
            self._display.error(escape_lines(str(error)), wrap_text=False)
            code = 1
        except Exception as error:
            # Ansible would only warn, and end the run with exit code 0.
            message = (
                f"The drift report could not be made ({type(error).__name__}: {error}). This is a fault of the "
                "collection: please report it. Nothing is known of the hosts."
            )
            self._display.error(escape_lines(message), wrap_text=False)
            code = 1
        if code and self.get_option("exit_code"):
            raise SystemExit(code)

    def _match_host_rows_with_stats(self, stats: Any) -> None:
        """Remove the errors of hosts that did not fail in the end; note an error for failed hosts without results."""
        for name in stats.processed:
            row = self.collector.get_or_add_host_row(name)
            counts = stats.summarize(name)
            if not counts["failures"] and not counts["unreachable"]:
                row.error = None
            elif not row.error and not row.findings:
                self.collector.record_host_failure(
                    name, fleet_report.FAILED, "play", "It failed, and no task reported why."
                )

    def _load_previous_report(self) -> fleet_report.Document | None:
        path = self.get_option("previous") or self.get_option("json")
        if not path or not os.path.exists(path):
            return None
        try:
            with open(path, encoding="utf-8") as file:
                document: fleet_report.Document = json.load(file)
        except (OSError, ValueError) as error:
            raise TuningError(f"{path} cannot be read as the report to compare with: {error}. Move it away.") from None
        if not isinstance(document, dict) or document.get("kind") != fleet_report.KIND:
            raise TuningError(
                f"{path} is no report of {fleet_report.KIND}, so nothing was written there. Name another file."
            )
        version = document.get("version")
        if isinstance(version, int) and version > fleet_report.VERSION:
            raise TuningError(f"{path} {newer_format_message(version, fleet_report.VERSION, None)}")
        if version not in fleet_report.READABLE_VERSIONS:
            raise TuningError(f"{path} is a report of version {version}, which never was. Move it away to start anew.")
        try:
            schema.validate_previous_report(document)
        except Malformed as error:
            raise TuningError(
                f"{path} cannot be compared with: {error}. Somebody changed it. Move it away to start anew."
            ) from None
        return document

    def _build_and_render_report(self) -> tuple[fleet_report.Document, str, dict[str, str]]:
        """Return the report, its page for the terminal, and path -> text of each file with the report."""
        generated = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        previous, inventory = self._load_previous_report(), commands.command_line_inventories()
        # In check mode the report is about the changes of tasks, unless a module has compared all settings.
        check = (
            commands.command_line_without_check(inventory) if self.in_check_mode and not self.fully_checked else None
        )
        paths = {self.get_option(name): render for name, render in FORMATS.items() if self.get_option(name)}

        def build_and_render(
            collector: fleet_report.ResultCollector,
        ) -> tuple[fleet_report.Document, str, dict[str, str]]:
            document = collector.build_document(
                generated=generated,
                previous=previous,
                inventory=inventory,
                hosts_pattern=commands.command_line_hosts_pattern(),
                check=check,
            )
            page = terminal_page.render_terminal_page(document, colour=bool(color.ANSIBLE_COLOR))
            return document, page, {path: render(document) for path, render in paths.items()}

        return make_report_despite_unreadable_hosts(build_and_render, self.collector)


def _short_module_name(task: Any) -> str:
    return str(getattr(task, "action", "")).rpartition(".")[2]


def _split_role_and_task_name(task: Any) -> tuple[str, str]:
    """Return the role of a task without its prefix, "" for a task of no role, and the name of the task."""
    role, colon, name = task.get_name().partition(" : ")
    return (role.rpartition(".")[2].removeprefix("epyc_"), name) if colon else ("", role)
