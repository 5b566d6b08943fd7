#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a playbook in check and diff mode and fail if it would change anything.

    expect_unchanged.py [--but WHAT] PLAYBOOK [ARGUMENTS OF ansible-playbook]
    expect_unchanged.py [--but WHAT] --recorded RECORD TASK

With --but the playbook has to change exactly WHAT: the address of a setting such as sysfs:numa_balancing, or the name
of a task whose changes have no addresses. The exit code of ansible-playbook does not say whether anything would change,
so this program reads the results of the tasks.

With --recorded a task of a running playbook calls this program. The callback plugin "record" has written the results so
far into the file RECORD, and only results after the last result of TASK count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def list_changed_addresses(result: dict[str, Any]) -> set[str]:
    """Return the addresses that a result would change, or the name of its task."""
    if not result.get("changed"):
        return set()
    diff = result.get("diff")
    changes = diff.get("changes") if isinstance(diff, dict) else None
    addresses = changes.get("after") if isinstance(changes, dict) else None
    return set(addresses) if isinstance(addresses, dict) else {result["task"]}


def print_unexpected_changes(results: list[dict[str, Any]], expected: set[str]) -> int:
    """Print unexpected changes and missing expected changes; return the exit code."""
    if not results:
        print("no task ran, so nothing is known", file=sys.stderr)
        return 1
    changed = set[str]().union(*map(list_changed_addresses, results))
    for name in sorted(changed - expected):
        print(f"changes: {name}", file=sys.stderr)
    for name in sorted(expected - changed):
        print(f"does not change: {name}", file=sys.stderr)
    return int(changed != expected)


def read_recorded_task_results(record: Path) -> list[dict[str, Any]]:
    """Return the results of tasks in a file that the callback plugin "record" has written."""
    return [line for line in map(json.loads, record.read_text().splitlines()) if "task" in line]


def results_after_task(results: list[dict[str, Any]], task: str) -> list[dict[str, Any]]:
    """Return the results after the last result of a task; ValueError for a task without a result."""
    last = max(place for place, result in enumerate(results) if result["task"] == task)
    return results[last + 1 :]


def main(arguments: list[str]) -> int:
    expected = set()
    if arguments[:1] == ["--but"]:
        expected, arguments = {arguments[1]}, arguments[2:]
    if arguments[:1] == ["--recorded"]:
        return print_unexpected_changes(
            results_after_task(read_recorded_task_results(Path(arguments[1])), arguments[2]), expected
        )
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "record")
        record.touch()
        environment = dict(
            os.environ,
            ANSIBLE_CALLBACK_PLUGINS=str(Path(__file__).parent / "callback"),
            ANSIBLE_CALLBACKS_ENABLED="record",
            RECORD_FILE=str(record),
        )
        command = ["ansible-playbook", "--check", "--diff", *arguments]
        print("+", *command, flush=True)
        if code := subprocess.run(command, env=environment, check=False).returncode:
            return code
        return print_unexpected_changes(read_recorded_task_results(record), expected)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
