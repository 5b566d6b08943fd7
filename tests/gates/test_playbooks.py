# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Ansible makes of our playbooks, asked of Ansible itself."""

from __future__ import annotations

import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader

from ansible_collections.sovereign.epyc.plugins.module_utils._llama.plan.options import Options

from .conftest import ROOT


def test_hosts_are_rebooted_in_the_order_of_the_inventory() -> None:
    """A group made at run time has its hosts in the order in which they answered."""
    loader = DataLoader()
    inventory = InventoryManager(loader, sources=["canary,second,third,"])
    inventory.add_group("epyc_reboot_now")
    for late in ("third", "canary"):
        inventory.add_host(late, group="epyc_reboot_now")
    pattern = loader.load_from_file(str(ROOT / "playbooks/reboot.yml"))[1]["hosts"]
    assert [host.name for host in inventory.get_hosts(pattern)] == ["canary", "third"]


def test_the_instances_of_the_example_can_be_asked_for() -> None:
    files = [yaml.safe_load(path.read_text()) for path in (ROOT / "inventories/example/group_vars").iterdir()]
    instances = [one for file in files for one in file.get("llama_instances", ())]
    assert {Options.parse({"binary": "/usr/bin/llama-server", **one}).speculation for one in instances} >= {
        "ngram",
        "cascade",
    }
