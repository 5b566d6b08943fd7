# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests of BIOS settings start from: a BMC whose profile locks an attribute, and runs of the module on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes.bios_runs import Runs, bmc_with_profile
from ansible_collections.sovereign.epyc.tests.unit.fakes.bmcs import Bmc


@pytest.fixture
def bmc() -> Bmc:
    return bmc_with_profile()


@pytest.fixture
def run(bmc: Bmc, tmp_path: Path) -> Runs:
    return Runs(bmc, tmp_path)
