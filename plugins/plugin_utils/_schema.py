# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of data that a host or a file holds: each value is of its kind, or refused in a sentence that says where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TEXTS = "a list of texts"
#: The most characters of a wrong value, and of an error, that a sentence shows.
SHOWN_OF_VALUE, SHOWN_OF_ERROR = 80, 500


class Malformed(ValueError):
    """Data is not of the expected shape; the sentence says where."""


def show_value(value: object) -> str:
    """Return a wrong value as a sentence shows it, shortened where it is long."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"  # Python writes none of those.
    return text if len(text) <= SHOWN_OF_VALUE else f"{text[:SHOWN_OF_VALUE]}..."


def describe_error(error: Exception) -> str:
    """Return an error as a sentence shows it, shortened: it may repeat all data that a host sent."""
    return f"{type(error).__name__}: {str(error)[:SHOWN_OF_ERROR]}"


def require_fields(row: Mapping[str, Any], kinds: Mapping[str, object], place: str) -> None:
    """Check that a table has these fields, each of its kind: a type, TEXTS, or a collection of allowed texts.

    Raises Malformed.
    """
    for name, kind in kinds.items():
        value = row.get(name)
        if kind is TEXTS:
            fits = isinstance(value, list) and all(isinstance(text, str) for text in value)
        elif isinstance(kind, type):
            fits = isinstance(value, kind)
        else:
            fits = isinstance(value, str) and value in _allowed_texts(kind)
        if not fits:
            raise Malformed(f"{place}.{name} is {show_value(value)}")


def _allowed_texts(kind: object) -> Collection[str]:
    return kind if isinstance(kind, (tuple, dict)) else ()


def require_json_list(data: object, place: str) -> list[Any]:
    """Return data if it is a list; raises Malformed otherwise."""
    if not isinstance(data, list):
        raise Malformed(f"{place} is {show_value(data)} and no list")
    return data


def require_json_table(data: object, place: str) -> Mapping[str, Any]:
    """Return data if it is a table; raises Malformed otherwise."""
    if not isinstance(data, dict):
        raise Malformed(f"{place} is {show_value(data)} and no table")
    return data
