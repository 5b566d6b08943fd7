# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether data from a JSON file has the shape that a run document must have, and the first place where it has not.

A shape is a Leaf, a list with the shape of each item, or a table of shapes by key. A table must have all its keys and
no others; the key ANY in it stands for any others. ``Maybe`` is a shape or null.
"""

from __future__ import annotations

import math

from ..._io.store import ANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Beyond this no count and no duration of a run can be; it keeps sums and quotients finite.
LARGEST = 1e12
#: A duration below this, in milliseconds, cannot have been measured.
SHORTEST = 1e-6
#: How many characters of a wrong value a sentence shows.
SHOWN = 40


class Leaf:
    """A single value: in words what it should be, and whether one is."""

    __slots__ = ("fits", "words")

    def __init__(self, words: str, fits: Callable[[Any], bool]) -> None:
        self.words = words
        self.fits = fits


class Maybe:
    """A shape, or null where it could not be measured."""

    __slots__ = ("shape",)

    def __init__(self, shape: Any) -> None:
        self.shape = shape


def _is_number(value: Any) -> bool:
    """A bool is an int to Python, and JSON files of others may hold NaN."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def _is_text(value: Any) -> bool:
    """Control characters could write anything to the terminal of who reads the report; lone surrogates are no text."""
    if not isinstance(value, str):
        return False
    return all(32 <= code < 127 or (code >= 160 and not 0xD800 <= code < 0xE000) for code in map(ord, value))


def one_of(*words: str) -> Leaf:
    """Return the shape of one of some words."""
    return Leaf(f"one of {', '.join(words)}", lambda value: value in words)


WHOLE = Leaf("a whole number from 0 up", _is_whole)
SEVERAL = Leaf("a whole number from 2 up", lambda value: _is_whole(value) and value > 1)
COUNT = Leaf("a whole number from 1 up", lambda value: _is_whole(value) and value > 0)
AMOUNT = Leaf("a number from 0 up", lambda value: _is_number(value) and value >= 0)
DURATION = Leaf("milliseconds above 0", lambda value: _is_number(value) and value >= SHORTEST)
SHARE = Leaf("a number between 0 and 1", lambda value: _is_number(value) and 0 < value < 1)
NUMBER = Leaf("a number", _is_number)
FLAG = Leaf("true or false", lambda value: isinstance(value, bool))
SCALAR = Leaf("a number or a text in one line", lambda value: _is_number(value) or _is_text(value))
TEXT = Leaf("a text in one line", _is_text)
NAME = Leaf(
    "a name of at most 60 plain characters",
    lambda value: _is_text(value) and value.isascii() and value == value.strip() and 0 < len(value) <= 60,
)
DATA = Leaf("any data", lambda value: True)


def misfit(data: Any, shape: Any, where: str = "") -> str:
    """Return a sentence, without a full stop, on the first place that is not of its shape; an empty text for none."""
    place = where or "it"
    if isinstance(shape, Maybe):
        return "" if data is None else misfit(data, shape.shape, where)
    if isinstance(shape, Leaf):
        return "" if shape.fits(data) else f"{place} is {_shown(data)} and should be {shape.words}"
    if isinstance(shape, list):
        if not isinstance(data, list):
            return f"{place} is {_shown(data)} and should be a list"
        return next(filter(None, (misfit(one, shape[0], f"{where}[{at}]") for at, one in enumerate(data))), "")
    if not isinstance(data, dict):
        return f"{place} is {_shown(data)} and should be a table"
    inside = f"{where}." if where else ""
    for key in shape:
        if key != ANY and key not in data:
            return f"{inside}{key} is missing"
    for key, value in data.items():
        inner = shape.get(key, shape.get(ANY))
        if inner is None:
            return f"{inside}{_shown(key).strip(chr(39))} is nothing that this version of the collection knows"
        wrong = misfit(value, inner, f"{inside}{key}")
        if wrong:
            return wrong
    return ""


def _shown(data: Any) -> str:
    """Return a value as ASCII, cut where it is long."""
    text = "nan" if isinstance(data, float) and math.isnan(data) else ascii(data)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
