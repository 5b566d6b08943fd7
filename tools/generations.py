#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print what each table of the sources knows of each generation of EPYC, and which table has no row for one.

A table is found by its shape: a tuple of rows that begin with a CPU family and two model numbers, or a dictionary of
SKUs with a family and a model number. With --write, renew the table of docs/generations.md. Run as `make generations`.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ansible_collections.sovereign.epyc.plugins.module_utils._generations import GENERATIONS
from vepyc import SHAPES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/generations.md"
BEGIN, END = "<!-- `make generations ARGS=--write` writes from here -->", "<!-- to here -->"
FAMILIES = {generation[0] for generation in GENERATIONS}
NOT_KNOWN, NO_ROW, NONE = "not known", "NO ROW", "-"
#: The beginning of the comment above a table, behind which stands what the table knows.
PREAMBLE = "CPU family, first and last model, "

Generation = tuple[int, int, int, str]


class Table(NamedTuple):
    """A table of the sources: its subject, its place, and rows of family, first and last model, and a text.

    The text of a row is NOT_KNOWN where the table says so. A table of SKUs needs no row for each model.
    """

    subject: str
    place: str
    rows: list[tuple[int, int, int, str]]
    is_of_skus: bool = False


def find_tables(root: Path = ROOT) -> list[Table]:
    """Return the tables by CPU family and model of the library and of the controller's half."""
    tables = []
    for path in sorted(root.glob("plugins/**/*.py")):
        text = path.read_text(encoding="utf-8")
        if path.name == "_generations.py":
            continue
        for node in ast.parse(text).body:
            value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
            rows = [*_rows_by_model(value)] or [*_rows_by_sku(value)]
            if rows:
                place = f"{path.relative_to(root)}, {_name_of(node)}"
                is_of_skus = isinstance(value, ast.Dict)
                tables.append(Table(_subject(text, node.lineno, is_of_skus), place, rows, is_of_skus))
    return tables


def _rows_by_model(value: ast.expr | None) -> Iterator[tuple[int, int, int, str]]:
    for row in value.elts if isinstance(value, (ast.Tuple, ast.List)) else ():
        if isinstance(row, ast.Tuple) and len(row.elts) > 3:
            family, low, high = map(_number, row.elts[:3])
            if family in FAMILIES and low is not None and high is not None:
                yield family, low, high, _cell(row.elts[3])


def _rows_by_sku(value: ast.expr | None) -> Iterator[tuple[int, int, int, str]]:
    for key, row in zip(value.keys, value.values, strict=True) if isinstance(value, ast.Dict) else ():
        if isinstance(row, ast.Tuple) and len(row.elts) > 1:
            family, model_number = map(_number, row.elts[:2])
            if family in FAMILIES and model_number is not None:
                name = key.value if isinstance(key, ast.Constant) else f"`{ast.unparse(key)}`" if key else ""
                yield family, model_number, model_number, str(name)


def _number(node: ast.expr) -> int | None:
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _cell(node: ast.expr) -> str:
    """Return what a row says: a number or a word, or those with which an object is made."""
    if isinstance(node, ast.Call):
        return ", ".join(_cell(argument) for argument in node.args)
    if not isinstance(node, ast.Constant):
        return ast.unparse(node)
    words = {None: NOT_KNOWN, True: "yes", False: "no such thing"}
    return words[node.value] if node.value is None or isinstance(node.value, bool) else str(node.value)


def _name_of(node: ast.stmt) -> str:
    target = (
        node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else node
    )
    return ast.unparse(target)


def _subject(text: str, line: int, is_of_skus: bool) -> str:
    """Return what a table knows, from the first sentence of the comment above it."""
    lines = text.splitlines()[: line - 1]
    comment: list[str] = []
    while lines and lines[-1].startswith("#:"):
        comment.insert(0, lines.pop()[2:].strip())
    sentence = re.split(r"\.(?: |$)", " ".join(comment))[0]
    if is_of_skus:
        return "SKUs with a data sheet"
    return sentence.removeprefix(PREAMBLE).removeprefix("and ") if sentence.startswith(PREAMBLE) else ""


def describe_generation(table: Table, generation: Generation) -> str:
    """Return what a table knows of a generation: its texts, NOT_KNOWN, or NO_ROW where a model has no row."""
    family, low, high, dummy = generation
    if table.is_of_skus:
        names = [row[3] for row in table.rows if row[0] == family and low <= row[1] <= high]
        return ", ".join(names) or NO_ROW
    texts = {
        next((row[3] for row in table.rows if row[0] == family and row[1] <= model <= row[2]), NO_ROW)
        for model in range(low, high + 1)
    }
    return NO_ROW if NO_ROW in texts else ", ".join(sorted(texts))


def list_missing_rows(tables: list[Table]) -> list[str]:
    """Return a line for each table that neither knows a generation nor says that it does not."""
    return [
        f"{table.place} has no row for each model of {generation[3]}. Add one, with None behind the models for what is "
        "not known."
        for table in tables
        for generation in GENERATIONS
        if describe_generation(table, generation) == NO_ROW
    ]


def render_table(tables: list[Table]) -> str:
    """Return a Markdown table with a row for each generation and a column for each table of the sources."""
    heads = ["Generation", *(table.subject for table in tables), "group of the example inventory", "lab shape"]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for generation in GENERATIONS:
        cells = [describe_generation(table, generation) for table in tables]
        cells += [_names_of_generation(generation, with_group=True), _names_of_generation(generation, with_group=False)]
        lines.append(f"| {' | '.join([generation[3], *cells])} |")
    return "\n".join(lines)


def _names_of_generation(generation: Generation, with_group: bool) -> str:
    """Return the shapes of the lab that are of a generation, or those of them that are a group of the inventory."""
    family, low, high, dummy = generation
    names = [name for name, shape in SHAPES.items() if shape.family == family and low <= shape.model <= high]
    groups = ROOT / "inventories/example/group_vars"
    return ", ".join(f"`{name}`" for name in names if not with_group or (groups / f"{name}.yml").is_file()) or NONE


def read_page_table() -> str:
    """Return the table that the page has."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew the table of docs/generations.md")
    arguments = parser.parse_args()
    tables = find_tables()
    table, missing = render_table(tables), list_missing_rows(tables)
    print("\n".join([table, "", *(f"{one.subject}: {one.place}" for one in tables), *missing]))
    if arguments.write:
        before, dummy, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
