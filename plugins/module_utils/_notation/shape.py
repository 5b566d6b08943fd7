# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check that data from a file or a host has a given shape; its message names the first place that has not.

A shape is a type, a Leaf, a Nullable, a list with the shape of its items, or a table of shapes by key. Data for a table
must have exactly the keys of the table. A Leaf as key stands for any number of other keys, such as ANY for all.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

#: The largest valid number where a shape names no other bound, so that sums and quotients stay finite.
LARGEST = 10**12
#: The length in characters to which a message cuts a wrong value.
SHOWN = 40
TYPE_WORDS = {str: "a text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table"}


class Leaf:
    """The shape of a single value: a description of valid values, and the test for them."""

    __slots__ = ("fits", "words")

    def __init__(self, words: str, fits: Callable[[Any], bool]) -> None:
        self.words = words
        self.fits = fits


class Nullable:
    """A shape, or null where a value is not known."""

    __slots__ = ("shape",)

    def __init__(self, shape: Any) -> None:
        self.shape = shape


ANY = Leaf("a text", lambda key: isinstance(key, str))


def text_choice_shape(*words: str) -> Leaf:
    """Return the shape of a text that is one of some words."""
    return Leaf(f"one of {', '.join(words)}", lambda value: isinstance(value, str) and value in words)


def whole_number_shape(lowest: int, highest: int = LARGEST) -> Leaf:
    """Return the shape of a whole number within bounds. True and False are ints in Python, but no numbers here."""
    bound = "up" if highest == LARGEST else f"to {highest}"
    return Leaf(
        f"a whole number from {lowest} {bound}", lambda value: _has_type(value, int) and lowest <= value <= highest
    )


def first_misfit_message(
    data: Any, shape: Any, place: str = "", lacks_keys: bool = False, more_keys: bool = False
) -> str:
    """Return where data first differs from a shape, without a full stop; "" where it does not differ.

    ``place`` is the name of the data in the message. With ``lacks_keys``, tables may lack keys of their shape; with
    ``more_keys``, they may have other keys too.
    """
    if isinstance(shape, Nullable):
        return "" if data is None else first_misfit_message(data, shape.shape, place, lacks_keys, more_keys)
    if isinstance(shape, Leaf):
        return "" if shape.fits(data) else _wrong_value_message(place, data, shape.words)
    if isinstance(shape, type):
        return "" if _has_type(data, shape) else _wrong_value_message(place, data, TYPE_WORDS[shape])
    if not isinstance(data, type(shape)):
        return _wrong_value_message(place, data, TYPE_WORDS[type(shape)])
    if isinstance(shape, list):
        messages = (
            first_misfit_message(item, shape[0], f"{place}[{at}]", lacks_keys, more_keys)
            for at, item in enumerate(data)
        )
        return next(filter(None, messages), "")
    prefix = f"{place}." if place else ""
    missing = [] if lacks_keys else [key for key in shape if isinstance(key, str) and key not in data]
    if missing:
        return f"{prefix}{missing[0]} is missing"
    for key, value in data.items():
        inner = _shape_of_key(shape, key)
        if inner is None and more_keys:
            continue
        if inner is None:
            return f"{prefix}{format_value(key).strip(chr(39))} is nothing that this version of the collection knows"
        message = first_misfit_message(value, inner, f"{prefix}{key}", lacks_keys, more_keys)
        if message:
            return message
    return ""


def format_value(value: Any) -> str:
    """Return a wrong value as a message shows it, shortened where it is long."""
    try:
        text = ascii(value)
    except ValueError:
        return "a number of thousands of digits"  # Python refuses to write such a number.
    except RecursionError:
        return "a value of too many levels"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _has_type(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _wrong_value_message(place: str, value: Any, words: str) -> str:
    return f"{place or 'it'} is {format_value(value)} and should be {words}"


def _shape_of_key(shape: Mapping[Any, Any], key: Any) -> Any:
    """Return the shape that a table has for a key; None for an unknown key."""
    if key in shape:
        return shape[key]
    return next((inner for name, inner in shape.items() if isinstance(name, Leaf) and name.fits(key)), None)
