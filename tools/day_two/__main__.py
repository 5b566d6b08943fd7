# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the procedures of docs/day-two*.md on real parts, and write their commands and outputs into these pages.

    python -m tools.day_two [--only NAME ...]    run procedures, and write their parts of the page
    python -m tools.day_two --again              write the parts from the outputs of the last run of each procedure

A procedure of a stage may need what those above it did: `--only` runs the others of its stage above it, too. The
outputs are kept in build/day-two. Needs root, and the folder lab in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tools.day_two.recording import (
    Procedure,
    RecordingError,
    find_page,
    read_procedures,
    render_procedure,
    replace_generated_part,
    run_procedure,
)
from tools.day_two.stages import STAGES
from vepyc import VepycError

ROOT = Path(__file__).resolve().parents[2]
PROCEDURES, OUTPUTS = Path(__file__).with_name("procedures.yml"), ROOT / "build/day-two"


def select_procedures(procedures: dict[str, Procedure], names: list[str]) -> list[Procedure]:
    """Return the named procedures and those above them on the same stage; all without a name."""
    order = list(procedures)
    return [
        procedure
        for procedure in procedures.values()
        if not names
        or any(
            procedures[name].stage == procedure.stage and order.index(procedure.name) <= order.index(name)
            for name in names
        )
    ]


def run_on_stages(procedures: list[Procedure]) -> None:
    """Run procedures, those of a stage one after the other, and keep their outputs."""
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    for stage in dict.fromkeys(procedure.stage for procedure in procedures):
        print(f"the stage {stage} is set up", flush=True)
        with STAGES[stage]() as hosts:
            for procedure in procedures:
                if procedure.stage == stage:
                    print(procedure.name, flush=True)
                    outputs = run_procedure(procedure, hosts)
                    (OUTPUTS / f"{procedure.name}.json").write_text(json.dumps(outputs), encoding="utf-8")


def write_parts(procedures: list[Procedure]) -> None:
    """Write the part of each procedure into its page, from the outputs of its last run."""
    for procedure in procedures:
        outputs = json.loads((OUTPUTS / f"{procedure.name}.json").read_text(encoding="utf-8"))
        page = find_page(ROOT / "docs", procedure.name)
        text = replace_generated_part(
            page.read_text(encoding="utf-8"), procedure.name, render_procedure(procedure, outputs)
        )
        page.write_text(text, encoding="utf-8")


def main() -> int:
    procedures = read_procedures(PROCEDURES)
    parser = argparse.ArgumentParser(prog="python -m tools.day_two", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=procedures, default=[], metavar="NAME")
    parser.add_argument("--again", action="store_true", help="run nothing")
    options = parser.parse_args()
    selected = select_procedures(procedures, options.only)
    try:
        if not options.again:
            run_on_stages(selected)
        write_parts(selected)
    except (RecordingError, VepycError) as error:
        print(f"day-two: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
