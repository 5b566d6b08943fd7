# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""States that tests start from. The first test that needs one makes it, and it is saved for all later ones.

A state is made anew when the collection, its inventory for the lab or ansible-core has changed.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import yaml

from vepyc import Machine, Preparation
from vepyc.paths import digest
from vepyc.play import collection_digest

from .guests import ROOT, Guest


def after_site(name: str, *arguments: str, reboot: bool = False) -> Preparation:
    """A machine on which site.yml has run with these arguments, and which was rebooted then if it says so."""

    def do(machine: Machine) -> None:
        with tempfile.TemporaryDirectory() as folder:
            guest = Guest(machine, Path(folder))
            guest.play("playbooks/site.yml", *arguments)
            if reboot:
                guest.play("playbooks/reboot.yml", "-e", "epyc_reboot_ok=true")
                machine.disconnect()

    return Preparation(name, digest([collection_digest(), *arguments, str(reboot)]), do)


def recipe_arguments() -> list[str]:
    """What a playbook is told for the recipe: the file of its variables, and the values of its table."""
    table = yaml.safe_load((ROOT / "docs/recipe.yml").read_text(encoding="utf-8"))
    values = {row["variable"]: row["value"] for step in table for row in step["settings"] if "value" in row}
    return ["-e", "@playbooks/vars/recipe.yml", "-e", json.dumps(values)]


#: Tuned with the variables of the lab's inventory; its boot parameters wait for a reboot.
TUNED = after_site("tuned")
#: Tuned with what the recipe wants, and rebooted: most CPUs are isolated.
RECIPE = after_site("recipe", *recipe_arguments(), reboot=True)
