# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who runs a playbook, as the environment of its tasks says it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible import context
from ansible.errors import AnsibleError

from ansible_collections.sovereign.epyc.plugins.lookup import run_origin
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.history.run import ORIGIN, RUN
from ansible_collections.sovereign.epyc.tests.unit.fakes import plays

ALL: dict[str, Any] = {"ansible_run_tags": ["all"], "ansible_skip_tags": []}
#: What a module would find in its environment, before and after the begin of the run was noted.
SHOW = f"import os; print(os.environ['{ORIGIN}']); print(os.environ['{RUN}'])"


@pytest.fixture(autouse=True)
def controller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "CLIARGS", {"args": ("playbooks/roll.yml", "sovereign.epyc.verify")})
    monkeypatch.setattr("socket.gethostname", lambda: "ctl")
    monkeypatch.setattr("getpass.getuser", lambda: "ops")


def origin(**variables: Any) -> dict[str, Any]:
    (text,) = run_origin.LookupModule().run([], {**ALL, **variables})
    found: dict[str, Any] = json.loads(text)
    return found


def test_user_controller_playbooks_and_tags() -> None:
    assert origin() == {
        "user": "ops",
        "controller": "ctl",
        "playbook": "roll.yml, sovereign.epyc.verify",
        "tags": [],
        "skip_tags": [],
    }
    assert origin(ansible_run_tags=["cat"])["tags"] == ["cat"]
    assert origin(ansible_skip_tags=("irq",))["skip_tags"] == ["irq"]


def test_awx_names_who_started_the_job() -> None:
    assert origin(awx_user_name="anna", tower_user_name="other")["user"] == "anna"


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("getpass.getuser", refuse)
    assert origin()["user"].isdecimal()


def test_terms_are_refused() -> None:
    with pytest.raises(AnsibleError, match="takes no terms"):
        run_origin.LookupModule().run(["a term"])


def test_site_hands_it_to_its_tasks(tmp_path: Path) -> None:
    """Ansible runs a play with the environment of site.yml, in which the begin is noted between two tasks."""
    (site,) = yaml.safe_load((plays.ROOT / "playbooks/site.yml").read_text())
    command = {"ansible.builtin.command": {"argv": [sys.executable, "-c", SHOW]}, "changed_when": False}
    begun = {"ansible.builtin.set_fact": {"epyc_plan_history_result": {"run": "the-run"}}}
    play = {
        "hosts": "all",
        "gather_facts": False,
        "environment": site["environment"],
        "tasks": [command, begun, command],
    }
    playbook = tmp_path / "site.yml"
    playbook.write_text(json.dumps([play]))
    done = plays.run(tmp_path, ["one"], [], str(playbook), "-v", ANSIBLE_CALLBACK_RESULT_FORMAT="json")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count('\\"playbook\\": \\"site.yml\\"') >= 2
    assert done.stdout.count("the-run") >= 1
