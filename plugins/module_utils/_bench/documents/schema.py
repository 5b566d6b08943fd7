# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that data from a JSON file has a given shape, and names the first place that does not.

A shape is a Leaf, a list with the shape of its items, or a table of shapes by key. A table must have exactly its keys;
the key ANY in it stands for any other key. ``Nullable`` is a shape or null.
"""

from __future__ import annotations

import math

from ..._io.store import ANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: The largest valid number: no count or duration of a run exceeds it, and sums and quotients stay finite.
LARGEST = 1e12
#: The shortest duration, in milliseconds, that can have been measured.
SHORTEST = 1e-6
#: The length in characters to which a sentence cuts a wrong value.
SHOWN = 40


class Leaf:
    """The shape of a single value: a description of valid values, and the test for them."""

    __slots__ = ("fits", "words")

    def __init__(self, words: str, fits: Callable[[Any], bool]) -> None:
        self.words = words
        self.fits = fits


class Nullable:
    """A shape, or null where a value could not be measured."""

    __slots__ = ("shape",)

    def __init__(self, shape: Any) -> None:
        self.shape = shape


def _is_number(value: Any) -> bool:
    """Return whether a value is a number within bounds; a bool is an int in Python, and JSON may hold NaN."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def _is_text(value: Any) -> bool:
    """Return whether a value is a text without control characters, which could alter a reader's terminal."""
    if not isinstance(value, str):
        return False
    return all(32 <= code < 127 or (code >= 160 and not 0xD800 <= code < 0xE000) for code in map(ord, value))


def choice_of(*words: str) -> Leaf:
    """Return the shape of a text that is one of some words."""
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


def misfit_message(data: Any, shape: Any, where: str = "") -> str:
    """Return where data first differs from a shape, without a full stop; an empty text where it does not."""
    place = where or "it"
    if isinstance(shape, Nullable):
        return "" if data is None else misfit_message(data, shape.shape, where)
    if isinstance(shape, Leaf):
        return "" if shape.fits(data) else f"{place} is {_format_value(data)} and should be {shape.words}"
    if isinstance(shape, list):
        if not isinstance(data, list):
            return f"{place} is {_format_value(data)} and should be a list"
        return next(
            filter(None, (misfit_message(item, shape[0], f"{where}[{at}]") for at, item in enumerate(data))), ""
        )
    if not isinstance(data, dict):
        return f"{place} is {_format_value(data)} and should be a table"
    inside = f"{where}." if where else ""
    for key in shape:
        if key != ANY and key not in data:
            return f"{inside}{key} is missing"
    for key, value in data.items():
        inner = shape.get(key, shape.get(ANY))
        if inner is None:
            return f"{inside}{_format_value(key).strip(chr(39))} is nothing that this version of the collection knows"
        wrong = misfit_message(value, inner, f"{inside}{key}")
        if wrong:
            return wrong
    return ""


def _format_value(data: Any) -> str:
    text = "nan" if isinstance(data, float) and math.isnan(data) else ascii(data)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
