# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: drift
type: aggregate
short_description: One page on the drift of a fleet
version_added: 0.1.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Reports what is not as configured on a fleet, with the results of M(sovereign.epyc.epyc_drift), which
    C(sovereign.epyc.drift) runs on each host. Reports any other play in check mode too, as far as check mode shows it.
    Says nothing of other plays.
  - Folds hosts with equal drift, says of each setting whether it is wrong now, at the next boot, or waits for a reboot,
    which role and variables asked for it, and which command repairs it. Compares with the report before.
  - What could not be read is unknown, never fine, and so are a task that check mode had to leave out, and a result that
    this plugin cannot read.
  - Texts of hosts are shown with escapes for what a terminal or a page would obey, such as colours and marks that turn
    the direction of writing. In JSON they are as they came.
  - Results of tasks with C(no_log) are named and not shown.
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
      A file for the report as JSON. It holds all that any other format shows, and C(docs/drift-report.schema.json)
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
    description: A file for the report as metrics of Prometheus. The name of a textfile ends with C(.prom).
    type: path
    env: [{name: SOVEREIGN_EPYC_DRIFT_METRICS}]
    ini: [{section: sovereign_epyc_drift, key: metrics}]
  previous:
    description:
      - The JSON report to compare with, to say what is new, what is gone, and since when the rest is wrong.
      - Without it, the file of O(json) as it is before this run.
    type: path
    env: [{name: SOVEREIGN_EPYC_DRIFT_PREVIOUS}]
    ini: [{section: sovereign_epyc_drift, key: previous}]
  exit_code:
    description:
      - Whether to set the exit code of C(ansible-playbook). It is V(0) when all is as configured, V(2) on drift, and
        V(1) where a host failed or could not be reached, where no host was checked, or the report could not be made or
        written.
      - Ends the run when the report is made, so name this plugin last in C(callbacks_enabled).
    type: bool
    default: true
    env: [{name: SOVEREIGN_EPYC_DRIFT_EXIT_CODE}]
    ini: [{section: sovereign_epyc_drift, key: exit_code}]
notes:
  - Enable it with C(callbacks_enabled=sovereign.epyc.drift), or have nothing but the report on the screen with
    C(stdout_callback=sovereign.epyc.drift).
  - Runs with several playbooks have a report for each, and end after the first one that is not clean.
seealso:
  - module: sovereign.epyc.epyc_drift
"""

import json
import os
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from ansible import constants, context
from ansible.playbook.handler import Handler
from ansible.plugins.callback import CallbackBase
from ansible.utils import color

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import textfile
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.address_kinds import OTHER
from ansible_collections.sovereign.epyc.plugins.plugin_utils import _set_aside
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import (
    drift_html,
    fleet_metrics,
    fleet_report,
    junit_file,
    markdown_page,
    schema,
    task_results,
    terminal_page,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._schema import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable

FORMATS: dict[str, Callable[[fleet_report.Document], str]] = {
    "html": drift_html.render,
    "markdown": markdown_page.render,
    "junit": junit_file.render,
    "metrics": fleet_metrics.render,
    # Last, because it is also the report that the next run compares with.
    "json": lambda document: json.dumps(document, indent=1) + "\n",
}


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core has no annotations
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "sovereign.epyc.drift"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, display: Any = None, options: Any = None) -> None:
        super().__init__(display=display, options=options)
        self.gathering = fleet_report.Gathering()
        #: Hosts that a module has checked whole, and those of them with findings.
        self.checked: set[str] = set()
        self.judged: set[str] = set()
        self.check = bool(context.CLIARGS.get("check"))
        self.active = self.check

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self.gathering = fleet_report.Gathering()
        self.checked, self.judged = set(), set()
        self.active = self.check

    def v2_playbook_on_play_start(self, play: Any) -> None:
        # A play that finds no host starts no task, and its report has to say so.
        tasks = [task for entry in play.get_tasks() for task in (entry if isinstance(entry, list) else [entry])]
        self.active = self.active or task_results.DRIFT_MODULE in map(_module, tasks)

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self.active = self.active or _module(task) == task_results.DRIFT_MODULE

    def v2_runner_on_ok(self, result: Any) -> None:
        self._take(result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._take(result, skipped=True)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        # A play says by an assertion that a host is not as configured: that is its verdict, and no failure.
        is_verdict = _module(result.task) == "assert" and result.host.get_name() in self.judged
        if not self._take_drift(result) and self.active and not is_verdict:
            message = str(result.result.get("msg") or result.result.get("censored") or "It failed without a message.")
            self.gathering.fail(result.host.get_name(), fleet_report.FAILED, _task(result.task)[1], message)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        if self.active:
            message = str(result.result.get("msg") or "It did not answer.")
            self.gathering.fail(result.host.get_name(), fleet_report.UNREACHABLE, _task(result.task)[1], message)

    def _take(self, result: Any, skipped: bool = False) -> None:
        # What a handler would do follows from what another task would change.
        if self._take_drift(result) or not self.check or isinstance(result.task, Handler):
            return
        if result.host.get_name() in self.checked:
            return
        role, task = _task(result.task)
        self._add(result, lambda: task_results.of_check(task, role, str(result.task.action), result.result, skipped))

    def _take_drift(self, result: Any) -> bool:
        if _module(result.task) == task_results.BIOS_MODULE and self.active and not self.check:
            task = _task(result.task)[1]
            return self._add(result, lambda: task_results.of_bios(task, result.result))
        whole = {task_results.DRIFT_MODULE: task_results.of_drift}
        if self.check:
            whole[task_results.REPAIR_MODULE] = task_results.of_repair
        see = whole.get(_module(result.task))
        if see is not None and self.check:
            # The tasks before it have no settings of their own.
            self.gathering.forget_layer(result.host.get_name(), OTHER)
        if see is None or not self._add(result, lambda: see(result.result)):
            return False
        name = result.host.get_name()
        self.checked.add(name)
        if self.gathering.host(name).findings:
            self.judged.add(name)
        return True

    def _add(self, result: Any, see: Callable[[], task_results.Seen | task_results.Mapped | None]) -> bool:
        """Add what a result tells, and return whether it tells anything."""
        name = result.host.get_name()
        try:
            seen = see()
            if seen is not None:
                self.gathering.add(name, *seen)
        except Exception as error:
            # Ansible would warn, go on without the result, and the host would look as if all were fine.
            role, task = _task(result.task)
            seen = task_results.unreadable(task, role, str(result.task.action), error)
            self.gathering.add(name, *seen)
        return seen is not None

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Make the report, and end the run with its exit code."""
        if not self.active:
            return
        self._forgive(stats)
        try:
            document, page, files = self._reports()
            if self.get_option("terminal"):
                self._display.display(page)
            if document["summary"]["hosts"]:
                for path, text in files.items():
                    textfile.write_file(os.path.abspath(path), text)
            elif files:
                self._display.display(f"Nothing was written to {', '.join(files)}.")
            code = fleet_report.exit_code(document)
        except TuningError as error:
            self._display.error(str(error), wrap_text=False)
            code = 1
        except Exception as error:
            # Ansible would warn, and end with 0 as if all were fine.
            self._display.error(
                f"The drift report could not be made ({type(error).__name__}: {error}). This is a fault of the "
                "collection: please report it. Nothing is known of the hosts.",
                wrap_text=False,
            )
            code = 1
        if code and self.get_option("exit_code"):
            raise SystemExit(code)

    def _forgive(self, stats: Any) -> None:
        """Drop errors that a rescue or ignore_errors handled, and add hosts that no task reported on."""
        for name in stats.processed:
            row = self.gathering.host(name)
            counts = stats.summarize(name)
            if not counts["failures"] and not counts["unreachable"]:
                row.error = None
            elif not row.error and not row.findings:
                self.gathering.fail(name, fleet_report.FAILED, "play", "It failed, and no task reported why.")

    def _previous(self) -> fleet_report.Document | None:
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
        if document.get("version") not in fleet_report.READABLE:
            raise TuningError(
                f"{path} is a report of version {document.get('version')}, and this plugin reads versions up to "
                f"{fleet_report.VERSION}. Move it away to start anew."
            )
        try:
            schema.report(document)
        except Malformed as error:
            raise TuningError(
                f"{path} cannot be compared with: {error}. Somebody changed it. Move it away to start anew."
            ) from None
        return document

    def _reports(self) -> tuple[fleet_report.Document, str, dict[str, str]]:
        """Return the report, its page for the terminal, and the texts of files by their paths."""
        generated = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        previous, inventory = self._previous(), _inventory()
        # A module that checks a host whole tells of drift, whatever the mode is.
        check = _again(inventory) if self.check and not self.checked else None
        paths = {self.get_option(name): render for name, render in FORMATS.items() if self.get_option(name)}

        def make(gathering: fleet_report.Gathering) -> tuple[fleet_report.Document, str, dict[str, str]]:
            document = gathering.document(generated=generated, previous=previous, inventory=inventory, check=check)
            page = terminal_page.render(document, colour=bool(color.ANSIBLE_COLOR))
            return document, page, {path: render(document) for path, render in paths.items()}

        return _set_aside.make_report(make, self.gathering)


def _inventory() -> list[str]:
    """Return the inventories of the command line, as paths from the present folder."""
    names = list(context.CLIARGS.get("inventory") or [])
    if names == list(constants.DEFAULT_HOST_LIST):
        return []
    here = f"{os.getcwd()}{os.sep}"
    return [name[len(here) :] if name.startswith(here) else name for name in names]


def _again(inventory: list[str]) -> fleet_report.Again:
    """Return this run without --check and without its hosts, as it was written on the command line.

    Variables that are not in a file are left out, because they may be secrets.
    """
    written = context.CLIARGS
    words = ["ansible-playbook", *(word for name in inventory for word in ("-i", name)), *(written.get("args") or ())]
    tags = [tag for tag in written.get("tags") or () if tag != "all"]
    for option, names in (("--tags", tags), ("--skip-tags", written.get("skip_tags") or ())):
        words += [option, ",".join(names)] if names else []
    extra = [str(text) for text in written.get("extra_vars") or ()]
    files = [text for text in extra if text.startswith("@")]
    return fleet_report.Again([*words, *(word for file in files for word in ("-e", file))], len(files) < len(extra))


def _module(task: Any) -> str:
    return str(getattr(task, "action", "")).rpartition(".")[2]


def _task(task: Any) -> tuple[str, str]:
    """Return the short name of a task's role, empty for none, and the name of the task."""
    role, colon, name = task.get_name().partition(" : ")
    return (role.rpartition(".")[2], name) if colon else ("", role)
