# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of data that a host or a file holds: each value is of its kind, or refused in a sentence that says where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TEXTS = "a list of texts"
#: How many characters of a wrong value, and of an error, a sentence shows.
SHOWN, SHOWN_OF_ERROR = 80, 500


class Malformed(ValueError):
    """Data of another shape, with a sentence that says where."""


def show_value(value: object) -> str:
    """Return a wrong value for a sentence, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"  # Python writes none of those.
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def describe_error(error: Exception) -> str:
    """Return an error for a sentence, cut where it is long: it may repeat all that a host sent."""
    return f"{type(error).__name__}: {str(error)[:SHOWN_OF_ERROR]}"


def fields(row: Mapping[str, Any], kinds: Mapping[str, object], place: str) -> None:
    """Check that a row has these fields, each of its kind. Raises Malformed."""
    for name, kind in kinds.items():
        value = row.get(name)
        if kind is TEXTS:
            fits = isinstance(value, list) and all(isinstance(one, str) for one in value)
        elif isinstance(kind, type):
            fits = isinstance(value, kind)
        else:
            fits = isinstance(value, str) and value in _words(kind)
        if not fits:
            raise Malformed(f"{place}.{name} is {show_value(value)}")


def _words(kind: object) -> Collection[str]:
    return kind if isinstance(kind, (tuple, dict)) else ()


def items(data: object, place: str) -> list[Any]:
    """Return data that is a list. Raises Malformed."""
    if not isinstance(data, list):
        raise Malformed(f"{place} is {show_value(data)} and no list")
    return data


def table(data: object, place: str) -> Mapping[str, Any]:
    """Return data that is a table. Raises Malformed."""
    if not isinstance(data, dict):
        raise Malformed(f"{place} is {show_value(data)} and no table")
    return data
