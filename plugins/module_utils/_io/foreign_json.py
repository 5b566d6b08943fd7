# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads JSON of servers, BMCs and files of others, so that no text ends in any error but ValueError.

Source: RFC 8259, which has no numbers that are not finite; Python's json takes them, and ends at deep values with
RecursionError.
"""

from __future__ import annotations

import json
import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. ValueError for any other text, for deep values, and for endless numbers."""
    try:
        return json.loads(text, parse_float=_parse_finite_number, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it has too many levels") from None


def _parse_finite_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large for a number")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
