# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `make test` runs: something of every package of the library, and of every tier but the one of releases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.selection import TIERS, tier_of

from .conftest import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.everyday]

ENGINE = ROOT / "plugins/module_utils"
UNIT_TESTS = Path("tests/unit/plugins/module_utils")
#: `make site` on every SKU takes an hour, and the lab's own test goes the same way on a small machine.
ONLY_FOR_RELEASES = "site"


@pytest.fixture(scope="module")
def everyday_tests(run: Callable[..., str]) -> list[str]:
    """The names of the tests that `make test` runs."""
    said = run("pytest", "--collect-only", "-q", "--everyday")
    return [line for line in said.splitlines() if "::" in line]


def find_untested(packages: list[Path], tests: list[str]) -> list[str]:
    """Return the packages of the library without a test in the mirrored folder."""
    folders = {str(Path(test.partition("::")[0]).parent) for test in tests}
    return [str(package) for package in packages if str(UNIT_TESTS / package) not in folders]


def test_every_package_of_the_engine_is_tested(everyday_tests: list[str]) -> None:
    modules = [path for path in ENGINE.rglob("*.py") if path.name != "__init__.py"]
    packages = sorted({path.parent.relative_to(ENGINE) for path in modules})
    assert len(packages) > 20
    assert find_untested(packages, everyday_tests) == []
    assert find_untested([Path("_new")], everyday_tests) == ["_new"]


def test_every_tier_is_tested(everyday_tests: list[str]) -> None:
    assert {tier_of(test) for test in everyday_tests} == set(TIERS.values()) - {ONLY_FOR_RELEASES}
