# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An alert repairs the one host that it names, or none: the rulebook lets only names pass, the playbook only hosts.

No host of the inventory takes a connection, so that what a run would have repaired can be read from its output.
"""

from __future__ import annotations

import json
import re
import secrets
import socket
import subprocess
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from ansible.plugins.test import core

from tests.fixtures.rulebooks import RULEBOOK, post, run_rulebook, wait_until
from vepyc import playbook_runs

from .conftest import ROOT

INVENTORY = {
    "epyc_servers": {
        "vars": {"ansible_host": "127.0.0.1", "ansible_port": 1},
        "children": {
            "epyc9754": {"hosts": {"epyc-01": {}, "epyc-02": {}}},
            "epyc9354": {"hosts": {"epyc-03": {}}},
        },
    }
}
DRIFT = {"alertname": "EpycDrift", "role": "cat", "live": "drift", "pending_reboot": "false"}
ABSENT = object()
#: Labels that name no host, though Ansible would take most of them for some.
NO_NAMES: dict[str, Any] = {
    "absent": ABSENT,
    "empty": "",
    "star": "*",
    "expression": "~.*",
    "all but one": "!epyc-01",
    "all but one of all": "all:!epyc-01",
    "two": "epyc-01,epyc-02",
    "twice": "epyc-03,epyc-03",
    "ended by a comma": "epyc-03,",
    "blank before": " epyc-03",
    "newline after": "epyc-03\n",
    "another end of a line after": "epyc-03\u2028",
    "NUL": "epyc-03\0x",
    "file": "@/etc/hostname",
    "list": ["epyc-01", "epyc-02"],
    "list of one": ["epyc-03"],
    "part of a group": "epyc9754[0]",
    "option": "--check",
    "template": "{{ 'epyc-03' }}",
    "letter of another script": "epyc-0\u0663",
}
#: Labels that have the form of a name. The playbook refuses them, because no host is called so.
NO_HOSTS = ["all", "epyc9754", "epyc9354", "ungrouped", "epyc-04"]


def build_alert(host: Any, **more: Any) -> dict[str, Any]:
    """Return an alert as Alertmanager sends it, with this label of the host."""
    return {"status": "firing", "labels": {**DRIFT, **({} if host is ABSENT else {"host": host})}, **more}


def build_alert_of_role(role: Any) -> dict[str, Any]:
    return {"status": "firing", "labels": {**DRIFT, "role": role, "host": "epyc-02"}}


def lets_pass(alert: dict[str, Any]) -> bool:
    """Whether the condition of the rulebook holds, as Ansible's own templates read the same words."""
    environment = jinja2.Environment()
    environment.tests.update(core.TestModule().tests())
    (ruleset,) = yaml.safe_load(RULEBOOK.read_text())
    condition = environment.compile_expression(ruleset["rules"][0]["condition"], undefined_to_none=False)
    return bool(condition(event=json.loads(json.dumps(alert))))


@pytest.mark.parametrize("label", NO_NAMES.values(), ids=NO_NAMES)
def test_what_is_no_name_begins_nothing(label: Any) -> None:
    assert not lets_pass(build_alert(label))


@pytest.mark.parametrize("name", ["epyc-03", "e", "10.0.0.1", "Node_7.rack-2.example", *NO_HOSTS])
def test_a_name_is_handed_to_the_playbook(name: str) -> None:
    assert lets_pass(build_alert(name))


@pytest.mark.parametrize("role", ["", "grub_params", "cat,irq", "cat\n", ["cat"], "all"])
def test_another_role_begins_nothing(role: Any) -> None:
    assert not lets_pass(build_alert_of_role(role))


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fleet") / "hosts.yml"
    path.write_text(yaml.safe_dump(INVENTORY))
    return path


def run_play(inventory: Path, playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return playbook_runs.run_command(
        "ansible-playbook", "-i", str(inventory), str(ROOT / f"playbooks/{playbook}.yml"), *arguments
    )


def repaired_hosts(output: str) -> list[str]:
    """Return the hosts that a repair would have reached, in the order in which it tried, by the output of a run."""
    return re.findall(r"fatal: \[(.+?)\]: UNREACHABLE", output)


@pytest.mark.parametrize(("name", "limit"), [("epyc9354", "epyc9354"), ("epyc-03", "epyc-02,epyc-03")])
def test_the_playbook_refuses_what_is_not_the_one_host_of_its_run(inventory: Path, name: str, limit: str) -> None:
    done = run_play(inventory, "repair", "-l", limit, "-e", json.dumps({"epyc_repair_host": name}))
    assert (done.returncode, repaired_hosts(done.stdout)) == (2, []), done.stdout
    assert f'epyc_repair_host is "{name}", but has to be the name of one host' in done.stdout
    assert done.stdout.count("PLAY [") == 1, "the repair began"


@pytest.mark.parametrize(
    ("limit", "arguments", "hosts"),
    [("epyc-03", ["-e", "epyc_repair_host=epyc-03"], {"epyc-03"}), ("epyc9754", [], {"epyc-01", "epyc-02"})],
    ids=["by an alert", "by a person"],
)
def test_who_is_repaired(inventory: Path, limit: str, arguments: list[str], hosts: set[str]) -> None:
    done = run_play(inventory, "repair", "-l", limit, *arguments)
    assert {*repaired_hosts(done.stdout)} == hosts, done.stdout


@pytest.mark.slow
def test_alerts_through_the_real_rulebook(inventory: Path, tmp_path: Path) -> None:
    """The honest alert is the last: all others have come to nothing when its run ends."""
    token = secrets.token_hex(16)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flat = {"status": "firing", "labels": DRIFT, "labels.host": "epyc-01"}
    alerts = [
        *(build_alert(label) for label in NO_NAMES.values()),
        *(build_alert(label, meta={"hosts": ["all"]}) for label in (ABSENT, "", "*")),
        *(build_alert(label) for label in NO_HOSTS),
        *(build_alert_of_role(role) for role in ("grub_params", "{{ 1 }}", ["cat"], "cat\n")),
        {**flat, "meta": {"hosts": ["all"]}},
        flat,
        build_alert("epyc-03", meta={"hosts": ["all"]}),
        build_alert("epyc-03"),
    ]
    with run_rulebook(tmp_path, inventory, token, port) as log:
        for alert in alerts:
            post(f"http://127.0.0.1:{port}/alerts", {"alerts": [alert]}, token)
        runs = tmp_path / "runs.log"
        wait_until(lambda: "epyc-03 " in runs.read_text() and "unreachable=1" in runs.read_text(), log)
        assert post(f"http://127.0.0.1:{port}/alerts", {"alerts": [build_alert("epyc-02")]}, "another") == 401
    assert repaired_hosts(runs.read_text()) == ["epyc-03"], log.read_text()
    assert runs.read_text().count("PLAY [Repair what has drifted]") == 1, log.read_text()
