# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
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

#: All lengths are in pixels of a page that has room for the whole width.
WIDTH, ROW = 1200, 22
#: Arm -> the class of its colour and its shape; all other arms share one.
LOOKS = {
    schedule.STOCK: ("stock", "square"),
    schedule.TUNED: ("tuned", "circle"),
    schedule.DEFAULT: ("tuned", "circle"),
    schedule.KEPT: ("kept", "diamond"),
}
OTHER_LOOK = ("other", "dot")
#: Shape -> its path around 0 0.
SHAPES = {
    "square": "M-4 -4h8v8h-8z",
    "circle": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
    "diamond": "M0 -6l6 6l-6 6l-6 -6z",
    "dot": "M-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0z",
}


def shorten(text: object, most: int) -> str:
    """Return a text of a document as a page shows it, cut to so many letters."""
    shown = escape_unprintable(str(text))
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def number(value: float, digits: int = 1) -> str:
    """Return a number with so many decimals, without the sign of a zero."""
    text = f"{float(f'{value:.12g}'):.{digits}f}"
    return text if float(text) else text.lstrip("-")


def place(value: float) -> str:
    """Return a coordinate."""
    return number(value).removesuffix(".0")


def svg(height: float, label: str, parts: Iterable[Html]) -> Html:
    """Return a chart of the whole width; ``label`` says in words what it is, to those who do not see it."""
    return element(
        "svg",
        *parts,
        class_="plot",
        viewBox=f"0 0 {WIDTH} {place(height)}",
        width=WIDTH,
        height=place(height),
        role="img",
        aria_label=label,
    )


def text(x: float, y: float, content: str, kind: str = "") -> Html:
    """Return words at a place; ``kind`` is end, middle or small."""
    return element("text", content, class_=kind or None, x=place(x), y=place(y))


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Html:
    """Return a straight line."""
    return element("path", class_=kind, d=f"M{place(x1)} {place(y1)}L{place(x2)} {place(y2)}")


def mark(shape: str, x: float, y: float, title: str, hollow: bool = False) -> Html:
    """Return a mark with a title."""
    return element(
        "path",
        element("title", title),
        class_="mark hollow" if hollow else "mark",
        transform=f"translate({place(x)} {place(y)})",
        d=SHAPES[shape],
    )


class Axis:
    """A straight axis: values from ``low`` to ``high`` lie on pixels from ``begin`` to ``end``, in either direction."""

    __slots__ = ("begin", "end", "high", "low")

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.low = low
        # Where all values are the same, they lie at the begin of an axis that has some length.
        self.high = high if high > low else low + max(abs(low), 1.0) / 10
        self.begin = begin
        self.end = end

    def at(self, value: float) -> float:
        """Return the pixel of a value; one beyond the axis lies at its end."""
        share = (value - self.low) / (self.high - self.low)
        return self.begin + min(max(share, 0.0), 1.0) * (self.end - self.begin)

    def ticks(self, about: int = 5) -> list[tuple[float, str]]:
        """Return round values on the axis with their texts."""
        return ticks(self.low, self.high, about)


def ticks(low: float, high: float, about: int) -> list[tuple[float, str]]:
    """Return about so many values from ``low`` to ``high`` that are 1, 2 or 5 times a power of ten apart."""
    mantissa, dummy, exponent = f"{(high - low) / about:.6e}".partition("e")
    power = int(exponent)
    factor = next(one for one in (1, 2, 5, 10) if float(mantissa) <= one)
    step = factor * 10.0**power
    digits = max(0, -power - (factor == 10))
    first, last = (float(f"{edge / step:.9g}") for edge in (low, high))
    return [(at * step, number(at * step, digits)) for at in range(math.ceil(first), math.floor(last) + 1)]


def look(arm: str, alone: bool = False) -> tuple[str, str]:
    """Return the class and the shape of an arm; the only arm of a run looks like the one that others are held to."""
    return LOOKS[schedule.TUNED] if alone else LOOKS.get(arm, OTHER_LOOK)


def key(arms: Iterable[str], alone: bool = False) -> Html:
    """Return what the marks of some arms mean; arms that look the same have one entry."""
    entries: dict[tuple[str, str], str] = {}
    for arm in arms:
        shown = look(arm, alone)
        entries.setdefault(shown, "other arms" if shown == OTHER_LOOK else arm)
    return element("p", *(_draw_key_entry(*shown, name) for shown, name in entries.items()), class_="legend")


def _draw_key_entry(kind: str, shape: str, name: str) -> Html:
    drawn = element("path", class_="mark", d=SHAPES[shape])
    size = {"viewBox": "-7 -7 14 14", "width": 14, "height": 14}
    return element("span", element("svg", drawn, class_=f"plot inline {kind}", **size, aria_hidden="true"), f" {name}")
