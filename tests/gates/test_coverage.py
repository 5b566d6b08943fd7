# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much of the engine the unit tests reach by themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def test_unit_tests_alone_reach_the_engine(run: Callable[..., str], tmp_path: Path) -> None:
    """The limit is in pyproject.toml; a failure shows the lines that are missed."""
    file = {"COVERAGE_FILE": str(tmp_path / "coverage")}
    run("coverage", "run", "-m", "pytest", "-q", "tests/unit", env=file)
    run("coverage", "report", env=file)
