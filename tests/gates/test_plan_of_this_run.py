# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Layers take the plan of their own run: none is a sentence, and that of a fact cache does not count."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from vepyc import playbook_runs

from .conftest import ROOT

#: A module that would write fails with the intent that it was asked for.
ASKED = """\
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        return {"failed": True, "msg": f"The intent is {self._task.args.get('intent', 'left out')}."}
"""
MODULES = ("epyc_host_tool", "sysfs_settings", "hugepages")


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the collection, an inventory of this machine, and a fact cache with the plan of an earlier run."""
    folder = tmp_path_factory.mktemp("controller")
    playbook_runs.write_inventory(folder, {"here": {"ansible_connection": "local", "ansible_become": False}})
    play = {"hosts": "here", "gather_facts": False}
    (folder / "base.yml").write_text(json.dumps([{**play, "roles": ["sovereign.epyc.epyc_base"]}]))
    fact = {"ansible.builtin.set_fact": {"epyc": {"intent": {"of": "an earlier run"}}, "cacheable": True}}
    (folder / "earlier.yml").write_text(json.dumps([{**play, "tasks": [fact]}]))
    actions = folder / "ansible_collections/sovereign/epyc/plugins/action"
    actions.mkdir(parents=True)
    for path in [*ROOT.glob("[!.]*"), *ROOT.glob("plugins/*")]:
        link = folder / "ansible_collections/sovereign/epyc" / path.relative_to(ROOT)
        if not link.exists():
            link.symlink_to(path)
    for name in MODULES:
        (actions / f"{name}.py").write_text(ASKED)
    assert run_playbook(folder, "earlier.yml").returncode == 0
    return folder


def run_playbook(controller: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return playbook_runs.run_command(
        *("ansible-playbook", "-i", str(controller / "hosts.json"), *arguments),
        cwd=controller,
        ANSIBLE_COLLECTIONS_PATH=str(controller),
        ANSIBLE_CACHE_PLUGIN="jsonfile",
        ANSIBLE_CACHE_PLUGIN_CONNECTION=str(controller / "cache"),
    )


def test_a_run_that_begins_after_the_plan_is_refused_with_a_sentence(controller: Path) -> None:
    start = ("--start-at-task", "Set NUMA balancing and transparent huge pages")
    done = run_playbook(controller, "sovereign.epyc.site", "--check", *start)
    output = " ".join(done.stdout.split())
    assert done.returncode == 2 and "PLAY RECAP" in output, output
    assert "This run has not planned the host: --start-at-task or --skip-tags left out the plan, and with it" in output
    assert "Leave out that option, and choose layers with --tags." in output
    assert "has no attribute" not in output and "The intent is" not in output


def test_the_host_tool_gets_no_intent_of_an_earlier_run(controller: Path) -> None:
    output = run_playbook(controller, "base.yml").stdout
    assert "The intent is left out." in output
