# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Numbers as people write them: the digits 0 to 9, and not many of them.

Python's int and float also take underlines, signs, blanks and the digits of all scripts, and a person who copied one of
these meant something else. They raise another error for thousands of digits than for a word.
"""

from __future__ import annotations

from .._errors import BadRequest

#: The most digits of a number, which are those of the largest one of 64 bits.
MOST_DIGITS = 20
MOST_HEXADECIMAL_DIGITS, MOST_BINARY_DIGITS = 16, 64
HEXADECIMAL_DIGITS = frozenset("0123456789abcdefABCDEF")


def parse_whole(value: object) -> int | None:
    """Return the whole number from 0 up that a number or a text is; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    if isinstance(value, int):
        return int(value) if 0 <= value < 10**MOST_DIGITS else None
    return int(value) if _is_digits(value) else None


def parse_decimal(value: object) -> float | None:
    """Return the number that a number or a text such as 0.5 or -1 is; None where it is none, or is not finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if not isinstance(value, str):
        return float(value) if abs(value) < 10**MOST_DIGITS else None
    return float(value) if _is_digits(value[value.startswith("-") :].replace(".", "", 1)) else None


def parse_hexadecimal(text: str) -> int | None:
    """Return the number that hexadecimal digits are, with or without 0x; None where a text is no number of 64 bits."""
    digits = text[2:] if text[:2] in ("0x", "0X") else text
    if not 0 < len(digits) <= MOST_HEXADECIMAL_DIGITS or not HEXADECIMAL_DIGITS.issuperset(digits):
        return None
    return int(digits, 16)


def parse_with_base_prefix(text: str) -> int | None:
    """Return the whole number that digits are, in hexadecimal after 0x and in binary after 0b; None for no number."""
    if text[:2] in ("0x", "0X"):
        return parse_hexadecimal(text)
    if text[:2] in ("0b", "0B"):
        return int(text, 2) if 0 < len(text[2:]) <= MOST_BINARY_DIGITS and set(text[2:]) <= {"0", "1"} else None
    return parse_whole(text)


def require_whole(value: object, option: str) -> int:
    """Return a whole number from 0 up; BadRequest, which begins with ``what``, where a value is none."""
    number = parse_whole(value)
    if number is None:
        raise BadRequest(f"{option}: '{value}' is no whole number from 0 up.")
    return number


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS
