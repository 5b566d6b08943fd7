# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an operator asks of a fleet: a rate for each user, the context of a user, and how many users of what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.numbers import parse_decimal, parse_whole_number
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_values import require_table

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Tokens per second of a user: the rate of the papers for a 70B on one EPYC 9754. People read at about a third of it.
DEFAULT_RATE = 20.0
#: Tokens that a user has in the KV cache on average, which each of his tokens reads again.
DEFAULT_CONTEXT = 2048
FASTEST_RATE, LONGEST_CONTEXT = 1000.0, 1 << 20


class CapacityRequest:
    """The rate in tokens per second and the tokens of context of each user, and the wanted users by model or tier."""

    __slots__ = ("context", "rate", "wanted")

    def __init__(self, rate: float, context: int, wanted: Mapping[str, int]) -> None:
        self.rate = rate
        self.context = context
        self.wanted = dict(wanted)


def parse_capacity_request(rate: Any = None, context: Any = None, wanted: Any = None) -> CapacityRequest:
    """Return the request of three variables, of which None takes the default; BadRequest for an invalid value."""
    number = parse_decimal(DEFAULT_RATE if rate is None else rate)
    if number is None or not 0 < number <= FASTEST_RATE:
        raise BadRequest(
            f"epyc_capacity_rate is '{rate}'; say the tokens per second of a user, above 0 and up to {FASTEST_RATE:g}."
        )
    tokens = parse_whole_number(DEFAULT_CONTEXT if context is None else context)
    if tokens is None or tokens > LONGEST_CONTEXT:
        raise BadRequest(f"epyc_capacity_context is '{context}'; say the tokens of a user, up to {LONGEST_CONTEXT}.")
    users = {}
    for name, count in require_table(wanted or {}, "epyc_capacity_wanted").items():
        amount = parse_whole_number(count)
        if not amount:
            raise BadRequest(
                f"epyc_capacity_wanted: {name} is '{count}'; say how many users of it the fleet shall serve at a time, "
                "from 1 up."
            )
        users[str(name)] = amount
    return CapacityRequest(number, tokens, users)
