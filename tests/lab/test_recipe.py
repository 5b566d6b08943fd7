# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The recipe's nine steps, setting by setting: docs/recipe.yml held against the roles and against a tuned machine."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest
import yaml

from tests.fixtures.saved_states import recipe_arguments

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TABLE = yaml.safe_load((ROOT / "docs/recipe.yml").read_text(encoding="utf-8"))
ROWS = [(step["step"], row) for step in TABLE for row in step["settings"]]
PROVEN = [(step, row) for step, row in ROWS if "proof" in row]
IDS = [f"{step} {row['wants']}" for step, row in ROWS]


def documented_options():
    """Every variable that a role documents."""
    names = {}
    for path in ROOT.glob("roles/*/meta/main.yml"):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            names.update(entry["options"])
    return names


@pytest.fixture(scope="module")
def tuned(rebooted_guest):
    """What a machine shows after site.yml with the recipe's variables, and the reboot that they need."""
    guest = rebooted_guest
    drift = guest.module("epyc_drift_info")
    verify = guest.play("playbooks/verify.yml", *recipe_arguments())["Go through the checklist"]
    return guest, drift, {item["name"]: item for item in verify["checklist"]}


def test_all_steps_are_there():
    assert [step["step"] for step in TABLE] == list(range(10))
    assert all(step["settings"] for step in TABLE)


@pytest.mark.parametrize(("step", "row"), ROWS, ids=IDS)
def test_each_setting_is_given_or_declined(step, row):
    assert len({"proof", "given", "declined"} & row.keys()) == 1
    assert "variable" not in row or row["variable"] in documented_options()
    assert "declined" in row or "variable" in row
    assert all(row.get(key, "A sentence.").endswith(".") for key in ("given", "declined"))


def test_no_two_rows_give_a_variable_different_values():
    """The last one would win silently."""
    values = {}
    for _step, row in ROWS:
        if "value" in row:
            assert values.setdefault(row["variable"], row["value"]) == row["value"], row["variable"]


@pytest.mark.parametrize(("step", "row"), ROWS, ids=IDS)
def test_the_recipes_values_are_those_of_its_file(step, row):
    file = yaml.safe_load((ROOT / "playbooks/vars/recipe.yml").read_text(encoding="utf-8"))
    if row.get("variable") in file and "value" in row:
        assert file[row["variable"]] == row["value"]


@pytest.mark.parametrize(("step", "row"), PROVEN, ids=[f"{step} {row['wants']}" for step, row in PROVEN])
def test_the_live_kernel_has_it(tuned, step, row):
    guest, drift, items = tuned
    proof = row["proof"]
    if "item" in proof:
        assert items[proof["item"]]["verdict"] == "ok", items[proof["item"]]["sentence"]
    elif "file" in proof:
        guest.run(f"test -e {proof['file']}")
    else:
        found = [one for one in drift["settings"] if fnmatch.fnmatchcase(one["address"], proof["address"])]
        assert found, f"nothing on the machine is called {proof['address']}"
        assert {(one["live"], one["persistent"]) for one in found} == {("ok", "ok")}, found
        assert "holds" not in proof or proof["holds"] in {one["found"] for one in found}


def test_and_nothing_else_is_wrong(tuned):
    guest, drift, _items = tuned
    assert [one for one in drift["settings"] if (one["live"], one["persistent"]) != ("ok", "ok")] == []
    assert guest.run("cat /proc/sys/kernel/numa_balancing /sys/devices/system/cpu/smt/active").split() == ["0", "0"]
