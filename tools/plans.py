#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print what is chosen on seventeen machines for six models when nobody chooses, and which cells are not as expected.

With --write, renew the rows that a test expects, and the tables of docs/plans-by-machine.md. Run as `make plans`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ansible_collections.sovereign.epyc.tests.unit.fakes import machine_plans

PAGE = Path(__file__).parents[1] / "docs/plans-by-machine.md"
BEGIN, END = "<!-- `make plans ARGS=--write` writes from here -->", "<!-- to here -->"
HEADINGS = {
    "instances": "Instances",
    "threads": "Threads, for prompts",
    "context": "Slots x context",
    "memory": "Memory, policy",
    "engine": "Engine",
    "speed": "Predicted t/s",
    "nps": "NPS",
}


def render_tables(rows: dict[str, dict[str, machine_plans.Row]]) -> str:
    """Return a Markdown table for each machine."""
    parts = []
    for machine, models in rows.items():
        parts += [
            f"### {machine}",
            "",
            f"| Model | {' | '.join(HEADINGS.values())} |",
            f"|{' --- |' * (len(HEADINGS) + 1)}",
        ]
        parts += [f"| {model} | {' | '.join(row_cells(row))} |" for model, row in models.items()]
        parts.append("")
    return "\n".join(parts)


def row_cells(row: machine_plans.Row) -> list[str]:
    """Return the cells of a row, in the order of HEADINGS."""
    shown = dict(row)
    if row["threads"]:
        shown["threads"] = f"{row['threads']}, {row['batch_threads']}"
        shown["memory"] = f"{row['memory']}, {row['policy']}"
    return [shown[column] for column in HEADINGS]


def write_rows(rows: dict[str, dict[str, machine_plans.Row]]) -> None:
    """Write the rows that the test expects, and the tables of the page."""
    machine_plans.DATA.write_text(f"{json.dumps(rows, indent=1, sort_keys=True)}\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    before, dummy, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{render_tables(rows)}\n{END}{after}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew the expected rows and the page")
    arguments = parser.parse_args()
    rows = machine_plans.compute_rows()
    print(render_tables(rows))
    changes = list(machine_plans.list_changes(machine_plans.load_rows(), rows))
    print("\n".join(changes) or "All cells are as expected.")
    if arguments.write:
        write_rows(rows)
        return 0
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
