# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each table by CPU family and model knows each generation of EPYC, or says that it does not; the page shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._generations import GENERATIONS
from tools import generations

#: Tables that are there for certain, so that a search that finds nothing is noticed.
AT_LEAST = {"CCX_PER_CCD", "SOCKETS", "CORE_SPEEDS", "FIRST_COMPILERS", "PREFETCH_BITS", "DATA_SHEETS"}
COMMENT = "#: CPU family, first and last model, and the colour of its lid.\n"


@pytest.fixture
def write_table(tmp_path: Path) -> Path:
    """Return the path of a file in a tree of sources, in which a table may stand."""
    path = tmp_path / "plugins/module_utils/lids.py"
    path.parent.mkdir(parents=True)
    return path


def test_every_table_has_a_row_for_every_generation() -> None:
    tables = generations.find_tables()
    assert {table.place.rpartition(" ")[2] for table in tables} >= AT_LEAST
    assert generations.list_missing_rows(tables) == []


def test_the_subject_of_every_table_stands_above_it() -> None:
    assert [table.place for table in generations.find_tables() if not table.subject] == []


def test_the_page_has_the_table_of_the_sources() -> None:
    expected = generations.render_table(generations.find_tables())
    assert generations.read_page_table() == expected, "run `make generations ARGS=--write`"


def test_a_table_without_the_newest_generation_is_named(tmp_path: Path, write_table: Path) -> None:
    rows = [f"    ({family}, {low}, {high}, 'red')," for family, low, high, dummy in GENERATIONS[:-1]]
    write_table.write_text("\n".join([f"{COMMENT}LIDS = (", *rows, ")", ""]))
    (table,) = generations.find_tables(tmp_path)
    assert (table.subject, table.place) == ("the colour of its lid", "plugins/module_utils/lids.py, LIDS")
    (line,) = generations.list_missing_rows([table])
    assert "EPYC 9006" in line and "with None behind the models" in line


def test_a_row_for_half_of_the_models_is_not_enough_and_none_is_an_answer(tmp_path: Path, write_table: Path) -> None:
    rows = [f"    ({family}, {low}, {high}, 'red')," for family, low, high, dummy in GENERATIONS[:-1]]
    family, low, high, name = GENERATIONS[-1]
    for last, expected in ((high - 1, generations.NO_ROW), (high, generations.NOT_KNOWN)):
        write_table.write_text("\n".join(["LIDS = (", *rows, f"    ({family}, {low}, {last}, None),", ")", ""]))
        (table,) = generations.find_tables(tmp_path)
        assert generations.describe_generation(table, GENERATIONS[-1]) == expected
        assert len(generations.list_missing_rows([table])) == (expected == generations.NO_ROW), name


def test_a_table_of_skus_needs_one_of_each_generation(tmp_path: Path, write_table: Path) -> None:
    write_table.write_text("LIDS = {'9754': (25, 0xA0, 'red'), '9996': (26, 0x50, 'blue')}\n")
    (table,) = generations.find_tables(tmp_path)
    assert generations.describe_generation(table, GENERATIONS[-1]) == "9996"
    assert len(generations.list_missing_rows([table])) == len(GENERATIONS) - 2
