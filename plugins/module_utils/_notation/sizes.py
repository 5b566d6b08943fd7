# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Amounts of memory, as people write and read them."""

from __future__ import annotations

from .._errors import BadRequest
from .numbers import parse_decimal

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def format_bytes(count: int) -> str:
    """Return a number of bytes exactly, in the largest unit that needs no fraction, as "16 MiB"."""
    for unit in ("GiB", "MiB", "KiB"):
        if count and count % UNITS[unit] == 0:
            return f"{count // UNITS[unit]} {unit}"
    return f"{count} B"


def parse_bytes(text: object, option: str) -> int:
    """Return the bytes of an amount such as 40GiB; BadRequest, which begins with the option, for other texts."""
    words = str(text).strip()
    unit = words[-3:]
    number = parse_decimal(words[:-3].strip())
    if unit not in UNITS or number is None or number < 0:
        raise BadRequest(f"{option}: '{text}' is no amount of memory; say it as 40GiB or 512MiB.")
    return int(number * UNITS[unit])


def format_bytes_short(count: int) -> str:
    """Return a number of bytes exactly where that is short, else in MiB or GiB with one decimal."""
    exact = format_bytes(count)
    if len(exact.split()[0]) <= 4:
        return exact
    unit = "GiB" if count >= UNITS["GiB"] else "MiB"
    return f"{count / UNITS[unit]:.1f} {unit}"


def format_pages(count: int, page_kb: int) -> str:
    """Return a number of pages with their size, as "3 pages of 2 MiB"."""
    return f"{count} page{'' if count == 1 else 's'} of {format_bytes(page_kb * UNITS['KiB'])}"
