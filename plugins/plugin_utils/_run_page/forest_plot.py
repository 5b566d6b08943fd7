# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The forest plot: a line with the interval and the estimate of each setting, around 1 and the zone of no effect."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import count_with_noun
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import drawing as draw
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.style import SIGNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Optional

    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.confidence_interval import Interval
    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.comparison import Comparison
    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import ShownRun

    #: The name of a setting, its verdict, the comparison behind the verdict, and the noun of the compared values.
    Row = tuple[str, str, Optional[Comparison], str]

#: Columns in pixels: of the verdict, of the begin and the end of the plot, and of the ratio.
VERDICT, LEFT, RIGHT, RATIO = 240, 350, 930, 950
HEAD, LETTERS = 26, 34
#: An interval is cut, with an arrow, beyond this many times the largest estimate or the zone.
REACH = 3


def build_sorted_forest_rows(judgement: Judgement, stock_class: str) -> list[Row]:
    """Return the rows of settings, the best first and those without an interval last, then stock and the twins.

    ``stock_class`` is the class of the arm stock, which decides the noun of its values.
    """
    names = {unit: rule.name for unit, rule in schedule.REPETITIONS.items()}
    rows: list[Row] = [
        (verdict.knob, verdict.word, verdict.primary, names.get(verdict.setting_class, ""))
        for verdict in judgement.verdicts_by_gain()
    ]
    if judgement.stock.count:
        rows.append(("tuned over stock", "", judgement.stock, names[stock_class]))
    return rows + [(f"tuned over itself, {unit}", "", twin, names[unit]) for unit, twin in judgement.twins.items()]


def render_forest_section(run: ShownRun) -> Iterator[Html]:
    """Yield the section with the forest plot; nothing for a run without comparisons."""
    classes = {arm["name"]: arm["class"] for arm in run.data["plan"]["arms"]}
    rows = build_sorted_forest_rows(run.judgement, classes[schedule.STOCK]) if run.judgement else []
    if not any(row[2] and row[2].interval for row in rows):
        return
    share = run.data["plan"]["zone"]
    yield element(
        "section",
        element("h2", "What each setting does"),
        element(
            "p",
            "Tokens per second with the setting over without it, from rounds that count. A line is the interval, and "
            "its mark the estimate; an interval that goes on beyond the plot ends in an arrow. The band is a change of "
            f"less than {draw.format_decimals(100 * share)} %.",
            class_="faint",
        ),
        _draw_plot(rows, math.log1p(share)),
    )


def _draw_plot(rows: Sequence[Row], zone: float) -> Html:
    axis = _build_log_axis([row[2].interval for row in rows if row[2] and row[2].interval], zone)
    bottom = HEAD + len(rows) * draw.ROW
    begin, end = axis.value_to_pixel(-zone), axis.value_to_pixel(zone)
    parts = [
        element(
            "rect",
            class_="zone",
            x=draw.format_coordinate(begin),
            y=HEAD,
            width=draw.format_coordinate(end - begin),
            height=bottom - HEAD,
        ),
        draw.svg_line(axis.value_to_pixel(0.0), HEAD, axis.value_to_pixel(0.0), bottom, "one"),
    ]
    for value, label in draw.round_values_with_labels(math.exp(axis.low), math.exp(axis.high), 6):
        x = axis.value_to_pixel(math.log(value))
        parts += [draw.svg_line(x, HEAD - 4, x, HEAD, "base"), draw.svg_text(x, HEAD - 8, label, "middle")]
    parts.append(draw.svg_line(LEFT, HEAD, RIGHT, HEAD, "base"))
    for at, row in enumerate(rows):
        parts.append(_draw_row(row, axis, HEAD + at * draw.ROW + draw.ROW / 2))
    return draw.svg_chart(bottom + 6, "Each setting with its verdict and interval, from the best down", parts)


def _build_log_axis(intervals: Sequence[Interval], zone: float) -> draw.Axis:
    """Return the logarithmic axis. It cuts very wide intervals, so that the other intervals stay readable."""
    reach = REACH * max([zone, *(abs(interval.mean) for interval in intervals)])
    low = min([-zone, *(interval.low for interval in intervals)])
    high = max([zone, *(interval.high for interval in intervals)])
    return draw.Axis(max(low, -reach), min(high, reach), LEFT, RIGHT)


def _draw_row(row: Row, axis: draw.Axis, y: float) -> Html:
    name, word, comparison, unit = row
    kind, sign = SIGNS[word]
    ratio, title = "no interval", ""
    parts = [
        draw.svg_text(0, y + 4, draw.escape_and_shorten_text(name, LETTERS)),
        draw.svg_text(VERDICT, y + 4, f"{sign} {word}".strip()),
    ]
    if comparison:
        ratio = f"{comparison.format_ratio()}, {count_with_noun(comparison.count, unit)}"
        title = f"{name}: {word} {comparison.format_ratio()}"
    interval = comparison.interval if comparison else None
    if interval:
        low, high, middle = (axis.value_to_pixel(value) for value in (interval.low, interval.high, interval.mean))
        parts.append(draw.svg_line(low, y, high, y, "range"))
        parts.append(_draw_interval_end(low, y, 1, interval.low < axis.low))
        parts.append(_draw_interval_end(high, y, -1, interval.high > axis.high))
        parts.append(draw.svg_mark("diamond" if not word else "circle", middle, y, title))
    parts.append(draw.svg_text(RATIO, y + 4, ratio))
    return element("g", *parts, class_=kind)


def _draw_interval_end(x: float, y: float, inward: int, cut: bool) -> Html:
    """Return the end of an interval: a bar, or an arrow where the interval continues beyond the axis."""
    if cut:
        corners = ((x + inward * 8, y - 5), (x, y), (x + inward * 8, y + 5))
        points = (f"{draw.format_coordinate(across)} {draw.format_coordinate(down)}" for across, down in corners)
        return element("path", class_="range", d=f"M{'L'.join(points)}")
    return draw.svg_line(x, y - 5, x, y + 5, "range")
