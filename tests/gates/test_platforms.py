# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/platforms.md claims nothing without a test: each cell names one that is there, of the kind that it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/platforms.md"
NOT_RUN = "not run"
#: Kind of proof -> where its tests are.
KINDS = {
    "guest": ("tests/lab/", "extensions/molecule/"),
    "guest behind an emulated BMC": ("tests/lab/",),
    "container": ("tests/service/",),
    "recorded": ("tests/unit/",),
}
#: Column -> one of these is in the text of a test on that platform; the first column is what the tests have unless they
#: say more.
WORDS = (("",), ('"6.1"', "guest_of_each_kernel"), ("ubuntu",), ("rhel",))
#: Roles that tune nothing and serve nothing.
WITHOUT_A_ROW = {"plan", "reboot", "verify"}


def read_rows(text: str) -> dict[str, list[str]]:
    """Return the cells of each layer."""
    table = text.partition("| Layer |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table]
    return {layer: cells for layer, *cells in rows}


def list_wrong_cells(rows: dict[str, list[str]]) -> Iterator[str]:
    """Yield a line for each cell whose claim no test holds."""
    for layer, cells in rows.items():
        for cell, words in zip(cells, WORDS, strict=True):
            for claim in cell.split(", ") if cell != NOT_RUN else ():
                reason = find_wrong_claim(layer, claim, words)
                if reason:
                    yield f"{layer}: {claim}: {reason}"


def find_wrong_claim(layer: str, claim: str, words: tuple[str, ...]) -> str:
    """Return why a claim does not hold, "" where it does."""
    match = re.fullmatch(r"([\w ]+): `([\w./]+)`", claim)
    if not match or match[1] not in KINDS:
        return f"say '{NOT_RUN}', or one of {', '.join(KINDS)} with the path of a test"
    kind, path = match.groups()
    if not path.startswith(KINDS[kind]):
        return f"tests of this kind are in {' or '.join(KINDS[kind])}"
    files = [ROOT / path] if (ROOT / path).is_file() else sorted((ROOT / path).rglob("*.py"))
    if not files:
        return "there is no such test"
    if path.startswith("extensions/molecule/") and Path(path).name != layer:
        return "the scenario of a layer has its name"
    texts = [file.read_text(encoding="utf-8").lower() for file in files]
    return "" if any(word in text for text in texts for word in words) else f"nothing there says {words[0]}"


def test_every_layer_has_a_row() -> None:
    roles = {path.name.removeprefix("epyc_") for path in (ROOT / "roles").iterdir()}
    assert set(read_rows(PAGE.read_text(encoding="utf-8"))) == roles - WITHOUT_A_ROW


def test_every_claim_has_a_test() -> None:
    assert list(list_wrong_cells(read_rows(PAGE.read_text(encoding="utf-8")))) == []


def test_every_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`(tests/[\w./]+)`", PAGE.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize(
    ("column", "cell", "reason"),
    [
        (0, "works", "say 'not run', or one of guest"),
        (0, "guest: `tests/unit/conftest.py`", "tests of this kind are in tests/lab/ or extensions/molecule/"),
        (0, "guest: `tests/lab/test_nothing.py`", "there is no such test"),
        (0, "guest: `extensions/molecule/cat`", "the scenario of a layer has its name"),
        (1, "guest: `tests/lab/test_cpuidle.py`", 'nothing there says "6.1"'),
        (2, "guest: `tests/lab/test_fleet.py`", "nothing there says ubuntu"),
    ],
)
def test_a_claim_without_a_test_is_named(column: int, cell: str, reason: str) -> None:
    cells = [NOT_RUN] * len(WORDS)
    cells[column] = cell
    (line,) = list_wrong_cells({"irq": cells})
    assert line.startswith(f"irq: {cell}: {reason}")
