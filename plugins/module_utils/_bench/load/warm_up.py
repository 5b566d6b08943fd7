# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Warms a server up: sends requests whose answers do not count, until its token rate is stable.

The first requests after a start pay for page faults, clock frequencies and empty caches.
"""

from __future__ import annotations

from statistics import median

from ..._errors import TuningError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Number of consecutive rates that must be stable, their largest relative distance from their median, and the largest
#: number of requests.
STABLE_RATES = 3
TOLERANCE = 0.05
MAX_REQUESTS = 8
#: Tokens of a warm-up request.
WARM_UP_TOKENS = 64


def warm_up_until_stable(ask: Callable[[], float]) -> list[float]:
    """Call ``measure_rate`` until its last three rates are stable; return all rates.

    TuningError where eight requests are not enough: samples taken after that would show the server on its way to a
    steady rate, and not the steady rate.
    """
    rates: list[float] = []
    while len(rates) < MAX_REQUESTS:
        rates.append(ask())
        if _rates_are_stable(rates[-STABLE_RATES:]):
            return rates
    shown = ", ".join(f"{rate:.1f}" for rate in rates)
    raise TuningError(
        f"The server found no steady pace in {MAX_REQUESTS} requests ({shown} tokens per second): look for other "
        "programs on its CPUs, and for frequencies that change, before you measure.",
        rates=rates,
    )


def _rates_are_stable(rates: list[float]) -> bool:
    middle = median(rates)
    return len(rates) == STABLE_RATES and all(abs(rate - middle) <= TOLERANCE * middle for rate in rates)
