# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The history of a host as a table for people."""

from __future__ import annotations

from ..._notation.printable import escape_unprintable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .run import Run

HEADINGS = ("began (UTC)", "took", "who", "what", "version", "settings changed", "end")
EMPTY = "No run is noted on this host."


def render_table(runs: Sequence[Run]) -> list[str]:
    """Return a line of headings and a line for each run, with aligned columns and without control codes.

    Without runs, return one line that says so.
    """
    if not runs:
        return [EMPTY]
    rows = [HEADINGS, *(tuple(map(escape_unprintable, _format_cells(run))) for run in runs)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def _format_cells(run: Run) -> tuple[str, ...]:
    seconds = run.duration_seconds()
    return (
        run.began.replace("T", " ").rstrip("Z"),
        "-" if seconds is None else f"{seconds:.0f} s",
        _format_starter_cell(run),
        " ".join([run.playbook, *_option_words("--tags", run.tags), *_option_words("--skip-tags", run.skip_tags)]),
        run.version,
        ", ".join(f"{layer} {number}" for layer, number in run.changed.items()) or "none",
        run.outcome or _unfinished_cell(run),
    )


def _format_starter_cell(run: Run) -> str:
    """Return who began a run, and the user of the host if that is another one."""
    return (
        f"{run.starter_name()} as {run.host_user}"
        if run.controller and run.host_user != run.user
        else run.starter_name()
    )


def _option_words(name: str, values: Sequence[str]) -> list[str]:
    return [name, ",".join(values)] if values else []


def _unfinished_cell(run: Run) -> str:
    """Return the cell of an unfinished run: the layers that are left, or that later runs have done them."""
    return f"did not end, left {', '.join(run.left)}" if run.left else "did not end, done since"
