# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renders a report as text for a terminal of 100 columns; the same report gives the same bytes on any machine."""

from __future__ import annotations

import textwrap

from ..._notation.printable import escape_unprintable
from ..verdicts.comparison import HURTS, PAYS
from .forest_plot import WIDTH as PLOT_WIDTH
from .forest_plot import PlotAxis
from .report_model import NOTE, NUMBER, PLOT, TEXT, Cell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .report_model import AnyCell, Column, Report, Section, Table

WIDTH = 100
#: The width of the labels on the first screen, and the largest width of a cell of text but the last one of a row.
LABEL_WIDTH, CELL_WIDTH = 12, 28
#: Columns before each row of a table.
INDENT = 2
#: The mark after a ratio whose interval proves a gain or a loss, by verdict word.
MARKS = {PAYS: "+", HURTS: "-"}


def render_report_text(report: Report) -> str:
    """Return a report as text; no line is longer than 100 columns but a line that is there to be copied.

    Characters that a terminal would obey are escaped, because texts of documents may have marks of direction.
    """
    return "".join(f"{escape_unprintable(line.rstrip())}\n" for line in _report_lines(report))


def _report_lines(report: Report) -> Iterator[str]:
    for alert in report.alerts:
        yield from _wrap(alert)
    yield from _wrap(f"{report.title}: {report.headline}")
    for sentence in [*report.more_headlines, *report.faults]:
        yield from _wrap(sentence)
    yield ""
    for label, value in report.facts:
        yield from _labelled_lines(label, value)
    for figure in report.figures:
        yield from _labelled_lines(figure.label, f"{figure.value}{f' ({figure.note})' if figure.note else ''}")
    yield from _labelled_lines("run", report.provenance)
    for remark in report.remarks:
        yield from _wrap(remark)
    if report.change:
        yield ""
        yield from _wrap(report.change.sentence)
        yield from (f"  {line}" for line in report.change.diff)
    for section in report.sections:
        yield ""
        yield from _section_lines(section)
    if report.steps:
        yield ""
        yield "Next:"
    for step in report.steps:
        yield from _wrap(f"- {step.sentence}")
        if step.command:
            yield f"    {step.command}"


def _labelled_lines(label: str, value: str) -> list[str]:
    beginning = f"{label:<{LABEL_WIDTH - 1}} "
    return textwrap.wrap(value, WIDTH, initial_indent=beginning, subsequent_indent=" " * LABEL_WIDTH)


def _wrap(text: str, indent: str = "") -> list[str]:
    """Return a text as lines of at most 100 columns; lines after the first have a deeper indent."""
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")


def _section_lines(section: Section) -> Iterator[str]:
    yield f"{section.title}:"
    if section.table:
        yield from _table_lines(section.table)
    if section.legend:
        yield from _wrap(section.legend)
    for remark in section.remarks:
        yield from _wrap(remark, "  ")


def _table_lines(table: Table) -> Iterator[str]:
    """Yield a table; columns that do not fit into 100 columns follow in further blocks below, each with the names."""
    positions = [
        at
        for at, column in enumerate(table.columns)
        if column.kind != NOTE and (not at or _column_has_content(table, at))
    ]
    widths = {at: _column_width(table, at) for at in positions}
    widths[0] = _first_column_width(table, widths)
    block = positions[: table.names]
    for at in positions[table.names :]:
        needed = sum(widths[shown] + 1 for shown in block) + widths[at]
        if len(block) > table.names and needed > WIDTH - INDENT:
            yield from _block_lines(table, block, widths)
            block = positions[: table.names]
        block.append(at)
    yield from _block_lines(table, block, widths)
    for at, column in enumerate(table.columns):
        if column.kind == NOTE:
            for row in table.rows:
                if _cell_text(row[at]):
                    yield from _wrap(f"{_cell_text(row[0])}: {_cell_text(row[at])}", "  ")


def _column_has_content(table: Table, at: int) -> bool:
    return table.columns[at].kind == PLOT or any(_cell_text(row[at]) for row in table.rows)


def _column_width(table: Table, at: int) -> int:
    if table.columns[at].kind == PLOT:
        return PLOT_WIDTH
    longest = max([len(table.columns[at].heading), *(len(_cell_text(row[at])) for row in table.rows)])
    return longest if table.columns[at].kind == NUMBER else min(longest, CELL_WIDTH)


def _first_column_width(table: Table, widths: dict[int, int]) -> int:
    """Return the width of the names of the rows; long names get the columns that the others leave."""
    longest = max([len(table.columns[0].heading), *(len(_cell_text(row[0])) for row in table.rows)])
    free = WIDTH - INDENT - sum(width + 1 for at, width in widths.items() if at)
    return min(longest, max(free, CELL_WIDTH))


def _block_lines(table: Table, positions: Sequence[int], widths: dict[int, int]) -> Iterator[str]:
    plots = {at: _build_axis(table, at) for at in positions if table.columns[at].kind == PLOT}
    headings = [_align(table.columns[at].heading, table.columns[at], widths[at]) for at in positions]
    for position, axis in plots.items():
        headings[positions.index(position)] = axis.scale_line()
    yield f"  {' '.join(headings)}"
    for row in table.rows:
        cells = []
        for at in positions:
            cell = row[at]
            if at in plots:
                cells.append(plots[at].interval_line(cell.interval if isinstance(cell, Cell) else None))
            else:
                cells.append(_align(_cell_text(cell), table.columns[at], widths[at]))
        line = f"  {' '.join(cells)}"
        last = _cell_text(row[positions[-1]])
        if positions[-1] and table.columns[positions[-1]].kind == TEXT and len(last) > widths[positions[-1]]:
            before = len(line) - widths[positions[-1]]
            yield from textwrap.wrap(last, WIDTH, initial_indent=line[:before], subsequent_indent=" " * before)
        else:
            yield line


def _build_axis(table: Table, at: int) -> PlotAxis:
    cells = [row[at] for row in table.rows]
    return PlotAxis([cell.interval for cell in cells if isinstance(cell, Cell) and cell.interval], table.zone)


def _cell_text(cell: AnyCell) -> str:
    if not isinstance(cell, Cell):
        return cell
    return cell.text if cell.text == cell.word else cell.text + MARKS.get(cell.word, "")


def _align(text: str, column: Column, width: int) -> str:
    if column.kind == NUMBER:
        return f"{text or '-':>{width}}"
    return f"{text:<{width}}" if len(text) <= width else f"{text[: width - 3]}..."
