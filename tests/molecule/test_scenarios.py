# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every Molecule scenario: one test for each that has a machine of its own, and one for all that take turns on one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vepyc.paths import hold_lock
from vepyc.playbook_runs import run_command

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "extensions/molecule"
LAYERS = FOLDER / "layers"
IN_TURN = {name for file in LAYERS.glob("*.yml") for name in re.findall(r"scenario: (\w+)", file.read_text())}
ALONE = sorted({path.parent.name for path in FOLDER.glob("*/molecule.yml")} - IN_TURN)
#: The scenario that `make test` runs.
EVERYDAY = "cat"


@pytest.mark.parametrize(
    "scenario", [pytest.param(name, marks=[pytest.mark.everyday] * (name == EVERYDAY)) for name in ALONE]
)
def test_scenario(scenario: str) -> None:
    with hold_lock(f"molecule-{scenario}"):  # its host has one name, whoever runs these tests on this computer
        done = run_command("molecule", "test", "--scenario-name", scenario, NO_COLOR="1")
    assert done.returncode == 0, done.stdout


def test_the_host_is_asked_for_every_scenario_that_takes_a_turn() -> None:
    """Molecule passes over the tests of a folder that is not there."""
    asked = set(re.findall(r"\.\./(\w+)/tests", (LAYERS / "molecule.yml").read_text()))
    assert asked == IN_TURN
    assert {name for name in IN_TURN if not list(FOLDER.glob(f"{name}/tests/test_*.py"))} == set()
