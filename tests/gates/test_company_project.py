# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The released archive in the Ansible project of a company that has everyday names of its own.

The project has an ansible.cfg without a setting of ours, so Ansible prints as it does by default; an inventory with
groups, and roles, a module, a filter and variables whose names are those that a layer of ours is called by. The server
is a container with systemd and a real llama-server. It shares the kernel of this machine, so no layer changes settings.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from vepyc.container import Container
from vepyc.playbook_runs import clean_environment
from vepyc.venvs import OLDEST_CORE, OLDEST_PROMISED_CORE, RUNNER, ensure_venv

from ..fixtures.containers import ServiceHost
from .conftest import ROOT, Run

pytestmark = pytest.mark.slow

#: The programs of the newest ansible-core.
NEWEST = Path(sys.executable).parent
CONFIGURATION = """\
[defaults]
inventory = inventory/hosts.yml
roles_path = roles
collections_path = collections
"""
#: Says whose role it is, in a run that must not reach it.
ROLE_OF_COMPANY = [{"name": "Speak", "ansible.builtin.debug": {"msg": "this role is the company's"}}]
ROLES = ("base", "bios", "cat", "gateway", "irq", "llama", "monitoring", "numa", "plan", "prerequisites", "reboot")
FILTER = """\
def refuse(*dummy):
    raise ValueError("this filter is the company's")

class FilterModule:
    def filters(self):
        return dict.fromkeys(("text_to_list", "request_refusals", "with_models", "with_tuned", "model_files"), refuse)
"""
#: Each would break a run that read it.
VARIABLES: dict[str, Any] = {
    "base_state": "absent",
    "bios_bmc": "192.0.2.9",
    "drift_result": "none",
    "gateway_hosts": [],
    "grub_params_result": {"reboot_required": True},
    "llama_binary": "/usr/bin/false",
    "llama_instances": [{"name": "theirs"}],
    "llama_state": "absent",
    "monitoring_service": "nagios",
    "numa_thp": "never",
    "plan_result": "none",
    "plan_sku": "8086",
    "reboot_timeout": 1,
    "restore_layers": ["none"],
    "steps": ["none"],
    "verify_layers": ["none"],
    "verify_result": "none",
}
HOST, INSTANCE = "ai-01", {"name": "chat", "port": 8080}
LAYERS = ["base", "llama"]
#: Removes the history of the host too, which otherwise stays.
FORGET = ("-e", "epyc_restore_history=true")
#: Where the collection leaves traces on a host.
TRACES = "ls -d /etc/systemd/system/{llama,sovereign}* /usr/sbin/sovereign-epyc /var/lib/sovereign-epyc"


class Project:
    """The folder of a company's project, and runs of Ansible in it as the company starts them."""

    def __init__(self, folder: Path, host: ServiceHost) -> None:
        self.folder = folder
        texts: dict[str, str] = {
            "ansible.cfg": CONFIGURATION,
            "filter_plugins/lists.py": FILTER,
            "library/epyc_plan.py": "raise SystemExit('this module is the company\\'s')\n",
            "inventory/hosts.yml": yaml.safe_dump(inventory_of_company(host)),
            "inventory/group_vars/all.yml": yaml.safe_dump(VARIABLES),
            "company.yml": yaml.safe_dump([{"hosts": HOST, "gather_facts": False, "roles": list(ROLES)}]),
            **{f"roles/{name}/tasks/main.yml": yaml.safe_dump(ROLE_OF_COMPANY) for name in ROLES},
        }
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    def list_files(self) -> set[Path]:
        """Return the files of the project but for the installed collection."""
        return {path for path in self.folder.rglob("*") if "collections" not in path.relative_to(self.folder).parts}

    def run_playbook(self, programs: Path, playbook: str, *arguments: str, code: int = 0) -> str:
        """Return the output of a run that must end with an exit code and print texts as lines."""
        command = (str(programs / "ansible-playbook"), playbook, "-l", "epyc_servers", *arguments)
        variables = clean_environment(PATH=f"{programs}{os.pathsep}{os.environ['PATH']}", LC_ALL="C.UTF-8")
        return run_readable(self.folder, command, variables, code)


def inventory_of_company(host: ServiceHost) -> dict[str, Any]:
    """Return an inventory in which groups of everyday names have hosts that are not for us and do not answer."""
    absent = {"ansible_host": "192.0.2.1"}
    others = {name: {"hosts": {f"{name}-01": absent}} for name in ("gateway", "monitoring", "web")}
    server = {
        **host.box.inventory_variables(),
        "epyc_steps": LAYERS,
        "epyc_llama_binary": host.binary,
        "epyc_llama_instances": host.with_test_model(INSTANCE),
    }
    return {"all": {"children": {**others, "epyc_servers": {"hosts": {HOST: server}}}}}


def run_readable(folder: Path, command: tuple[str, ...], variables: dict[str, str], code: int = 0) -> str:
    """Return the output of a command without a terminal; it must end with this exit code and have no escaped lines."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == code, f"{command}\n{done.stdout}"
    assert "is the company's" not in done.stdout, done.stdout
    # Ansible itself prints the message of a failed task twice: as lines, and as JSON after this word.
    escaped = [line for line in done.stdout.splitlines() if "\\n" in line and not line.startswith("fatal: ")]
    assert escaped == [], done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def project(service_host: ServiceHost, released: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("company"), service_host)
    install = ("ansible-galaxy", "collection", "install", "--offline", "-p", str(project.folder / "collections"))
    run(*install, str(released), cwd=project.folder)
    return project


def traces(box: Container) -> list[str]:
    """Return what the collection has left on the host."""
    return box.run(f"bash -c {shlex.quote(TRACES)}", check=False).stdout.split()


def test_the_oldest_core_is_the_one_that_is_promised() -> None:
    promised = yaml.safe_load((ROOT / "meta/runtime.yml").read_text(encoding="utf-8"))["requires_ansible"]
    assert f"ansible-core{promised.replace('>=', '==')}" == OLDEST_PROMISED_CORE


@pytest.mark.parametrize("core", ["oldest", "newest"])
def test_a_server_is_tuned_checked_and_restored(project: Project, service_host: ServiceHost, core: str) -> None:
    """From the plan to the undo of everything, by full names, with the oldest ansible-core and that of the clone."""
    programs = NEWEST if core == "newest" else ensure_venv(OLDEST_PROMISED_CORE)
    box, files = service_host.box, project.list_files()
    play = project.run_playbook
    assert '"msg": [' in play(programs, "sovereign.epyc.plan")
    play(programs, "sovereign.epyc.verify", code=2)
    checked = play(programs, "sovereign.epyc.site", "--check", "--diff")
    assert "changed=0" not in checked and traces(box) == []
    play(programs, "sovereign.epyc.site")
    assert "changed=0" in play(programs, "sovereign.epyc.site")
    assert box.run("systemctl is-active llama-chat.service").stdout == "active\n"
    play(programs, "sovereign.epyc.verify")
    play(programs, "sovereign.epyc.drift")
    undo = ("-e", "epyc_restore_layers=llama", "-e", "epyc_restore_instances=true")
    play(programs, "sovereign.epyc.restore", *undo)
    left = traces(box)
    assert [path for path in left if "llama" in path] == [] and "/usr/sbin/sovereign-epyc" in left
    assert "is not as configured" in play(programs, "sovereign.epyc.drift", code=2)
    play(programs, "sovereign.epyc.restore", *FORGET)
    assert traces(box) == []
    assert project.list_files() == files, "a run wrote into the project"


def test_roles_of_the_company_run_where_it_names_them(project: Project) -> None:
    done = subprocess.run(
        [str(NEWEST / "ansible-playbook"), "company.yml"],
        cwd=project.folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.count("this role is the company's") == len(ROLES), done.stdout


@pytest.fixture
def read_only(project: Project, tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """The words before a command that runs it in a mount namespace in which the project cannot be written."""
    (tmp_path / "job").mkdir()
    (tmp_path / "job/project").symlink_to(project.folder)
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
    yield ("unshare", "--mount", "sh", "-c", script, "sh", str(project.folder))


def test_a_job_of_ansible_runner_with_a_project_that_cannot_be_written(
    project: Project, service_host: ServiceHost, read_only: tuple[str, ...], tmp_path: Path
) -> None:
    """Without HOME and without a terminal, as AWX runs jobs."""
    programs = ensure_venv(OLDEST_CORE, RUNNER)
    variables = {"PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}

    def run_job(playbook: str, *arguments: str, code: int = 0) -> str:
        words = ("-l", "epyc_servers", *arguments)
        job = (str(programs / "ansible-runner"), "run", str(tmp_path / "job"), "-p", playbook)
        return run_readable(tmp_path, (*read_only, *job, f"--cmdline={' '.join(words)}"), variables, code)

    run_job("sovereign.epyc.plan")
    run_job("sovereign.epyc.site")
    run_job("sovereign.epyc.verify")
    run_job("sovereign.epyc.drift")
    run_job("sovereign.epyc.restore", "-e", "epyc_restore_instances=true", *FORGET)
    assert traces(service_host.box) == []
    run_job("sovereign.epyc.drift", code=2)
    codes = [path.read_text() for path in sorted((tmp_path / "job/artifacts").glob("*/rc"))]
    assert sorted(codes) == ["0"] * 5 + ["2"]
