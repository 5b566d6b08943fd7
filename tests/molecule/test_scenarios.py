# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every Molecule scenario, one test each."""

from __future__ import annotations

from pathlib import Path

import pytest

from vepyc.play import run

ROOT = Path(__file__).parents[2]
SCENARIOS = sorted(path.parent.name for path in ROOT.glob("extensions/molecule/*/molecule.yml"))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: str) -> None:
    done = run("molecule", "test", "--scenario-name", scenario, NO_COLOR="1")
    assert done.returncode == 0, done.stdout
