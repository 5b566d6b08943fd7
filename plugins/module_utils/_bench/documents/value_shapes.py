# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shapes of single values in the document of a run; _notation/shape.py checks a document against them."""

from __future__ import annotations

from ..._notation.shape import LARGEST, Leaf, whole_number_shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The shortest duration, in milliseconds, that can have been measured.
SHORTEST = 1e-6
#: The smallest share, and the smallest speed, by which something is divided: quotients stay finite.
SMALLEST_SHARE, LOWEST_SPEED = 1e-9, 1e-3


def _is_bounded_number(value: Any) -> bool:
    """Return whether a value is a number within bounds; a bool is an int in Python, and JSON may hold NaN."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST


def _is_printable_text(value: Any) -> bool:
    """Return whether a value is a text without control characters, which could alter a reader's terminal."""
    if not isinstance(value, str):
        return False
    return all(32 <= code < 127 or (code >= 160 and not 0xD800 <= code < 0xE000) for code in map(ord, value))


WHOLE, COUNT, SEVERAL = whole_number_shape(0), whole_number_shape(1), whole_number_shape(2)
AMOUNT = Leaf("a number from 0 up", lambda value: _is_bounded_number(value) and value >= 0)
DURATION = Leaf("milliseconds above 0", lambda value: _is_bounded_number(value) and value >= SHORTEST)
SPEED = Leaf(f"a number from {LOWEST_SPEED} up", lambda value: _is_bounded_number(value) and value >= LOWEST_SPEED)
SHARE = Leaf("a number between 0 and 1", lambda value: _is_bounded_number(value) and SMALLEST_SHARE <= value < 1)
PORTION = Leaf("a number from 0 to 1", lambda value: _is_bounded_number(value) and 0 <= value <= 1)
NUMBER = Leaf("a number", _is_bounded_number)
SCALAR = Leaf("a number or a text in one line", lambda value: _is_bounded_number(value) or _is_printable_text(value))
TEXT = Leaf("a text in one line", _is_printable_text)
NAME = Leaf(
    "a name of at most 60 plain characters",
    lambda value: _is_printable_text(value) and value.isascii() and value == value.strip() and 0 < len(value) <= 60,
)
