# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sampling settings of an instance: how the server chooses the next token for requests without such settings.

Source: tools/server/README.md of llama.cpp, under "Sampling params".
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._notation.numbers import parse_decimal, parse_whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    Sampling = dict[str, float]

#: For each setting: whether it is a whole number, its least value and its greatest value.
RANGES: dict[str, tuple[bool, float, float]] = {
    "temperature": (False, 0, 10),
    "top_k": (True, 0, 1_000_000),
    "top_p": (False, 0, 1),
    "min_p": (False, 0, 1),
    "repeat_penalty": (False, 0, 10),
    "presence_penalty": (False, -2, 2),
    "frequency_penalty": (False, -2, 2),
    "max_tokens": (True, 1, 100_000_000),
}


def parse_sampling_settings(value: object) -> Sampling:
    """Return the sampling settings by name, in the order of RANGES; BadRequest for an unknown name or value."""
    if not isinstance(value, dict):
        raise BadRequest(f"sampling must be a dictionary, as {{temperature: 0.7, top_p: 0.8}}, not '{value}'.")
    for name in value:
        if name not in RANGES:
            raise BadRequest(f"sampling has no '{name}'; it takes {', '.join(RANGES)}.")
    return {name: _parse_number(name, value[name]) for name in RANGES if name in value}


def _parse_number(name: str, value: object) -> float:
    whole, low, high = RANGES[name]
    number = (parse_whole_number if whole else parse_decimal)(value)
    if number is None or not low <= number <= high:
        kind = "whole number" if whole else "number"
        raise BadRequest(f"sampling: {name} is '{value}'; say a {kind} from {low} to {high}.")
    return number
