# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/ablation.yml with boots: what is refused, in which order boots and measurements come, and how it ends.

Modules that would have to measure or reboot do not run: in a copy of the collection, their action plugins answer.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from vepyc import playbook_runs

from .conftest import ROOT, VARIABLES

#: The controller's half of a module, which answers with an expression over what it is asked, and writes that down.
ACTION = """\
import json
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        asked, log = self._task.args, task_vars["told"]
        host, name = task_vars["inventory_hostname"], "NAME"
        step = asked.get("booted") or {}
        with open(log, "a") as file:
            file.write(json.dumps([host, name, step.get("arm", asked.get("stop"))]) + "\\n")
        return ANSWER
"""
AFTER = {"": "tuned", "tuned": "without nohz_full", "without nohz_full": None}
ANSWERS = {
    "llama_ablation": "{'changed': True, 'clean': True, 'instance': 'chat', 'text': 'before', 'document': '/run.json',"
    " 'reboots': bool(asked['reboots']), 'losses': ['b2 over b1: decode 0.96 (0.95 to 0.97): do not roll out']"
    " * (asked.get('arms') == [{'binary': '/b2'}] and asked['instance_options']['port'] == 8080"
    " and asked['intent'] == {'planned': True})}",
    "epyc_plan": "{'changed': False, 'ansible_facts': {'epyc': {'intent': {'planned': True}}}}",
    # After the arms comes a boot into the tuned state, and then it ends.
    "llama_ablation_boot": "{'failed': True, 'msg': 'It does not serve.'} if host == 'breaks' and step.get('arm')"
    " else {'changed': True, 'clean': host != 'void', 'instance': 'chat', 'reboot': False, 'text': 'after'}"
    " if step.get('arm') == '' or asked['stop'] and not step and host == 'breaks'"
    f" else {{'changed': True, 'clean': True, 'reboot': True, 'text': '', 'booted': {{'arm': {AFTER}.get("
    "step.get('arm', '')) or '', 'boot_id': '1', 'round': 1}}",
    "epyc_verify": "{'clean': True, 'boot_service': 'done', 'boot': {'id': '2'}, 'text': '', 'pending_reboot': []}",
    "reboot": "{'changed': True, 'rebooted': True}",
}
HERE = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
OK = ("-e", "epyc_ablation_reboots=true", "-e", "epyc_reboot_ok=true")
BOOK, BOOT, REBOOT = "sovereign.epyc.ablation", "llama_ablation_boot", "reboot"


class Controller:
    """An inventory, and the collection with modules that answer at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "told.jsonl"
        hosts = {name: {**HERE, "told": str(self.log)} for name in ("goes", "breaks", "void")}
        (folder / "hosts.json").write_text(json.dumps({"epyc_servers": {"hosts": hosts}}))
        collection = folder / "ansible_collections/sovereign/epyc"
        (collection / "plugins/action").mkdir(parents=True)
        for path in [*ROOT.glob("[!.]*"), *ROOT.glob("plugins/*")]:
            if not (collection / path.relative_to(ROOT)).exists():
                (collection / path.relative_to(ROOT)).symlink_to(path)
        # ansible.builtin.reboot cannot be another one, so the role's file names a module that can.
        shared = collection / "roles"
        shared.unlink()
        shared.mkdir()
        for path in ROOT.glob("roles/*"):
            (shared / path.name).symlink_to(path)
        (shared / "epyc_reboot").unlink()
        for path in ROOT.glob("roles/epyc_reboot/**/*"):
            if path.is_file():
                copy = shared / path.relative_to(ROOT / "roles")
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(path.read_text().replace("ansible.builtin.reboot:", "sovereign.epyc.reboot:"))
        for name, answer in ANSWERS.items():
            text = ACTION.replace("NAME", name).replace("ANSWER", answer)
            (collection / f"plugins/action/{name}.py").write_text(text)

    def play(self, *words: str) -> tuple[playbook_runs.PlaybookRun, list[tuple[str, Any]]]:
        """Run the playbook; return it, and which modules were called, with the arm that was booted into."""
        record = self.folder / "record.jsonl"
        record.unlink(missing_ok=True)
        self.log.unlink(missing_ok=True)
        variables: dict[str, Any] = {
            **VARIABLES,
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder),
            "ANSIBLE_CALLBACK_PLUGINS": "tools/callback",
            "ANSIBLE_CALLBACKS_ENABLED": "record",
            "RECORD_FILE": str(record),
        }
        done = playbook_runs.run_command(
            "ansible-playbook", "-i", str(self.folder / "hosts.json"), BOOK, *words, **variables
        )
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        results = [json.loads(line) for line in record.read_text().splitlines()]
        told = [(name, arm) for dummy, name, arm in map(json.loads, lines)]
        return playbook_runs.PlaybookRun(done.returncode, done.stdout, results), told


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Controller:
    return Controller(tmp_path_factory.mktemp("ablation"))


def test_reboots_that_are_not_allowed_are_refused_before_anything(controller: Controller) -> None:
    played, told = controller.play("-l", "goes", "-e", "epyc_ablation_reboots=true")
    assert played.returncode == 2 and told == []
    assert "nothing is rebooted without epyc_reboot_ok=true. Nothing was measured." in played.output


def test_without_reboots_there_is_none(controller: Controller) -> None:
    played, told = controller.play("-l", "goes", "-e", "epyc_reboot_ok=true")
    assert played.returncode == 0 and told == [("llama_ablation", None)]


@pytest.mark.slow
def test_a_reboot_comes_between_two_calls_until_all_is_back(controller: Controller) -> None:
    played, told = controller.play("-l", "goes", *OK)
    assert played.returncode == 0, played.output
    calls = [one for one in told if one[0] in (BOOT, REBOOT)]
    arms = [False, "tuned", "without nohz_full", ""]
    between = [(REBOOT, None), (BOOT, None)]
    assert calls == [one for arm in arms for one in ((BOOT, arm), between[0])][:-1]
    (shown,) = played["Show the reports"]["results"]
    assert shown["msg"] == ["after"]


@pytest.mark.slow
def test_a_failure_brings_all_back_before_it_is_told(controller: Controller) -> None:
    played, told = controller.play("-l", "breaks", *OK)
    assert played.returncode == 2
    assert [arm for name, arm in told if name == BOOT] == [False, "tuned", True]
    said = played["Fail if the boots ended early"]["msg"]
    assert said == (
        "At 'Measure the arm of this boot, and prepare the next boot': It does not serve. All was put back. What was "
        "measured until then is in /run.json."
    )


@pytest.mark.slow
def test_a_run_that_proves_nothing_fails(controller: Controller) -> None:
    played, dummy = controller.play("-l", "void", *OK)
    assert played.returncode == 2 and "The run of chat proves nothing" in played.output


@pytest.mark.slow
def test_a_build_that_is_worse_fails_the_play_and_is_named(controller: Controller) -> None:
    """The arms are planned from the options of the inventory, and from the plan of the host."""
    instance = {"name": "chat", "binary": "/b1", "model": "/m.gguf", "port": 8080}
    words = {"epyc_llama_instances": [instance], "epyc_ablation_arms": [{"binary": "/b2"}]}
    played, dummy = controller.play("-l", "goes", "-e", json.dumps(words))
    assert played.returncode == 2, played.output
    assert played["Fail if another arm is worse"]["msg"] == ("b2 over b1: decode 0.96 (0.95 to 0.97): do not roll out.")
    words["epyc_ablation_arms"] = [{"binary": "/b3"}]
    assert controller.play("-l", "goes", "-e", json.dumps(words))[0].returncode == 0
