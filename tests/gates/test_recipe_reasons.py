# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each answer of docs/recipe.yml has its ground: a declined one a reason and the day, a given one a test that is there.

tests/lab/test_recipe.py holds the other answers against a tuned virtual EPYC.
"""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ROWS: list[dict[str, Any]] = [
    row for step in yaml.safe_load((ROOT / "docs/recipe.yml").read_text("utf-8")) for row in step["settings"]
]
#: The day on which all reasons were looked at for the first time.
FIRST_DAY = datetime.date(2026, 12, 1)


@pytest.mark.parametrize("row", ROWS, ids=[row["wants"] for row in ROWS])
def test_an_answer_has_its_ground(row: dict[str, Any]) -> None:
    assert ("checked" in row) is ("declined" in row), "the day stands beside the reason, and nowhere else"
    if "declined" in row:
        assert len(row["declined"].split()) >= 5, "a reason is a sentence"
        assert isinstance(row["checked"], datetime.date)
        assert FIRST_DAY <= row["checked"] <= datetime.datetime.now(tz=datetime.UTC).date()
    if "given" in row and "proof" not in row:
        tests = re.findall(r"\btests/\S+\.py\b", row["given"])
        assert tests, "a test is named"
        assert [path for path in tests if not (ROOT / path).is_file()] == []
