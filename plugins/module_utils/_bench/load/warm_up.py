# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Warming up: requests that do not count, until the server answers at an even pace.

The first requests after a start pay for page faults, clock frequencies and empty caches.
"""

from __future__ import annotations

from statistics import median

from ..._errors import TuningError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Rates in a row that must be alike, how far each may be from their median, and how many requests there are at most.
ALIKE = 3
TOLERANCE = 0.05
MOST = 8
#: Tokens of a request that warms up.
TOKENS = 64


def until_stable(ask: Callable[[], float]) -> list[float]:
    """Call ``ask``, which returns a rate, until the last three are alike; return all rates.

    TuningError where eight are not enough: what is measured after that would be the way to a steady pace, not the pace.
    """
    rates: list[float] = []
    while len(rates) < MOST:
        rates.append(ask())
        if _alike(rates[-ALIKE:]):
            return rates
    raise TuningError(
        f"The server found no steady pace in {MOST} requests ({', '.join(f'{rate:.1f}' for rate in rates)} tokens per "
        "second): look for other programs on its CPUs, and for frequencies that change, before you measure.",
        rates=rates,
    )


def _alike(rates: list[float]) -> bool:
    middle = median(rates)
    return len(rates) == ALIKE and all(abs(rate - middle) <= TOLERANCE * middle for rate in rates)
