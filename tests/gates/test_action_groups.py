# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules that share options are in groups, so that `module_defaults` sets an option for all of them at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import yaml

from .conftest import ROOT
from .test_docs import ansible_doc

MODULES = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "plugins/modules").glob("*.py")}
#: Group -> the function that runs each of its modules.
GROUPS = {"settings": "run_knob_module", "bmc": "run_bmc_module"}


def modules_run_by(function: str) -> list[str]:
    return sorted(name for name, text in MODULES.items() if f"    {function}(" in text)


def test_each_module_with_the_options_of_a_group_is_in_it_and_says_so(run: Callable[..., str]) -> None:
    groups = yaml.safe_load((ROOT / "meta/runtime.yml").read_text(encoding="utf-8"))["action_groups"]
    assert groups == {name: modules_run_by(function) for name, function in GROUPS.items()}
    shown = ansible_doc(run, "module", {f"sovereign.epyc.{name}" for name in MODULES})
    said = {
        name: attributes["action_group"]["membership"]
        for name in MODULES
        if "action_group" in (attributes := shown[f"sovereign.epyc.{name}"]["doc"]["attributes"])
    }
    assert said == {name: [f"sovereign.epyc.{group}"] for group, names in groups.items() for name in names}


def test_module_defaults_of_a_group_reach_a_module(run: Callable[..., str], tmp_path: Path) -> None:
    """A module of each group without any option is refused for what the defaults of its group say."""
    refused = {"ignore_errors": True, "check_mode": True}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": sys.executable},
        "module_defaults": {
            "group/sovereign.epyc.settings": {"state": "of-the-group"},
            # Nothing listens at this port.
            "group/sovereign.epyc.bmc": {"bmc": "127.0.0.1:9", "username": "x", "password": "x", "patience": 1},
        },
        "tasks": [
            {"sovereign.epyc.sysfs_settings": {}, **refused},
            {"sovereign.epyc.epyc_bmc_bios_info": {}, **refused},
        ],
    }
    playbook = tmp_path / "play.json"
    playbook.write_text(json.dumps([play]), encoding="utf-8")
    said = run("ansible-playbook", "-i", "localhost,", "-c", "local", str(playbook))
    assert "value of state must be one of: present, unasked, original, got: of-the-group" in said
    assert "127.0.0.1:9" in said, said
