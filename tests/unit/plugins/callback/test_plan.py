# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plugin in real runs of plan.yml, on a host that is this machine and one that nobody answers for."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}

Run = Callable[..., "tuple[str, str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a playbook, and return the output and the page, which is empty where there is none."""

    def run(playbook: str, *arguments: str, path: str = "pages/plan.html") -> tuple[str, str]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            away = {"ansible_host": "127.0.0.1", "ansible_port": server.getsockname()[1]}
        (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": {"one": LOCAL, "two": LOCAL, "gone": away}}}))
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "SOVEREIGN_"))},
            "ANSIBLE_CALLBACKS_ENABLED": "sovereign.epyc.plan",
            "SOVEREIGN_EPYC_PLAN_HTML": str(tmp_path / path) if path else "",
        }
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        done = subprocess.run(
            [program, "-i", str(tmp_path / "hosts.json"), playbook, *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        page = tmp_path / (path or "pages/plan.html")
        return done.stdout, page.read_text(encoding="utf-8") if page.is_file() else ""

    return run


def test_plan_yml_draws_its_hosts_in_check_mode_too(run: Run, tmp_path: Path) -> None:
    output, page = run("playbooks/plan.yml", "--check")
    assert "3 hosts: 1 different plan, 1 without a plan." in page
    assert "<h2>one, two (2 hosts)</h2>" in page and page.count("<svg ") == 1
    assert "unreachable: gone</h3>" in page
    assert f"3 hosts: 1 different plan, 1 without a plan. They are drawn in {tmp_path}/pages/plan.html." in output


def test_it_can_be_switched_off(run: Run) -> None:
    output, page = run("playbooks/plan.yml", "--limit", "one", path="")
    assert (page, "drawn" in output, "failed=0" in output) == ("", False, True)


def test_a_run_that_does_more_than_plan_draws_nothing(run: Run, tmp_path: Path) -> None:
    play = tmp_path / "play.yml"
    play.write_text(
        "- hosts: one\n  gather_facts: false\n  tasks:\n"
        "    - {name: Plan, sovereign.epyc.epyc_plan: {}}\n    - {name: Drift, sovereign.epyc.epyc_drift: {}}\n"
    )
    assert run(str(play))[1] == ""


def test_a_page_that_cannot_be_written_is_an_error_and_no_silence(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    output, page = run("playbooks/plan.yml", "--limit", "one", path="file/plan.html")
    assert page == "" and "The page of plans could not be written to" in output
