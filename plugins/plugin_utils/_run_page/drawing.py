# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pieces of the charts of a run: texts, numbers, axes and marks as inline SVG.

Logarithms may differ in their last digit from one machine to another, so every number is rounded before it is written.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_unprintable
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Width of a chart and height of a row, in pixels of a page with room for the full width.
WIDTH, ROW = 1200, 22
#: Arm -> the CSS class of its colour and its shape; all other arms share OTHER_LOOK.
LOOKS = {
    schedule.STOCK: ("stock", "square"),
    schedule.TUNED: ("tuned", "circle"),
    schedule.DEFAULT: ("tuned", "circle"),
    schedule.KEPT: ("kept", "diamond"),
}
OTHER_LOOK = ("other", "dot")
#: Shape -> its SVG path around the origin.
SHAPES = {
    "square": "M-4 -4h8v8h-8z",
    "circle": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
    "diamond": "M0 -6l6 6l-6 6l-6 -6z",
    "dot": "M-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0z",
}


def escape_and_shorten_text(text: object, max_letters: int) -> str:
    """Return a text with escapes for unprintable characters, cut to ``max_letters`` letters."""
    shown = escape_unprintable(str(text))
    return shown if len(shown) <= max_letters else f"{shown[: max_letters - 3]}..."


def format_decimals(value: float, digits: int = 1) -> str:
    """Return a number with ``digits`` decimals; zero has no sign."""
    text = f"{float(f'{value:.12g}'):.{digits}f}"
    return text if float(text) else text.lstrip("-")


def format_coordinate(value: float) -> str:
    """Return a coordinate as text with at most one decimal."""
    return format_decimals(value).removesuffix(".0")


def svg_chart(height: float, label: str, parts: Iterable[Html]) -> Html:
    """Return a chart of the full width; ``label`` describes the chart for people who do not see it."""
    return element(
        "svg",
        *parts,
        class_="plot",
        viewBox=f"0 0 {WIDTH} {format_coordinate(height)}",
        width=WIDTH,
        height=format_coordinate(height),
        role="img",
        aria_label=label,
    )


def svg_text(x: float, y: float, content: str, kind: str = "") -> Html:
    """Return a text at a place; ``kind`` is end, middle or small."""
    return element("text", content, class_=kind or None, x=format_coordinate(x), y=format_coordinate(y))


def svg_line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Html:
    """Return a straight line."""
    return element(
        "path",
        class_=kind,
        d=f"M{format_coordinate(x1)} {format_coordinate(y1)}L{format_coordinate(x2)} {format_coordinate(y2)}",
    )


def svg_mark(shape: str, x: float, y: float, title: str, hollow: bool = False) -> Html:
    """Return a mark with a title."""
    return element(
        "path",
        element("title", title),
        class_="mark hollow" if hollow else "mark",
        transform=f"translate({format_coordinate(x)} {format_coordinate(y)})",
        d=SHAPES[shape],
    )


class Axis:
    """A linear axis: values from ``low`` to ``high`` map to pixels from ``begin`` to ``end``, in either direction."""

    __slots__ = ("begin", "end", "high", "low")

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.low = low
        # If all values are equal, they lie at the begin of an axis of some length.
        self.high = high if high > low else low + max(abs(low), 1.0) / 10
        self.begin = begin
        self.end = end

    def value_to_pixel(self, value: float) -> float:
        """Return the pixel of a value; the nearest end of the axis for a value beyond it."""
        share = (value - self.low) / (self.high - self.low)
        return self.begin + min(max(share, 0.0), 1.0) * (self.end - self.begin)

    def round_values_with_labels(self, tick_count: int = 5) -> list[tuple[float, str]]:
        """Return values for the ticks of the axis, each with its label."""
        return round_values_with_labels(self.low, self.high, tick_count)


def round_values_with_labels(low: float, high: float, tick_count: int) -> list[tuple[float, str]]:
    """Return about ``tick_count`` values from ``low`` to ``high``, in steps of 1, 2 or 5 times a power of ten."""
    mantissa, dummy, exponent = f"{(high - low) / tick_count:.6e}".partition("e")
    power = int(exponent)
    factor = next(step_factor for step_factor in (1, 2, 5, 10) if float(mantissa) <= step_factor)
    step = factor * 10.0**power
    digits = max(0, -power - (factor == 10))
    first, last = (float(f"{edge / step:.9g}") for edge in (low, high))
    return [(at * step, format_decimals(at * step, digits)) for at in range(math.ceil(first), math.floor(last) + 1)]


def css_class_and_shape_of_arm(arm: str, is_only_arm: bool = False) -> tuple[str, str]:
    """Return the CSS class and the shape of an arm; the only arm of a run looks like the anchor."""
    return LOOKS[schedule.TUNED] if is_only_arm else LOOKS.get(arm, OTHER_LOOK)


def svg_legend(arms: Iterable[str], is_only_arm: bool = False) -> Html:
    """Return the legend of some arms; arms that look the same share one entry."""
    entries: dict[tuple[str, str], str] = {}
    for arm in arms:
        look = css_class_and_shape_of_arm(arm, is_only_arm)
        entries.setdefault(look, "other arms" if look == OTHER_LOOK else arm)
    return element("p", *(_legend_entry(*look, name) for look, name in entries.items()), class_="legend")


def _legend_entry(kind: str, shape: str, name: str) -> Html:
    mark = element("path", class_="mark", d=SHAPES[shape])
    size = {"viewBox": "-7 -7 14 14", "width": 14, "height": 14}
    return element("span", element("svg", mark, class_=f"plot inline {kind}", **size, aria_hidden="true"), f" {name}")
