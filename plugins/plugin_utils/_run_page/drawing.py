# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pieces of the charts of a run: texts, lines, axes and marks as inline SVG.

Places from left to right are shares of the width, so a browser draws a chart anew for each width of its window, and
texts keep their size. Places from top to bottom are pixels. Logarithms may differ in their last digit from one machine
to another, so every number is rounded before it is written.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_unprintable
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Height of a row in pixels.
ROW = 22
#: Arm -> the CSS class of its colour and its shape; all other arms share OTHER_LOOK.
LOOKS = {
    schedule.STOCK: ("stock", "square"),
    schedule.TUNED: ("tuned", "circle"),
    schedule.DEFAULT: ("stock", "square"),
    schedule.KEPT: ("kept", "diamond"),
    schedule.RUNNING: ("tuned", "circle"),
}
OTHER_LOOK = ("other", "dot")
#: Curve that is no arm -> its CSS class and its shape.
LOOKS_OF_CURVES = {
    "decoding": ("tuned", "circle"),
    "ceiling of memory": ("stock", "square"),
    "reading prompts": ("kept", "diamond"),
}
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


def format_pixels(value: float) -> str:
    """Return a number of pixels as text with at most one decimal."""
    return format_decimals(value).removesuffix(".0")


def format_percent(share: float) -> str:
    """Return a share of the width as the percentage that SVG and CSS read."""
    return f"{format_decimals(100 * share, 2)}%"


def svg_chart(height: float, label: str, parts: Iterable[Html], kind: str = "") -> Html:
    """Return a chart of the full width; ``label`` describes the chart for people who do not see it.

    ``kind`` is "scaled" for a chart with labels of an axis at its left, and "scaled curves" for one with few points,
    which does not fill a wide window.
    """
    return element(
        "svg",
        *parts,
        class_=f"plot {kind}".rstrip(),
        width="100%",
        height=format_pixels(height),
        role="img",
        aria_label=label,
    )


def svg_text(x: float | str, y: float, content: object, kind: str = "") -> Html:
    """Return a text at a share of the width, or at pixels given as text; ``kind`` is end, middle or small."""
    return element("text", content, class_=kind or None, x=_format_place(x), y=format_pixels(y))


def svg_line(x1: float | str, y1: float, x2: float | str, y2: float, kind: str) -> Html:
    """Return a straight line between two places."""
    places = {"x1": _format_place(x1), "y1": format_pixels(y1), "x2": _format_place(x2), "y2": format_pixels(y2)}
    return element("line", class_=kind, **places)


def svg_rectangle(x: float, y: float, width: float, height: float, kind: str, title: str = "") -> Html:
    """Return a rectangle whose place and width are shares of the width of the chart."""
    place = {"x": format_percent(x), "y": format_pixels(y)}
    size = {"width": format_percent(width), "height": format_pixels(height)}
    return element("rect", *([element("title", title)] if title else []), class_=kind, **place, **size)


def svg_mark(shape: str, x: float, y: float, title: str, hollow: bool = False) -> Html:
    """Return a mark with a title."""
    path = element("path", element("title", title), class_="mark hollow" if hollow else "mark", d=SHAPES[shape])
    return element("svg", path, class_="at", x=format_percent(x), y=format_pixels(y))


def _format_place(x: float | str) -> str:
    return x if isinstance(x, str) else format_percent(x)


class Axis:
    """A linear axis: values from ``low`` to ``high`` are placed from ``begin`` to ``end``, in either direction."""

    __slots__ = ("begin", "end", "high", "low")

    def __init__(self, low: float, high: float, begin: float = 0.0, end: float = 1.0) -> None:
        self.low = low
        # If all values are equal, they lie at the begin of an axis of some length.
        self.high = high if high > low else low + max(abs(low), 1.0) / 10
        self.begin = begin
        self.end = end

    def value_to_place(self, value: float) -> float:
        """Return the place of a value; the nearest end of the axis for a value beyond it."""
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


def svg_axes(across: Axis, up: Axis, across_labels: Sequence[tuple[float, str]]) -> list[Html]:
    """Return the grid of a chart: a line for each labelled value across, and for each round value up."""
    bottom, top = max(up.begin, up.end), min(up.begin, up.end)
    parts = []
    for value, label in across_labels:
        x = across.value_to_place(value)
        parts += [svg_line(x, top, x, bottom, "axis"), svg_text(x, bottom + 16, label, "middle")]
    for value, label in up.round_values_with_labels():
        y = up.value_to_place(value)
        parts += [svg_line(0.0, y, 1.0, y, "axis"), svg_text("-8", y + 4, label, "end")]
    return parts


def svg_curve(points: Sequence[tuple[float, float]], kind: str) -> list[Html]:
    """Return the straight lines that join points; a point is a share of the width, and pixels from the top."""
    return [svg_line(*before, *after, kind) for before, after in zip(points, points[1:])]


def css_class_and_shape_of_arm(arm: str) -> tuple[str, str]:
    """Return the CSS class and the shape of an arm; the candidate of a tuning looks like kept settings."""
    if arm.startswith(schedule.CANDIDATE):
        return LOOKS[schedule.KEPT]
    return LOOKS.get(arm, OTHER_LOOK)


def css_class_and_shape_of_curve(name: str) -> tuple[str, str]:
    """Return the CSS class and the shape of a curve; curves that are no arms have the looks of stock and tuned."""
    return LOOKS_OF_CURVES.get(name) or css_class_and_shape_of_arm(name)


def svg_legend(meanings: Mapping[str, str]) -> Html:
    """Return the legend of arms with their meanings; arms that look the same share the entry of the first of them."""
    entries: dict[tuple[str, str], str] = {}
    for arm, meaning in meanings.items():
        look = css_class_and_shape_of_curve(arm)
        entries.setdefault(look, "other arms" if look == OTHER_LOOK else f"{arm}{f': {meaning}' if meaning else ''}")
    return element("p", *(_legend_entry(*look, name) for look, name in entries.items()), class_="legend")


def _legend_entry(kind: str, shape: str, name: str) -> Html:
    mark = element("path", class_="mark", d=SHAPES[shape])
    size = {"viewBox": "-7 -7 14 14", "width": 14, "height": 14}
    return element("span", element("svg", mark, class_=f"plot inline {kind}", **size, aria_hidden="true"), f" {name}")
