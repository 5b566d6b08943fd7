# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Ansible makes of our playbooks, asked of Ansible itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader

from ansible_collections.sovereign.epyc.plugins.module_utils._llama.plan import memory
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.plan.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.plan.service import Service
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.unit import planned
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import GB, NEW, machine

from .conftest import ROOT


def test_playbooks_of_the_clone_run_from_any_folder(run: Callable[..., str], tmp_path: Path) -> None:
    """A role, a module, and a playbook that imports another one are found without the clone's ansible.cfg."""
    playbooks = [str(ROOT / name) for name in ("site.yml", "playbooks/roll.yml", "playbooks/verify.yml")]
    said = run("ansible-playbook", "--syntax-check", "-i", "localhost,", *playbooks, cwd=tmp_path)
    assert [f"playbook: {name}" in said for name in playbooks] == [True] * 3


def test_hosts_are_rebooted_in_the_order_of_the_inventory() -> None:
    """A group made at run time has its hosts in the order in which they answered."""
    loader = DataLoader()
    inventory = InventoryManager(loader, sources=["canary,second,third,"])
    inventory.add_group("epyc_reboot_now")
    for late in ("third", "canary"):
        inventory.add_host(late, group="epyc_reboot_now")
    pattern = loader.load_from_file(str(ROOT / "playbooks/reboot.yml"))[1]["hosts"]
    assert [host.name for host in inventory.get_hosts(pattern)] == ["canary", "third"]


EXAMPLES = ROOT / "inventories/example/group_vars"


@pytest.mark.parametrize(
    ("example", "sku", "nodes"),
    [("three_tenants", "9354", ["0", "1", "2-3"]), ("instance_per_socket", "two 7543", ["0", "1"])],
)
def test_the_examples_of_several_instances_can_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str, sku: str, nodes: list[str]
) -> None:
    """As they stand there, with models in this folder: none maps a file that another has on other nodes."""
    tmp_path.chmod(0o755)
    free = memory.FreeMemory(dict.fromkeys(range(4), 30 * GB))
    monkeypatch.setattr(memory, "read_free_memory", lambda *dummy: free)
    services: list[Service] = []
    asked: list[dict[str, Any]] = yaml.safe_load((EXAMPLES / f"{example}.yml").read_text())["llama_instances"]
    for one in asked:
        model = ggufs.written(tmp_path / Path(one["model"]).name, GB).path
        options = Options.parse({"binary": "/usr/bin/llama-server", **one, "model": model})
        services.append(planned.plan_beside(machine(sku), options, NEW, [], services))
    assert [service.expect["nodes"] for service in services] == nodes


def test_the_instances_of_the_example_can_be_asked_for() -> None:
    files = [yaml.safe_load(path.read_text()) for path in EXAMPLES.iterdir()]
    instances = [one for file in files for one in file.get("llama_instances", ())]
    kinds = {Options.parse({"binary": "/usr/bin/llama-server", **one}).guesses_by for one in instances}
    assert kinds >= {"ngram", "ngram,draft"}


#: What somebody writes who means to leave a layer out, each for a host of its own, and what the refusal names.
ODD_STEPS = {
    "switched": ({"base": False}, "is a dictionary"),
    "text": ("base", "is a text"),
    "false": (False, "is false"),
    "nested": ([{"base": False}], "has {'base': False}"),
    "unknown": (["base", "numma"], "has numma"),
}


def test_layers_that_are_no_list_of_names_run_nothing(run: Callable[..., str], tmp_path: Path) -> None:
    here = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
    hosts = {name: {**here, "epyc_steps": steps} for name, (steps, dummy) in ODD_STEPS.items()}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    with pytest.raises(pytest.fail.Exception) as caught:
        run("ansible-playbook", "-i", str(tmp_path / "hosts.json"), "playbooks/site.yml", "--check")
    said = " ".join(str(caught.value).split())
    for name, (dummy, words) in ODD_STEPS.items():
        assert f"epyc_steps of {name} {words}" in said, said
    assert "Ask whether the last run still holds" not in said
