# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renders a report as the elements of an HTML page: the first screen, the tables with their plots, the next steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.report_model import (
    NOTE,
    NUMBER,
    PLOT,
    Cell,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.comparison import HURTS, PAYS
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import frame
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.copying import copied_element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import drawing as draw
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.style import SIGNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.report_model import (
        AnyCell,
        Change,
        Column,
        Figure,
        Report,
        Section,
        Step,
        Table,
    )
    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.confidence_interval import Interval

#: An interval is cut, with an arrow, beyond this many times the largest estimate or the zone.
REACH = 3
#: Height of the plot of a row, and of the scale above the plots, in pixels.
PLOT_HEIGHT, SCALE_HEIGHT = 20, 18


def render_first_screen(report: Report) -> Iterator[Html]:
    """Yield what is seen first: alerts, headline, figures, facts, and the change that the run proposes."""
    for sentence in report.alerts:
        yield element("article", element("p", sentence), class_="drift")
    yield element("h1", report.title)
    for headline in (report.headline, *report.more_headlines):
        yield element("p", _capitalize(headline), class_="headline")
    for sentence in report.faults:
        yield element("article", element("p", sentence), class_="drift")
    if report.figures:
        yield element("div", *map(_render_figure, report.figures), class_="tiles")
    pairs = [element("div", element("dt", label), element("dd", value)) for label, value in report.facts]
    yield element("dl", *pairs, class_="facts")
    if report.change:
        yield _render_change(report.change)
    yield element("p", report.provenance, class_="faint")
    for sentence in report.remarks:
        yield element("p", sentence)


def render_steps(steps: Sequence[Step]) -> Iterator[Html]:
    """Yield the section with the next steps; nothing without steps."""
    if steps:
        items = [
            element("li", step.sentence, *([copied_element("pre", step.command)] if step.command else []))
            for step in steps
        ]
        yield element("section", element("h2", "Next"), element("ul", *items))


def render_section(section: Section, charts: Sequence[Html] = ()) -> Html:
    """Return the section with its charts above its table."""
    parts = [element("h2", section.title)]
    parts += [element("p", _capitalize(section.legend), class_="faint")] if section.legend else []
    parts += charts
    parts += [_render_table(section.table, section.title)] if section.table else []
    parts += [element("p", remark) for remark in section.remarks]
    # The key of a section of a compared run has the label of the run, which is no identifier.
    return element("section", *parts, id=section.key if section.key.isidentifier() else None)


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _render_figure(figure: Figure) -> Html:
    parts = [element("b", figure.value), element("span", figure.label, class_="faint")]
    parts += [element("small", figure.note)] if figure.note else []
    return element("div", *parts)


def _render_change(change: Change) -> Html:
    parts = [element("p", change.sentence)]
    if change.diff:
        lines = [element("span", line, class_={"-": "cut", "+": "added"}.get(line[:1])) for line in change.diff]
        # Each line is a block of its own, so that a selection of the whole is copied with its line breaks.
        parts.append(copied_element("pre", *lines, class_="diff"))
    return element("article", *parts, class_="change")


def _render_table(table: Table, title: str) -> Html:
    """Return a table in a box in which it scrolls; a column of remarks is the last."""
    used = [at for at in range(len(table.columns)) if not at or _column_has_content(table, at)]
    axes = {at: _build_log_axis(table, at) for at in used if table.columns[at].kind == PLOT}
    head = [_heading_cell(table.columns[at], axes.get(at), at == 0) for at in used]
    body = []
    for row in table.rows:
        cells = [element("th", _cell_content(row[used[0]]), scope="row")]
        for at in used[1:]:
            column = table.columns[at]
            content = _draw_interval(row[at], axes[at], table.zone) if at in axes else _cell_content(row[at])
            cells.append(element("td", content, class_=_column_class(column)))
        body.append(element("tr", *cells))
    inner = element("table", element("thead", element("tr", *head)), element("tbody", *body))
    return frame.scrolling_box(inner, title)


def _column_has_content(table: Table, at: int) -> bool:
    cells = [row[at] for row in table.rows]
    if table.columns[at].kind == PLOT:
        return any(isinstance(cell, Cell) and cell.interval for cell in cells)
    return any(cell.text if isinstance(cell, Cell) else cell for cell in cells)


def _column_class(column: Column) -> str | None:
    return {NUMBER: "number", PLOT: "interval", NOTE: "note"}.get(column.kind)


def _heading_cell(column: Column, axis: draw.Axis | None, names_rows: bool) -> Html:
    content = _draw_scale(axis) if axis else column.heading
    return element("th", content, scope="col", class_=None if names_rows else _column_class(column))


def _cell_content(cell: AnyCell) -> Html | str:
    if not isinstance(cell, Cell):
        return cell
    kind, sign = SIGNS.get(cell.word, SIGNS[""])
    # A ratio that proves nothing needs no sign of its own.
    has_sign = cell.text == cell.word or cell.word in (PAYS, HURTS)
    middle, space, limits = cell.text.partition(" (") if cell.interval else (cell.text, "", "")
    # Where there is no room for the whole ratio, its limits go into a line of their own.
    parts: list[Html | str] = [element("span", f"{sign if has_sign else ''} {middle}".strip(), class_="unbroken")]
    parts += [" ", element("span", f"({limits}", class_="unbroken")] if space else []
    return element("span", *parts, class_=kind if has_sign else None)


def _build_log_axis(table: Table, at: int) -> draw.Axis:
    """Return the logarithmic axis of a column. It cuts very wide intervals, so that the others stay readable."""
    cells = [row[at] for row in table.rows]
    intervals = [cell.interval for cell in cells if isinstance(cell, Cell) and cell.interval]
    reach = REACH * max([table.zone, *(abs(interval.mean) for interval in intervals)])
    low = min([-table.zone, *(interval.low for interval in intervals)])
    high = max([table.zone, *(interval.high for interval in intervals)])
    return draw.Axis(max(low, -reach), min(high, reach))


def _draw_scale(axis: draw.Axis) -> Html:
    parts = [draw.svg_line(0.0, SCALE_HEIGHT - 1, 1.0, SCALE_HEIGHT - 1, "base")]
    for value, label in draw.round_values_with_labels(math.exp(axis.low), math.exp(axis.high), 4):
        x = axis.value_to_place(math.log(value))
        parts += [
            draw.svg_line(x, SCALE_HEIGHT - 5, x, SCALE_HEIGHT - 1, "base"),
            draw.svg_text(x, SCALE_HEIGHT - 7, label, "middle"),
        ]
    return draw.svg_chart(SCALE_HEIGHT, "Scale of the ratios", parts)


def _draw_interval(cell: AnyCell, axis: draw.Axis, zone: float) -> Html:
    """Return the plot of a row: the zone of no effect, the ratio 1, and the interval with its estimate."""
    begin, end = axis.value_to_place(-zone), axis.value_to_place(zone)
    middle = PLOT_HEIGHT / 2
    parts = [
        draw.svg_rectangle(begin, 0, end - begin, PLOT_HEIGHT, "zone"),
        draw.svg_line(axis.value_to_place(0.0), 0, axis.value_to_place(0.0), PLOT_HEIGHT, "one"),
    ]
    interval = cell.interval if isinstance(cell, Cell) else None
    label = "no interval"
    if isinstance(cell, Cell) and interval:
        label = cell.text
        parts += _interval_marks(interval, axis, middle, cell)
    kind = SIGNS.get(cell.word, SIGNS[""])[0] if isinstance(cell, Cell) else SIGNS[""][0]
    return element("div", draw.svg_chart(PLOT_HEIGHT, label, parts), class_=kind)


def _interval_marks(interval: Interval, axis: draw.Axis, middle: float, cell: Cell) -> list[Html]:
    low, high, mean = (axis.value_to_place(value) for value in (interval.low, interval.high, interval.mean))
    return [
        draw.svg_line(low, middle, high, middle, "range"),
        _draw_interval_end(low, middle, interval.low < axis.low, "left"),
        _draw_interval_end(high, middle, interval.high > axis.high, "right"),
        draw.svg_mark("circle" if cell.word else "diamond", mean, middle, cell.text),
    ]


def _draw_interval_end(x: float, y: float, is_cut: bool, side: str) -> Html:
    """Return the end of an interval: a bar, or an arrow where the interval continues beyond the axis."""
    arrow = "M8 -5L0 0L8 5" if side == "left" else "M-8 -5L0 0L-8 5"
    path = element("path", class_="range", d=arrow if is_cut else "M0 -5V5")
    return element("svg", path, class_="at", x=draw.format_percent(x), y=draw.format_pixels(y))
