# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Warms up a server: sends requests whose answers do not count, until the token rate is stable.

The first requests after a start pay for page faults, clock frequencies and empty caches.
"""

from __future__ import annotations

from statistics import median

from ..._errors import TuningError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: So many consecutive rates must be stable: none is farther from their median than this share of it.
STABLE_RATES, TOLERANCE = 3, 0.05
MAX_REQUESTS = 8
#: Tokens of a warm-up request.
WARM_UP_TOKENS = 64


def warm_up_until_stable(measure_rate: Callable[[], float]) -> list[float]:
    """Call ``measure_rate`` until the last three rates are stable; return all rates.

    TuningError where the rates are not stable after eight requests, because later samples would not show a stable rate.
    """
    rates: list[float] = []
    while len(rates) < MAX_REQUESTS:
        rates.append(measure_rate())
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
