# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a comparison for a terminal of 100 columns: what differs, then a row for each figure."""

from __future__ import annotations

from ..reports.report_parts import WIDTH, join_report_lines, wrap_to_report_width
from .run_comparison import CLEAR_CHANGE, LEAST_ROUNDS, NOT_PAIRED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .run_comparison import ComparedFigure, RunComparison

#: The most rows that the table of differences shows, and the width of the names in both tables.
MOST_DIFFERENCES, NAME_WIDTH = 40, 26


def render_comparison_report(comparison: RunComparison) -> str:
    """Return the report of compared runs."""
    return join_report_lines(_comparison_lines(comparison))


def difference_rows(comparison: RunComparison) -> list[list[str]]:
    """Return the table of differences: a heading with the label of each run, then a row for each field."""
    rows = [["differs", *comparison.labels]]
    return rows + [[one.name, *one.values] for one in comparison.differences]


def figure_rows(figures: Sequence[ComparedFigure]) -> list[list[str]]:
    """Return the table of the figures of one run or arm: a heading, then a row for each figure."""
    heading = ["figure", "before", "now", "ratio", "interval", "verdict"]
    return [heading, *(_figure_cells(figure) for figure in figures)]


def figures_by_subject(comparison: RunComparison) -> dict[str, list[ComparedFigure]]:
    """Return the figures by the run or arm that they are of."""
    by_subject: dict[str, list[ComparedFigure]] = {}
    for figure in comparison.figures:
        by_subject.setdefault(figure.subject, []).append(figure)
    return by_subject


def _figure_cells(figure: ComparedFigure) -> list[str]:
    values = ["-" if value is None else f"{value:.4g} {figure.unit}" for value in (figure.old, figure.new)]
    return [figure.name, *values, f"{figure.ratio:.3f}", figure.interval_text(), figure.word]


def _comparison_lines(comparison: RunComparison) -> Iterator[str]:
    yield from wrap_to_report_width(comparison.headline())
    yield ""
    for label, document in zip(comparison.labels, comparison.documents):
        yield from wrap_to_report_width(f"{label}: run {document['id']} of {document['started']}")
    if len(comparison.documents) > 1:
        yield ""
        yield from _difference_lines(comparison)
    if not comparison.figures:
        yield ""
        yield from wrap_to_report_width(
            "No figure is in two runs or in two arms of one run, in rounds that count. Name another run, or measure "
            "again."
        )
        return
    for subject, figures in figures_by_subject(comparison).items():
        yield ""
        yield from wrap_to_report_width(f"{subject}:")
        yield from _table_lines(figure_rows(figures))
    yield ""
    yield from wrap_to_report_width(
        "ratio: above 1 the later run or the arm is better, also for times. before, now: medians over rounds."
    )
    if any(not figure.is_paired for figure in comparison.figures):
        yield from wrap_to_report_width(
            f"{NOT_PAIRED}: the runs were not measured in the same rounds, so that other starts and other times are in "
            f"the ratio too. It is clear where at least {LEAST_ROUNDS} rounds of each run lie wholly apart, by "
            f"{CLEAR_CHANGE:.0%} or more. To know it better, measure both as arms of one run: epyc_ablation_arms."
        )


def _difference_lines(comparison: RunComparison) -> Iterator[str]:
    rows = difference_rows(comparison)
    if len(rows) == 1:
        yield "Nothing that is known differs between these runs."
        return
    yield from _table_lines(rows[: MOST_DIFFERENCES + 1])
    if len(rows) > MOST_DIFFERENCES + 1:
        yield f"and {len(rows) - MOST_DIFFERENCES - 1} more"


def _table_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows with columns of equal width; cells are cut where a line would not fit into the report."""
    columns = len(rows[0])
    widths = [max(len(row[at]) for row in rows) for at in range(columns)]
    if sum(widths) + 2 * (columns - 1) > WIDTH:
        widths[0] = min(widths[0], NAME_WIDTH)
        share = (WIDTH - widths[0]) // (columns - 1) - 2
        widths[1:] = [min(width, share) for width in widths[1:]]
    for row in rows:
        yield "  ".join(f"{_cut_text(cell, width):<{width}}" for cell, width in zip(row, widths))


def _cut_text(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(width - 3, 0)]}..."
