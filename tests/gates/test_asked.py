# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What playbooks/vars/asked.yml takes out of an inventory, by real runs of ansible-playbook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.requested import REQUESTS_OF_LAYER, WITHOUT_REQUESTS
from ansible_collections.sovereign.epyc.tests.unit.fakes import plays

from .conftest import ROOT

VARIABLES = ROOT / "playbooks/vars/asked.yml"
#: Name -> variables of an inventory.
INVENTORIES: dict[str, dict[str, Any]] = {
    "nothing said": {},
    "a text": {
        "epyc_steps": "base,numa, llama",
        "epyc_llama_instances": [{"name": "chat"}, {"model": "without a name"}],
    },
    "JSON as a text": {"epyc_steps": '["numa"]', "epyc_llama_instances": [{"name": "chat"}]},
    "no layer": {"epyc_steps": ["numa", "nosuch"]},
    "not stored": {"epyc_cat_persistent": "no", "epyc_irq_persistent": False, "epyc_base_state": "absent"},
    "some roles": {
        "epyc_cpufreq_draft": {},
        "epyc_cpuidle_verify": {"deepest": "C1"},
        "epyc_prefetch_draft": {"l1_stride": "disabled"},
    },
    "no roles": {"epyc_cpufreq_draft": {}, "epyc_cpufreq_verify": {}, "epyc_cpufreq_housekeeping": {}},
    "no value yet": {"epyc_cpufreq_draft": "{{ ansible_facts.epyc.nothing }}", "epyc_steps": ["cpufreq"]},
}


def options_by_inventory(folder: Path) -> dict[str, Any]:
    """Return by the name of an inventory what it asks for."""
    book = [
        {
            "hosts": "one",
            "gather_facts": False,
            "vars_files": [str(VARIABLES)],
            "vars": variables,
            "tasks": [
                {
                    "ansible.builtin.copy": {
                        "content": "{{ epyc_asked | to_json }}",
                        "dest": str(folder / name),
                        "mode": "0600",
                    }
                }
            ],
        }
        for name, variables in INVENTORIES.items()
    ]
    (folder / "play.yml").write_text(json.dumps(book))
    done = plays.run(folder, ["one"], [], str(folder / "play.yml"))
    assert done.returncode == 0, done.stdout
    return {name: json.loads((folder / name).read_text()) for name in INVENTORIES}


@pytest.mark.slow
@pytest.mark.everyday
def test_what_an_inventory_asks_for(tmp_path: Path) -> None:
    found = options_by_inventory(tmp_path)
    layers = {name: row["layers"] for name, row in found.items()}
    usual = {"prerequisites", "base", "bios", "bios_check", "numa", "grub_params", "irq", "cat", "cpufreq", "llama"}
    assert layers["nothing said"].keys() == usual, "nothing is set for idle states and prefetchers by default"
    assert layers["nothing said"]["cpufreq"] == ["draft", "verify", "housekeeping"]
    assert found["a text"] == {"layers": {"base": [], "numa": [], "llama": []}, "instances": ["chat"]}
    assert found["JSON as a text"] == {"layers": {"numa": []}, "instances": []}
    assert layers["no layer"] == {"numa": [], "nosuch": []}, "the module refuses it"
    assert usual - layers["not stored"].keys() == {"cat", "irq", "base"}
    assert layers["some roles"]["cpufreq"] == ["verify", "housekeeping"]
    assert (layers["some roles"]["cpuidle"], layers["some roles"]["prefetch"]) == (["verify"], ["draft"])
    assert "cpufreq" not in layers["no roles"] and layers["no value yet"] == {
        "cpufreq": ["draft", "verify", "housekeeping"]
    }


def test_it_knows_the_layers_and_their_defaults() -> None:
    variables = yaml.safe_load(VARIABLES.read_text())
    (site,) = yaml.safe_load((ROOT / "playbooks/site.yml").read_text())
    assert variables["epyc_asked_default"] == site["vars"]["epyc_site_layers"] == [*variables["epyc_asked_roles"]]
    assert {*variables["epyc_asked_default"]} == {*REQUESTS_OF_LAYER, *WITHOUT_REQUESTS}
    for layer in REQUESTS_OF_LAYER:
        defaults = yaml.safe_load((ROOT / f"roles/epyc_{layer}/defaults/main.yml").read_text())
        assert defaults[f"epyc_{layer}_persistent"] is True
        for role in ("draft", "verify", "housekeeping"):
            of_role = defaults.get(f"epyc_{layer}_{role}")
            assert of_role is None or bool(of_role) == (layer == "cpufreq"), layer
