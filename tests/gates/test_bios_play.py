# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role epyc_bios on a fleet of 20 servers by five makers, in batches: one BMC is dead, one refuses the password,
and one says what its machine did not do. The others are done, all three are named, and no password is in any output.

The servers are the lab's BMCs; what their kernels show is answered by an action plugin in a copy of the collection.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
import yaml

from vepyc import playbook_runs
from vepyc.bmc import PERSONALITIES, Bmc

from .conftest import ROOT

pytestmark = pytest.mark.slow

KERNEL = """\
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        asked, shown = int(self._task.args["claims"]["nps"]["wanted"]), task_vars["kernel"]["nps"]
        sentence = f"It is NPS{shown} and should be NPS{asked}."
        return {"complaints": [] if asked == shown else [sentence]}
"""
#: A host on which all else is as configured.
CLEAN = """\
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        return {"clean": True, "findings": [], "coverage": {}, "lines": ["1 setting checked, 0 not as configured"]}
"""
DEAD, LOCKED, LIAR = "node03", "node07", "node11"
WISH = {
    "epyc_bios_nps": 4,
    "epyc_bios_smt": False,
    "epyc_bios_c_states": False,
    "epyc_bios_wait": 0,
    "epyc_bios_throttle": 5,
}
Fleet = dict[str, Bmc]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    names = [f"node{number:02}" for number in range(1, 21)]
    made = {name: Bmc(folder, vendor, lock_after=2) for name, vendor in zip(names, cycle(PERSONALITIES), strict=False)}
    made[LIAR].faults.os_unchanged = True
    made[DEAD].stop()
    yield made
    for name, bmc in made.items():
        if name != DEAD:
            bmc.stop()


@pytest.fixture(scope="module")
def controller(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an inventory, and the collection with a kernel that answers for each host."""
    folder = tmp_path_factory.mktemp("controller")
    hosts = {name: {"epyc_bios_bmc": bmc.url, "epyc_bios_password": bmc.password} for name, bmc in fleet.items()}
    hosts[LOCKED]["epyc_bios_password"] = secrets.token_urlsafe(15)
    here = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
    access = {"epyc_bios_username": Bmc.user, "epyc_bios_ca_path": str(next(iter(fleet.values())).ca)}
    (folder / "hosts.yml").write_text(
        yaml.safe_dump({"epyc_servers": {"hosts": hosts, "vars": {**here, **access, **WISH}}})
    )
    for name, tasks in (("settings", "ask_bmc"), ("prove", "prove")):
        include = {"ansible.builtin.include_role": {"name": "sovereign.epyc.epyc_bios", "tasks_from": tasks}}
        task = {"name": "Go", **include}
        book = [{"hosts": "all", "gather_facts": False, "serial": [1, 9, 10], "tasks": [task]}]
        (folder / f"{name}.yml").write_text(yaml.safe_dump(book))
    collection = folder / "ansible_collections/sovereign/epyc"
    (collection / "plugins/action").mkdir(parents=True)
    for path in [*ROOT.glob("[!.]*"), *ROOT.glob("plugins/*")]:
        if not (collection / path.relative_to(ROOT)).exists():
            (collection / path.relative_to(ROOT)).symlink_to(path)
    (collection / "plugins/action/epyc_bios_check_info.py").write_text(KERNEL)
    (collection / "plugins/action/epyc_drift_info.py").write_text(CLEAN)
    return folder


def ansible_playbook(controller: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = ("ansible-playbook", "-i", str(controller / "hosts.yml"), *arguments)
    more.update(ANSIBLE_COLLECTIONS_PATH=str(controller), ANSIBLE_FORKS="5")
    return playbook_runs.run_command(*command, cwd=controller, timeout=600, **more)


def run(controller: Path, fleet: Fleet, tasks: str, *arguments: str) -> tuple[set[str], str]:
    """Run the tasks of the role on all hosts; returns those that failed, and the output, which holds no password."""
    kernels = {name: {"kernel": bmc.machine_state} for name, bmc in fleet.items()}
    for name, values in kernels.items():
        (controller / "host_vars").mkdir(exist_ok=True)
        (controller / f"host_vars/{name}.json").write_text(json.dumps(values))
    done = ansible_playbook(controller, "-vvv", str(controller / f"{tasks}.yml"), *arguments)
    hosts = yaml.safe_load((controller / "hosts.yml").read_text())["epyc_servers"]["hosts"]
    assert [name for name, told in hosts.items() if told["epyc_bios_password"] in done.stdout] == []
    recap = re.findall(r"^(node\d\d) .*failed=(\d+)", done.stdout, re.MULTILINE)
    assert {name for name, dummy in recap} == set(fleet)
    return {name for name, failed in recap if failed != "0"}, done.stdout


def test_a_fleet_is_set_booted_and_proven(controller: Path, fleet: Fleet) -> None:
    answering = {name: bmc for name, bmc in fleet.items() if name not in (DEAD, LOCKED)}
    failed, output = run(controller, fleet, "settings", "--check", "--diff")
    assert failed == {DEAD, LOCKED}
    assert "cannot be reached" in output
    assert "refuses the user or the password" in output
    assert [request for bmc in fleet.values() for request in bmc.request_log if request.method == "PATCH"] == []
    assert not (controller / ".bios").exists()

    failed, dummy = run(controller, fleet, "settings")
    assert failed == {DEAD, LOCKED}
    assert all(bmc.pending_settings for bmc in answering.values())
    assert {path.stem for path in (controller / ".bios").iterdir()} == set(answering)
    for bmc in answering.values():
        bmc.boot_machine()

    failed, output = run(controller, fleet, "prove")
    assert failed == {DEAD, LOCKED, LIAR}
    assert f"The BMC of {LIAR} says that its BIOS is as asked, and the kernel shows otherwise" in output
    assert "It is NPS1 and should be NPS4." in output
    assert {name: bmc.machine_state["nps"] for name, bmc in answering.items()} == {
        **dict.fromkeys(answering, 4),
        LIAR: 1,
    }
    assert [bmc.open_sessions for bmc in answering.values()] == [[]] * len(answering)
    # Once a run, and the account is locked by the second one; a role that tried again would have sent more.
    assert (fleet[LOCKED].failed_logins, len(fleet[LOCKED].request_log)) == (3, 3)


def test_drift_shows_the_bios_like_any_other_layer(controller: Path, fleet: Fleet) -> None:
    fleet["node01"].host.bios.active["CbsDfCmnDramNps"] = "CbsDfCmnDramNpsNPS1"
    report = controller / "report.json"
    told = {"ANSIBLE_CALLBACKS_ENABLED": "sovereign.epyc.drift", "SOVEREIGN_EPYC_DRIFT_JSON": str(report)}
    done = ansible_playbook(controller, "-l", f"node01,node02,{DEAD}", "sovereign.epyc.drift", **told)
    assert done.returncode == 2, done.stdout
    document = json.loads(report.read_text())
    rows = {row["name"]: row for row in document["hosts"]}
    assert {name: row["state"] for name, row in rows.items()} == {"node01": "drift", "node02": "clean", DEAD: "unknown"}
    assert rows["node02"]["coverage"]["bios"]["ok"] > 2
    found = {one["status"]: one for one in document["findings"]}
    assert (found["drift"]["layer"], found["drift"]["where"]) == ("bios", "CbsDfCmnDramNps")
    assert found["drift"]["repair"] == "sovereign.epyc.site --tags bios"
    assert "cannot be reached" in found["unknown"]["reason"]


def test_a_reset_that_a_bmc_cannot_do_is_refused_before_the_drain(controller: Path, fleet: Fleet) -> None:
    drain, book = controller / "drain.yml", controller / "boot.yml"
    drain.write_text(yaml.safe_dump([{"name": "Leave", "ansible.builtin.fail": {"msg": "it was drained"}}]))
    include = {"ansible.builtin.include_role": {"name": "sovereign.epyc.epyc_reboot", "tasks_from": "boot"}}
    book.write_text(yaml.safe_dump([{"hosts": "node01", "gather_facts": False, "tasks": [{"name": "Go", **include}]}]))
    asked = ("-e", "epyc_reboot_by=bmc", "-e", f"epyc_reboot_drain_tasks={drain}")
    before = fleet["node01"].host.boots
    for how, told in (("graceful", "cannot do the reset 'graceful'"), ("force", "it was drained")):
        done = ansible_playbook(controller, str(book), *asked, "-e", f"epyc_reboot_reset={how}")
        assert done.returncode == 2
        assert told in done.stdout
        assert ("it was drained" in done.stdout) is (how == "force")
    assert (fleet["node01"].host.boots, fleet["node01"].open_sessions) == (before, [])


def test_a_job_of_awx_sends_nothing_whose_original_it_would_lose(controller: Path, fleet: Fleet) -> None:
    fleet["node01"].host.bios.active["CbsDfCmnDramNps"] = "CbsDfCmnDramNpsNPS1"
    job = {"AWX_PRIVATE_DATA_DIR": "/tmp/awx_7_x", "AWX_ISOLATED_DATA_DIR": str(controller / "artifacts/7")}
    before = len(fleet["node01"].request_log)
    role = controller / "role.yml"
    role.write_text(yaml.safe_dump([{"hosts": "node01", "gather_facts": False, "roles": ["sovereign.epyc.epyc_bios"]}]))
    for playbook, variable in ((str(role), "epyc_bios_originals"), ("sovereign.epyc.probe", "epyc_bios_recording")):
        done = ansible_playbook(controller, "-l", "node01", playbook, **job)
        said = " ".join(done.stdout.split())
        assert done.returncode == 2 and "which AWX deletes when this job ends" in said, said
        assert f"Set {variable} to a path in a folder that stays" in said
    assert len(fleet["node01"].request_log) == before


def test_the_probe_writes_a_recording_of_each_bmc(controller: Path, fleet: Fleet) -> None:
    probed = ("node01", "node02", "node05")
    before = {name: len(fleet[name].request_log) for name in probed}
    done = ansible_playbook(controller, "-vvv", "-l", ",".join(probed), "sovereign.epyc.probe")
    assert done.returncode == 0, done.stdout
    for name in probed:
        asked = fleet[name].request_log[before[name] :]
        assert {one.method for one in asked if "/Sessions" not in one.path} == {"GET"}
        recording = (controller / f".bios/{name}-recording.json").read_text()
        assert json.loads(recording)["resources"] and fleet[name].open_sessions == []
        secrets_of_bmc = (fleet[name].password, fleet[name].address)
        assert [text for text in secrets_of_bmc if text in recording] == [] and fleet[name].password not in done.stdout
    assert "what " in done.stdout and "apply times" in done.stdout
