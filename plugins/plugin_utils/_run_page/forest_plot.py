# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The forest plot: for each setting a line with its interval and estimate, around 1 and the zone of nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import format_count
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import drawing as draw
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.style import SIGNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Optional

    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.confidence_interval import Interval
    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.comparison import Comparison
    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import Run

    #: A name, the word of its verdict, the comparison behind it, and what its values are.
    Row = tuple[str, str, Optional[Comparison], str]

#: Where the words of a verdict begin, the plot begins and ends, and the ratio begins.
VERDICT, LEFT, RIGHT, RATIO = 240, 350, 930, 950
HEAD, LETTERS = 26, 34
#: An interval farther from 1 than this many times the largest estimate or the zone is cut, and has an arrow.
REACH = 3


def rows(judgement: Judgement, dearest: str) -> list[Row]:
    """Return the settings from the best down, then what has no interval, then stock and the anchor's twins.

    ``dearest`` is the class that stock belongs to.
    """
    names = {unit: rule.name for unit, rule in schedule.UNITS.items()}
    found: list[Row] = [(one.knob, one.word, one.primary, names.get(one.unit, "")) for one in judgement.verdicts]
    found.sort(key=lambda row: (-row[2].found.mean if row[2] and row[2].found else math.inf, row[0]))
    if judgement.stock.count:
        found.append(("tuned over stock", "", judgement.stock, names[dearest]))
    return found + [(f"tuned over itself, {unit}", "", twin, names[unit]) for unit, twin in judgement.twins.items()]


def plot(run: Run) -> Iterator[Html]:
    """Yield the part of the page; nothing where nothing is compared."""
    classes = {arm["name"]: arm["class"] for arm in run.data["plan"]["arms"]}
    shown = rows(run.judgement, classes[schedule.STOCK]) if run.judgement else []
    if not any(row[2] and row[2].found for row in shown):
        return
    share = run.data["plan"]["zone"]
    yield element(
        "section",
        element("h2", "What each setting does"),
        element(
            "p",
            "Tokens per second with the setting over without it, from rounds that count. A line is the interval, and "
            "its mark the estimate; one that goes on beyond the plot ends in an arrow. The band is a change of less "
            f"than {draw.number(100 * share)} %.",
            class_="faint",
        ),
        _drawn(shown, math.log1p(share)),
    )


def _drawn(shown: Sequence[Row], zone: float) -> Html:
    axis = _axis([row[2].found for row in shown if row[2] and row[2].found], zone)
    bottom = HEAD + len(shown) * draw.ROW
    begin, end = axis.at(-zone), axis.at(zone)
    parts = [
        element(
            "rect", class_="zone", x=draw.place(begin), y=HEAD, width=draw.place(end - begin), height=bottom - HEAD
        ),
        draw.line(axis.at(0.0), HEAD, axis.at(0.0), bottom, "one"),
    ]
    for value, label in draw.ticks(math.exp(axis.low), math.exp(axis.high), 6):
        x = axis.at(math.log(value))
        parts += [draw.line(x, HEAD - 4, x, HEAD, "base"), draw.text(x, HEAD - 8, label, "middle")]
    parts.append(draw.line(LEFT, HEAD, RIGHT, HEAD, "base"))
    for at, row in enumerate(shown):
        parts.append(_row(row, axis, HEAD + at * draw.ROW + draw.ROW / 2))
    return draw.svg(bottom + 6, "Each setting with its verdict and interval, from the best down", parts)


def _axis(found: Sequence[Interval], zone: float) -> draw.Axis:
    """Return the axis of logarithms, which an interval of few values does not stretch beyond use."""
    reach = REACH * max([zone, *(abs(one.mean) for one in found)])
    low = min([-zone, *(one.low for one in found)])
    high = max([zone, *(one.high for one in found)])
    return draw.Axis(max(low, -reach), min(high, reach), LEFT, RIGHT)


def _row(row: Row, axis: draw.Axis, y: float) -> Html:
    name, word, one, unit = row
    kind, sign = SIGNS[word]
    ratio, title = "no interval", ""
    parts = [draw.text(0, y + 4, draw.shorten(name, LETTERS)), draw.text(VERDICT, y + 4, f"{sign} {word}".strip())]
    if one:
        ratio, title = f"{one.text()}, {format_count(one.count, unit)}", f"{name}: {word} {one.text()}"
    if one and one.found:
        low, high, middle = (axis.at(value) for value in (one.found.low, one.found.high, one.found.mean))
        parts.append(draw.line(low, y, high, y, "range"))
        parts.append(_end(low, y, 1, one.found.low < axis.low))
        parts.append(_end(high, y, -1, one.found.high > axis.high))
        parts.append(draw.mark("diamond" if not word else "circle", middle, y, title))
    parts.append(draw.text(RATIO, y + 4, ratio))
    return element("g", *parts, class_=kind)


def _end(x: float, y: float, inward: int, cut: bool) -> Html:
    """Return the end of an interval: a stop, or an arrow where the interval goes on beyond the axis."""
    if cut:
        tip, back = draw.place(x), draw.place(x + inward * 8)
        way = f"M{back} {draw.place(y - 5)}L{tip} {draw.place(y)}L{back} {draw.place(y + 5)}"
        return element("path", class_="range", d=way)
    return draw.line(x, y - 5, x, y + 5, "range")
