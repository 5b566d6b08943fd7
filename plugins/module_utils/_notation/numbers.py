# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parsers of numbers that people write: only the digits 0 to 9, and at most as many as 64 bits need.

Python's int and float also accept underscores, signs, blanks and the digits of all scripts, which are typing errors in
an option. A moment is written as text in UTC, such as 2026-11-25T20:15:00Z.
"""

from __future__ import annotations

import time

from .._errors import BadRequest

#: The number of digits of the largest integer of 64 bits.
MOST_DIGITS = 20
MOST_HEXADECIMAL_DIGITS, MOST_BINARY_DIGITS = 16, 64
HEXADECIMAL_DIGITS = frozenset("0123456789abcdefABCDEF")


def parse_whole_number(value: object) -> int | None:
    """Return a number or a text as an integer from 0 up; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    if isinstance(value, int):
        return int(value) if 0 <= value < 10**MOST_DIGITS else None
    return int(value) if _is_digits(value) else None


def parse_decimal(value: object) -> float | None:
    """Return a number or a text such as 0.5 or -1 as a float; None for any other value, and for infinity and NaN."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if not isinstance(value, str):
        return float(value) if abs(value) < 10**MOST_DIGITS else None
    return float(value) if _is_digits(value[value.startswith("-") :].replace(".", "", 1)) else None


def parse_hexadecimal(text: str) -> int | None:
    """Return hexadecimal digits, with or without 0x, as an integer; None for a text that is no number of 64 bits."""
    digits = text[2:] if text[:2] in ("0x", "0X") else text
    if not 0 < len(digits) <= MOST_HEXADECIMAL_DIGITS or not HEXADECIMAL_DIGITS.issuperset(digits):
        return None
    return int(digits, 16)


def parse_with_base_prefix(text: str) -> int | None:
    """Return digits as an integer: hexadecimal after 0x, binary after 0b, else decimal; None for any other text."""
    if text[:2] in ("0x", "0X"):
        return parse_hexadecimal(text)
    if text[:2] in ("0b", "0B"):
        return int(text, 2) if 0 < len(text[2:]) <= MOST_BINARY_DIGITS and set(text[2:]) <= {"0", "1"} else None
    return parse_whole_number(text)


def require_whole_number(value: object, option: str) -> int:
    """Return a value as an integer from 0 up; BadRequest, whose message begins with the option, for any other value."""
    number = parse_whole_number(value)
    if number is None:
        raise BadRequest(f"{option}: '{value}' is no whole number from 0 up.")
    return number


def format_utc_time(seconds: float | None = None) -> str:
    """Return a moment, in seconds since 1970, as text in UTC; the present moment for None."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS
