# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/tune.yml on hosts that have measured at once: what it writes, leaves and refuses, and who reads that.

Modules that would have to measure do not run: in a copy of the collection, their action plugins answer.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader

from vepyc import playbook_runs

from .conftest import ROOT, VARIABLES

pytestmark = pytest.mark.slow

#: The controller's half of a module, which answers with an expression over what it is asked and asks no host.
ACTION = """\
import json
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        asked = self._task.args
        return {ANSWER}
"""
ANSWERS = {
    "llama_tune": "{'changed': True, 'clean': True, 'document': '/run.json', 'instance': asked['instance']['name'],"
    " 'text': str(asked['instance'].get('threads')), **json.loads(asked['instance']['model'][1:])}"
    " if 'model' in asked['instance'] else {'failed': True, 'msg': 'It does not run.'}",
    "llama_fingerprint_info": "{'found': dict.fromkeys(asked['expect'], 'now'), 'differences':"
    " [] if asked['expect'] == {'kernel': 'now'} else ['The kernel is another.']}",
    "llama_server": "{'options': [[one.get('threads'), one.get('ngram_max')] for one in asked['instances']]}",
    "epyc_plan": "{'ansible_facts': {'epyc': {'intent': {}, 'plan': {'cannot': []}}}, 'text': ''}",
    "epyc_verify": "{'clean': True, 'text': '', 'complaints': []}",
}
ON = {"kernel": "6.12.9", "bios": "F7"}
CHAT = {"options": {"ngram_max": 16}, "run": "one", "ratio": 1.12, "low": 1.09, "high": 1.15, "measured_on": ON}
LEAST = {**CHAT, "run": "two", "ratio": 1.05, "measured_on": {**ON, "bios": "F8"}}
BEFORE = {"options": {"threads": 8}, "run": "zero", "ratio": 1.2, "measured_on": {"kernel": "6.12.8"}}
OTHER = {**CHAT, "options": {"ngram_max": 24}}
MINE = "# mine\nmine: kept\n"


def instance(name: str, tuned: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    # The result stands in place of the model, where the action plugin finds it.
    told = json.dumps({"tuned": tuned or {}, **more})
    return {"name": name, "model": f"/{told}", "port": 8080, "threads": 4}


def variables_with_named_model(instance: dict[str, Any]) -> dict[str, Any]:
    """Return the variables of a host with this instance, which names its model as a user of the catalogue does."""
    model = {"name": "mine", "path": instance["model"]}
    return {"epyc_llama_models": [model], "epyc_llama_instances": [{**instance, "model": "mine"}]}


def host_variables(*instances: dict[str, Any], **more: Any) -> dict[str, Any]:
    here = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
    return {**here, "epyc_tune_write": True, **more, **({"epyc_llama_instances": list(instances)} if instances else {})}


HOSTS = {
    "beside": host_variables(epyc_tune_instance="chat"),
    "kept": host_variables(),
    "shown": host_variables(
        {"name": "down"}, instance("chat", CHAT), instance("code", CHAT, clean=False), epyc_tune_write=False
    ),
    "agree1": host_variables(instance("chat", CHAT), epyc_tune_group="agree"),
    "agree2": host_variables(instance("chat", LEAST), epyc_tune_group="agree"),
    "differ1": host_variables(**variables_with_named_model(instance("chat", CHAT)), epyc_tune_group="differ"),
    "differ2": host_variables(instance("chat", OTHER), epyc_tune_group="differ"),
    "alone": host_variables(instance("chat"), epyc_tune_group="one"),
    "unnamed": host_variables(instance("chat"), epyc_tune_instance="chta"),
    "blocked": host_variables(instance("chat")),
}
GROUPS = {"agree": ["agree1", "agree2"], "differ": ["differ1", "differ2"], "one": ["alone"]}
#: What is in the inventory beside, by hand or from an earlier run. One instance makes no text, and one is gone.
FILES = {
    "host_vars/beside.yml": MINE + yaml.safe_dump({"epyc_llama_instances": [instance("chat", CHAT), instance("code")]}),
    "host_vars/kept/mine.yml": MINE
    + yaml.safe_dump(
        {"epyc_llama_instances": [instance("chat", CHAT), instance("code"), {"name": "find", "task": "embedding"}]}
    ),
    "host_vars/kept/epyc_tuned.yml": yaml.safe_dump(
        {"epyc_llama_tuned": dict.fromkeys(("chat", "code", "gone"), BEFORE)}
    ),
    "host_vars/blocked": MINE,
}
WRITTEN = {"host_vars/beside", "host_vars/kept", "group_vars/agree"}
READERS = "beside,kept,agree1,agree2"


class Controller:
    """An inventory, and the collection with modules that answer at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inventory = folder / "inventory"
        for name, text in FILES.items():
            file = self.inventory / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        children = {name: {"hosts": dict.fromkeys(hosts)} for name, hosts in GROUPS.items()}
        (self.inventory / "hosts.yml").write_text(yaml.safe_dump({"epyc_servers": {"hosts": HOSTS}, **children}))
        collection = folder / "ansible_collections/sovereign/epyc"
        actions = collection / "plugins/action"
        actions.mkdir(parents=True)
        for path in [*ROOT.glob("[!.]*"), *ROOT.glob("plugins/*")]:
            if not (collection / path.relative_to(ROOT)).exists():
                (collection / path.relative_to(ROOT)).symlink_to(path)
        for name, answer in ANSWERS.items():
            (actions / f"{name}.py").write_text(ACTION.replace("{ANSWER}", answer))

    def play(self, *words: str, inventory: str = "", **more: str) -> playbook_runs.PlaybookRun:
        record = self.folder / "record.jsonl"
        record.unlink(missing_ok=True)
        variables: dict[str, Any] = {
            **VARIABLES,
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder),
            "ANSIBLE_CALLBACK_PLUGINS": "tools/callback",
            "ANSIBLE_CALLBACKS_ENABLED": "record",
            "RECORD_FILE": str(record),
            **more,
        }
        done = playbook_runs.run_command(
            "ansible-playbook", "-i", inventory or str(self.inventory), *words, **variables
        )
        return playbook_runs.PlaybookRun(
            done.returncode, done.stdout, [json.loads(line) for line in record.read_text().splitlines()]
        )

    def files(self) -> dict[str, str]:
        """What Ansible would read, by its path; a link counts as what it leads to."""
        found = [path for path in self.inventory.glob("*_vars/**/*") if path.is_file()]
        return {str(path.relative_to(self.inventory)): path.read_text() for path in found}

    def tuned(self, place: str) -> dict[str, Any]:
        return dict(yaml.safe_load((self.inventory / place / "epyc_tuned.yml").read_text())["epyc_llama_tuned"])


#: Copies the variables of hosts before each task, as a run leaves them that is killed there.
COPY_BEFORE_TASKS = """\
import itertools, os, shutil
from ansible.plugins.callback import CallbackBase

class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, "aggregate", "copy_before_tasks"
    numbers = itertools.count()

    def v2_playbook_on_task_start(self, task, is_conditional):
        copy = f"{os.environ['COPIES']}/{next(self.numbers):03d} {task.get_name().replace('/', ' ')}"
        shutil.copytree(os.environ["COPIED"], copy, symlinks=True)
"""


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Controller:
    return Controller(tmp_path_factory.mktemp("tune"))


@pytest.fixture(scope="module")
def first(controller: Controller) -> playbook_runs.PlaybookRun:
    return controller.play("sovereign.epyc.tune")


def failed_assertions(played: playbook_runs.PlaybookRun) -> dict[str, str]:
    """What each host says in an assertion that failed."""
    failed = {one["host"]: one.get("results", [one]) for one in played.results if one["status"] == "failed"}
    return {name: " ".join(one["msg"] for one in results if "evaluated_to" in one) for name, results in failed.items()}


def test_what_it_refuses_before_and_after(first: playbook_runs.PlaybookRun) -> None:
    said = failed_assertions(first)
    assert said.keys() == {"shown", "differ1", "alone", "unnamed", "blocked"} and first.returncode
    assert said["shown"] == "It does not run. The run of code proves nothing; its report above says why."
    assert said["differ1"] == (
        "The hosts differ on chat: differ1 has ngram_max 16; differ2 has ngram_max 24. "
        "Nothing was written for the group differ."
    )
    assert "needs two hosts of it at least, and no others. This run has alone of that group" in said["alone"]
    assert "epyc_llama_instances has no chta that makes text, but chat." in said["unnamed"]
    assert "host_vars/blocked has to be a folder, and is a file." in said["blocked"]
    measured = {one["host"] for one in first.results if one["task"] == "Try other options"}
    assert measured == HOSTS.keys() - {"alone", "unnamed", "blocked"}


def test_where_it_writes(controller: Controller, first: playbook_runs.PlaybookRun) -> None:
    """What was there before is there to the byte, and a file that a folder would hide is read through a link."""
    files = controller.files()
    assert {name.removesuffix("/epyc_tuned.yml") for name in files if "tuned" in name} == WRITTEN
    earlier = {name: text for name, text in FILES.items() if "tuned" not in name}
    assert {name: files[name] for name in earlier} == earlier
    new = {f"{place}/epyc_tuned.yml" for place in WRITTEN - {"host_vars/kept"}}
    assert files.keys() - FILES.keys() == {*new, "host_vars/beside/beside.yml"}
    assert os.readlink(controller.inventory / "host_vars/beside/beside.yml") == "../beside.yml"


def test_a_run_that_is_killed_before_any_task_hides_no_variables(tmp_path: Path) -> None:
    """Ansible reads no file host_vars/HOST.yml where there is a folder of that name, even an empty one."""
    controller, plugins, copies = Controller(tmp_path), tmp_path / "callback", tmp_path / "copies"
    plugins.mkdir()
    (plugins / "copy_before_tasks.py").write_text(COPY_BEFORE_TASKS)
    variables = {
        "ANSIBLE_CALLBACK_PLUGINS": f"tools/callback:{plugins}",
        "ANSIBLE_CALLBACKS_ENABLED": "record,copy_before_tasks",
        "COPIED": str(controller.inventory / "host_vars"),
        "COPIES": str(copies),
    }
    assert not controller.play("sovereign.epyc.tune", "-l", "beside", **variables).returncode
    assert controller.tuned("host_vars/beside") == {"chat": CHAT}
    hidden, folders = set(), set()
    for copy in copies.iterdir():
        files = [Path(os.fsdecode(file)) for file in DataLoader().find_vars_files(str(copy), "beside")]
        folders |= {file.parent.name for file in files}
        hidden |= {copy.name} if not any(file.read_text().startswith(MINE) for file in files) else set()
    assert not hidden and "beside" in folders
    assert [path.name for path in (controller.inventory / "host_vars").iterdir() if path.name.startswith(".")] == []


def test_what_it_writes(controller: Controller, first: playbook_runs.PlaybookRun) -> None:
    """On top of what was tuned; what stays holds for the host as it is now, and what was not measured is as it was."""
    assert controller.tuned("host_vars/beside") == {"chat": CHAT}
    assert controller.tuned("host_vars/kept") == {
        "chat": {**CHAT, "options": {"threads": 8, "ngram_max": 16}},
        "code": {**BEFORE, "measured_on": {"kernel": "now"}},
        "gone": BEFORE,
    }
    assert controller.tuned("group_vars/agree") == {"chat": {**LEAST, "measured_on": {**ON, "bios": None}}}
    text = controller.files()["host_vars/kept/epyc_tuned.yml"]
    assert text.startswith("# Made by tune.yml of the collection sovereign.epyc,") and "delete this file" in text


def test_it_goes_on_from_what_was_tuned(first: playbook_runs.PlaybookRun) -> None:
    tried = {one["host"]: one["results"] for one in first.results if one["task"] == "Try other options"}
    asked = {name: [(one["instance"], one["text"]) for one in tried[name]] for name in ("beside", "kept")}
    assert asked == {"beside": [("chat", "4")], "kept": [("chat", "8"), ("code", "8")]}


def test_the_difference_is_shown_where_nothing_is_written(first: playbook_runs.PlaybookRun) -> None:
    shown = {one["host"]: one["diff"][0]["after"] for one in first.results if "diff" in one}
    assert "  chat:\n" in shown["shown"] and "code" not in shown["shown"]
    assert "+    options:\n+      ngram_max: 16\n" in first.output


def last_lines(played: playbook_runs.PlaybookRun) -> dict[str, list[str]]:
    """What each host says at the end of its run."""
    ends = [one for one in played.results if one["task"] == "Say what was done, what waits, and what comes next"]
    return {one["host"]: one["msg"] for one in ends if one["status"] == "ok"}


def test_a_run_ends_with_what_was_done_and_the_next_command(
    controller: Controller, first: playbook_runs.PlaybookRun
) -> None:
    lines = last_lines(first)
    assert lines.keys() == {"beside", "kept", "agree1"}
    assert lines["agree1"] == [
        "Measured on agree1, agree2; the reports above have the gains.",
        f"{controller.inventory}/group_vars/agree/epyc_tuned.yml has the fastest options, which wait for a run of"
        " site.yml.",
        f"Next: ansible-playbook -i {controller.inventory} sovereign.epyc.site --tags llama -l agree1,agree2",
    ]


def test_a_second_run_changes_nothing_and_the_roles_read_it(
    controller: Controller, first: playbook_runs.PlaybookRun
) -> None:
    before = controller.files()
    book = controller.folder / "roles.yml"
    roles = ["sovereign.epyc.epyc_llama", "sovereign.epyc.epyc_verify"]
    book.write_text(yaml.safe_dump([{"hosts": "kept,agree2", "gather_facts": False, "roles": roles}]))
    second = controller.play("sovereign.epyc.tune", str(book), "-l", READERS)
    assert (second.returncode, failed_assertions(second)) == (0, {})
    assert second.changed_results.keys() == {"Try other options"} and controller.files() == before
    assert last_lines(second)["kept"][1:] == [
        f"{controller.inventory}/host_vars/kept/epyc_tuned.yml stays as it is.",
    ]
    served = {one["host"]: one["options"] for one in second.results if one["task"] == "Run the instances"}
    assert served == {"kept": [[8, 16], [8, None], [None, None]], "agree2": [[4, 16]]}
    warned = [
        one
        for one in second.results
        if one["task"] == "Warn where the state of the host differs from the measured state"
    ]
    told = {one["host"]: {item["item"]["item"]: item["msg"] for item in one["results"]} for one in warned}
    assert told == {name: {"chat": ["The kernel is another."]} for name in ("kept", "agree2")}


def test_a_job_of_awx_writes_into_a_folder_that_stays(controller: Controller, tmp_path: Path) -> None:
    """Beside the inventory the file would be deleted with the job, so that is refused before the hours of measuring."""
    job = {
        "AWX_PRIVATE_DATA_DIR": "/tmp/awx_7_x",
        "AWX_ISOLATED_DATA_DIR": str(controller.folder / "artifacts/7"),
    }
    before = controller.files()
    refused = controller.play("sovereign.epyc.tune", "-l", "shown", "-e", "epyc_tune_write=true", **job)
    said = failed_assertions(refused)["shown"]
    assert "which AWX deletes when this job ends" in said and "Set epyc_tune_inventory to" in said
    assert "Try other options" not in {one["task"] for one in refused.results} and controller.files() == before
    words = ("-e", "epyc_tune_write=true", "-e", f"epyc_tune_inventory={tmp_path}")
    controller.play("sovereign.epyc.tune", "-l", "shown", *words, **job)
    written = yaml.safe_load((tmp_path / "host_vars/shown/epyc_tuned.yml").read_text())
    assert written == {"epyc_llama_tuned": {"chat": CHAT}} and controller.files() == before


def test_beside_a_list_of_hosts_it_writes_nothing(controller: Controller) -> None:
    extra = json.dumps(host_variables(instance("chat", CHAT)))
    played = controller.play("sovereign.epyc.tune", "-e", extra, "-e", "epyc_hosts=all", inventory="plain,")
    assert "The inventory is a list of hosts" in failed_assertions(played)["plain"]
