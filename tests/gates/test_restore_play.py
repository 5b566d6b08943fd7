# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/restore.yml and a reboot after it: what is refused first, in check mode too, and what each of them says.

In a copy of the collection, action plugins answer for whatever would run on a host.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vepyc import playbook_runs

from .conftest import ROOT, VARIABLES

#: The controller's half of a module, which answers with an expression over what it is asked, and writes that down.
ACTION = """\
import json
from ansible.plugins.action import ActionBase
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.pending_reboot import ineffective_reboot_reasons

REFUSED = {"failed": True, "msg": "llama-chat.service calls the command. Nothing was changed."}

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        asked, host, check = self._task.args, task_vars, self._task.check_mode
        with open(task_vars["told"], "a") as file:
            file.write(json.dumps(["NAME", check, asked]) + "\\n")
        with open(task_vars["told"]) as file:
            log = file.read()
        rebooted, removed = '["reboot", false' in log, '["llama_server", false' in log
        restored = [] if rebooted else ["nohz_full", "transparent-hugepage"]
        boot = {"id": str(rebooted), "parameters": host["lines"][rebooted].split(), "restored": restored}
        return ANSWER
"""
ANSWERS = {
    "epyc_host_tool": "REFUSED if host['serves'] and not removed and not asked.get('instances_leave')"
    " else {'changed': True}",
    "epyc_restore": "{'changed': True, 'summary': 'Summary.', 'reboot_required': False}"
    " if not host.get('left') else {'failed': True, 'changed': True, 'msg': 'Pages are in use.', 'left': ['Pages.'],"
    " 'summary': 'Summary.'}",
    "llama_server": "{'changed': host['serves']}",
    "vllm_server": "{'changed': False}",
    "llama_rpc_worker": "{'changed': False}",
    "file": "{'changed': True}",
    "reboot": "{'changed': True, 'rebooted': True}",
    "epyc_verify": "{'clean': True, 'boot_service': 'missing', 'complaints': [], 'boot': boot,"
    " 'pending_reboot': restored, 'failed_reboot': ineffective_reboot_reasons(asked['before'], boot)"
    " if 'before' in asked else []}",
}
#: No host takes a connection: nothing but the answers can be had.
NOWHERE = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_become": False}
TUNED = "ro nohz_full=1-3 transparent_hugepage=never"
HOSTS: dict[str, dict[str, Any]] = {
    "calm": {"serves": False, "lines": [TUNED, "ro"]},
    "serves": {"serves": True, "lines": [TUNED, "ro transparent_hugepage=madvise"]},
    "stays": {"serves": False, "lines": [TUNED, TUNED]},
    "holds": {"serves": True, "left": True, "lines": [TUNED, "ro"]},
}
LOOKS = {"Refuse while a unit calls the command", "Refuse settings that cannot be put back"}
INSTANCES = ("-e", "epyc_restore_instances=true")


class Controller:
    """An inventory, and the collection with modules that answer at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "told.jsonl"
        hosts = {name: {**NOWHERE, **own, "told": str(self.log)} for name, own in HOSTS.items()}
        (folder / "hosts.json").write_text(json.dumps({"epyc_servers": {"hosts": hosts}}))
        collection = folder / "ansible_collections/sovereign/epyc"
        (collection / "plugins/action").mkdir(parents=True)
        for path in [*ROOT.glob("[!.]*"), *ROOT.glob("plugins/*"), *ROOT.glob("roles/*")]:
            if (
                path.name not in ("roles", "epyc_reboot", "playbooks")
                and not (collection / path.relative_to(ROOT)).exists()
            ):
                (collection / path.relative_to(ROOT)).parent.mkdir(exist_ok=True)
                (collection / path.relative_to(ROOT)).symlink_to(path)
        for path in [*ROOT.glob("roles/epyc_reboot/**/*.yml"), *ROOT.glob("playbooks/**/*.yml")]:
            copy = collection / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text()
            for name in ("file", "reboot"):
                text = text.replace(f"ansible.builtin.{name}:", f"sovereign.epyc.{name}:")
            copy.write_text(text)
        for name, answer in ANSWERS.items():
            text = ACTION.replace("NAME", name).replace("ANSWER", answer)
            (collection / f"plugins/action/{name}.py").write_text(text)

    def play(self, book: str, host: str, *words: str) -> playbook_runs.PlaybookRun:
        """Run a playbook on one host."""
        record = self.folder / "record.jsonl"
        for path in (record, self.log):
            path.unlink(missing_ok=True)
        variables: dict[str, Any] = {
            **VARIABLES,
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder),
            "ANSIBLE_CALLBACK_PLUGINS": "tools/callback",
            "ANSIBLE_CALLBACKS_ENABLED": "record",
            "RECORD_FILE": str(record),
        }
        where = ("-i", str(self.folder / "hosts.json"), "-l", host)
        done = playbook_runs.run_command("ansible-playbook", *where, f"sovereign.epyc.{book}", *words, **variables)
        results = [json.loads(line) for line in record.read_text().splitlines()]
        return playbook_runs.PlaybookRun(done.returncode, done.stdout, results)

    def calls(self, check: bool) -> list[str]:
        """Return the modules that were called with or without check mode, in their order."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [name for name, checked, dummy in map(json.loads, lines) if checked is check]

    def asked(self, module: str) -> list[dict[str, Any]]:
        """Return the options of each call of a module."""
        return [asked for name, dummy, asked in map(json.loads, self.log.read_text().splitlines()) if name == module]


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Controller:
    return Controller(tmp_path_factory.mktemp("restore"))


def test_a_host_that_serves_is_refused_first_in_the_same_words_with_and_without_check_mode(
    controller: Controller,
) -> None:
    for how in ([], ["--check"]):
        played = controller.play("restore", "serves", *how)
        assert played.returncode == 2, played.output
        (failed,) = [result for result in played.results if result["status"] == "failed"]
        assert failed["msg"] == "llama-chat.service calls the command. Nothing was changed."
        assert (played.changed_results, controller.calls(check=False)) == ({}, [])
        assert controller.calls(check=True) == ["epyc_host_tool"]


@pytest.mark.slow
def test_a_check_lists_what_a_run_would_do_and_ends_well(controller: Controller) -> None:
    for host, more in (("calm", ()), ("serves", INSTANCES), ("holds", INSTANCES)):
        checked = controller.play("restore", host, "--check", *more)
        assert checked.returncode == 0, checked.output
        assert controller.calls(check=False) == []
        if host != "holds":
            ran = controller.play("restore", host, *more)
            assert (ran.returncode, checked.changed_results.keys()) == (0, ran.changed_results.keys()), ran.output
            assert not LOOKS & checked.changed_results.keys()
            assert {"Put the settings back", "Remove the host tool and its services"} <= checked.changed_results.keys()


@pytest.mark.slow
def test_what_instances_hold_is_no_failure_of_a_check_that_removes_them(controller: Controller) -> None:
    checked = controller.play("restore", "holds", "--check", *INSTANCES)
    assert "While its instances run: Pages." in checked["Say what was put back"]["msg"]
    ran = controller.play("restore", "holds", *INSTANCES)
    assert (ran.returncode, ran["Put the settings back"]["msg"]) == (2, "Pages are in use.")
    assert "Remove the host tool and its services" not in ran.changed_results


def test_settings_are_looked_at_before_instances_are_removed(controller: Controller) -> None:
    controller.play("restore", "serves", *INSTANCES)
    assert controller.calls(check=True) == ["epyc_host_tool", "epyc_restore"]
    assert controller.calls(check=False) == [
        "llama_server",
        "vllm_server",
        "llama_rpc_worker",
        "epyc_restore",
        "epyc_host_tool",
        "file",
    ]


@pytest.mark.parametrize("layers", ['{"epyc_restore_layers": ["cat", "irq"]}', "epyc_restore_layers=' cat,irq'"])
def test_layers_are_undone_and_nothing_else(controller: Controller, layers: str) -> None:
    """Also on a host that serves, and of a text from a survey."""
    played = controller.play("restore", "serves", "-e", layers, *INSTANCES)
    assert played.returncode == 0, played.output
    assert (controller.calls(check=True), controller.calls(check=False)) == ([], ["epyc_restore"])
    assert [asked["layers"] for asked in controller.asked("epyc_restore")] == [["cat", "irq"]]
    assert played["Say what was put back"]["msg"] == "Summary."


@pytest.mark.slow
def test_instances_are_a_layer_that_has_to_be_confirmed(controller: Controller) -> None:
    layers = ("-e", '{"epyc_restore_layers": ["llama", "numa"]}')
    refused = controller.play("restore", "serves", *layers)
    assert refused.returncode == 2 and controller.calls(check=True) + controller.calls(check=False) == []
    assert "confirm it with -e epyc_restore_instances=true. Nothing was changed." in refused.output.replace("\n", " ")
    played = controller.play("restore", "serves", *layers, *INSTANCES)
    assert played["Say what was put back"]["msg"] == "Summary. Instances were removed."
    assert controller.calls(check=False) == ["llama_server", "vllm_server", "llama_rpc_worker", "epyc_restore"]
    assert [asked["layers"] for asked in controller.asked("epyc_restore")] == [["numa"]] * 2
    alone = controller.play("restore", "calm", "-e", "epyc_restore_layers=llama", *INSTANCES)
    assert alone["Say what was put back"]["msg"] == "There are no instances to remove."
    assert controller.calls(check=False) == ["llama_server", "vllm_server", "llama_rpc_worker"]


@pytest.mark.parametrize("layers", [[], "", {"cat": False}, True, 3, None])
def test_layers_that_are_no_list_are_refused_before_everything_would_be_put_back(
    controller: Controller, layers: Any
) -> None:
    played = controller.play("restore", "calm", "-e", json.dumps({"epyc_restore_layers": layers}), *INSTANCES)
    assert played.returncode == 2 and controller.calls(check=True) + controller.calls(check=False) == []
    said = f"epyc_restore_layers is {json.dumps(layers)}, but has to be a list of layers to undo"
    assert said in played["Refuse layers that are no list"]["msg"]


@pytest.mark.parametrize("how", [[], ["--check", "-e", "epyc_reboot_ok=true"]])
def test_a_look_at_who_waits_for_a_reboot_changes_nothing(controller: Controller, how: list[str]) -> None:
    played = controller.play("reboot", "calm", *how)
    assert (played.returncode, played.changed_results) == (0, {}), played.output
    assert ": nohz_full; transparent-hugepage." in played["Say whether the host waits"]["msg"]


@pytest.mark.slow
def test_a_reboot_after_an_undo_proves_that_boot_parameters_are_back(controller: Controller) -> None:
    for host in ("calm", "serves"):
        played = controller.play("reboot", host, "-e", "epyc_reboot_ok=true")
        assert played.returncode == 0, played.output
        assert played["Prove that the host came back as configured"]["status"] == "ok"
    # What the inventory asks for beside what is stored, and instances, are no matter of a reboot.
    assert all(asked.keys() <= {"services", "before", "memory_bandwidth"} for asked in controller.asked("epyc_verify"))
    assert not any(asked["services"] for asked in controller.asked("epyc_verify"))


def test_boot_parameters_that_are_not_back_fail_the_reboot(controller: Controller) -> None:
    played = controller.play("reboot", "stays", "-e", "epyc_reboot_ok=true")
    said = played["Stop at a host that did not come back clean"]["msg"]
    assert said.startswith(
        "stays did not come back clean, at 'Prove that the host came back as configured': The kernel was started with "
        "nohz_full, transparent-hugepage as before, which had been put back"
    ), said
