# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks that go through their hosts in batches: which sizes they refuse, and that a look changes nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from vepyc import playbook_runs

from .conftest import ROOT

#: A host that does not wait for a reboot, in place of the look at one.
CALM = """\
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        return {"changed": False, "pending_reboot": []}
"""
#: No host takes a connection: a playbook that refuses too little changes nothing.
NOWHERE = {"ansible_host": "127.0.0.1", "ansible_port": 1}
INVENTORY = {
    "all": {"vars": NOWHERE},
    "epyc_servers": {"hosts": {"one": {}, "two": {}}},
    "epyc_gateway": {"hosts": {"two": {}}},
}
#: Looks whose ``changed`` a later task reads, as what would change.
READ_LATER = {
    "Plan the part of the host in an instance of vLLM",
    "Ask whether the worker will change",
    "Ask the BMC, and send nothing",
}

#: Under which words plays and blocks have their tasks.
INNER = ("pre_tasks", "tasks", "post_tasks", "block", "rescue", "always")


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an inventory of two hosts, and the collection with a look that finds nothing."""
    folder = tmp_path_factory.mktemp("controller")
    (folder / "hosts.yml").write_text(yaml.safe_dump(INVENTORY))
    collection = folder / "ansible_collections/sovereign/epyc"
    (collection / "plugins/action").mkdir(parents=True)
    for path in [*ROOT.glob("[!.]*"), *ROOT.glob("plugins/*")]:
        if not (collection / path.relative_to(ROOT)).exists():
            (collection / path.relative_to(ROOT)).symlink_to(path)
    (collection / "plugins/action/epyc_verify.py").write_text(CALM)
    return folder


def run_play(controller: Path, playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ("ansible-playbook", "-i", str(controller / "hosts.yml"), f"sovereign.epyc.{playbook}", *arguments)
    collections, callbacks = str(controller), "sovereign.epyc.drift"
    return playbook_runs.run_command(
        *command, cwd=controller, ANSIBLE_COLLECTIONS_PATH=collections, ANSIBLE_CALLBACKS_ENABLED=callbacks
    )


@pytest.mark.parametrize(
    ("playbook", "option", "size"),
    [
        ("repair", "epyc_repair_batch", "all"),
        ("reboot", "epyc_reboot_batches", 0),
        ("roll", "epyc_roll_batches", [1, None]),
    ],
)
def test_batches_that_there_cannot_be_are_refused(controller: Path, playbook: str, option: str, size: Any) -> None:
    """Ansible would take 0 for all hosts at once, and end with a traceback at the others."""
    done = run_play(controller, playbook, "-e", json.dumps({option: size}))
    expected = (
        f'{option} is {json.dumps(size)}, but has to be a number of hosts from 1 on, a share of them as "25%", or'
    )
    assert (done.returncode, expected in done.stdout) == (2, True), done.stdout
    assert done.stdout.count("PLAY [") == 1, "the hosts were come to"


def test_a_look_at_hosts_that_do_not_wait_for_a_reboot_is_clean(controller: Path) -> None:
    batches = json.dumps({"epyc_reboot_batches": [1, "2", "25%"]})
    done = run_play(controller, "reboot", "--check", "-e", batches)
    assert (done.returncode, "one does not wait for a reboot." in done.stdout) == (0, True), done.stdout


def tasks_of(data: Any) -> Iterator[dict[str, Any]]:
    """Yield the tasks in a file of tasks or plays, also those in blocks."""
    for entry in data if isinstance(data, list) else []:
        inner = [
            entry[key] for key in ("pre_tasks", "tasks", "post_tasks", "block", "rescue", "always") if key in entry
        ]
        yield from (task for part in inner for task in tasks_of(part))
        if not inner:
            yield entry


def test_what_only_looks_or_sorts_hosts_changes_nothing() -> None:
    """Else it would be drift in check mode, where nothing differs."""
    files = [*ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("roles/*/tasks/*.yml")]
    tasks = [task for file in files for task in tasks_of(yaml.safe_load(file.read_text()))]
    looks = [task for task in tasks if "ansible.builtin.group_by" in task or task.get("check_mode") is True]
    loud = {task["name"] for task in looks if task.get("changed_when") is not False}
    assert len(looks) > len(loud)
    assert loud == READ_LATER
    # An include cannot tell its tasks that they are a look: a variable does, or their change is meant.
    included = {
        task["name"] for task in tasks if "check_mode" in task.get("ansible.builtin.include_role", {}).get("apply", {})
    }
    assert included == {"Look whether an instance would change", "Learn whether the BMC can reset the host so"}
