# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The time of a run: how much is left, and how much of it is reserved for the confirmation.

The time is divided backwards: the confirmation has its share first, and a round begins only if it ends before that.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: A reserve has this factor more than its rounds, for rounds that are disturbed and repeated.
RESERVE_FACTOR = 1.1


class Budget:
    """The minutes of a run, counted from now; ``clock`` has ``monotonic``."""

    def __init__(self, minutes: float, clock: Any) -> None:
        self._clock = clock
        self._end = clock.monotonic() + 60 * minutes
        self.reserved = 0.0

    def seconds_left(self) -> float:
        """Return the seconds until the end of the run, below 0 after the end."""
        return float(self._end - self._clock.monotonic())

    def free_seconds(self) -> float:
        """Return the seconds that are left beside the reserve."""
        return self.seconds_left() - self.reserved

    def reserve_rounds(self, rounds: int, round_seconds: float) -> None:
        """Reserve the last part of the time for rounds; this replaces an earlier reserve."""
        self.reserved = RESERVE_FACTOR * rounds * round_seconds

    def release_reserve(self) -> None:
        """Let the rounds begin that the time was reserved for."""
        self.reserved = 0.0

    def format_time_left(self) -> str:
        """Return the time that is left, such as ``3 h 10 min left``."""
        return f"{format_seconds(max(0.0, self.seconds_left()))} left"


def format_seconds(seconds: float) -> str:
    """Return a time for people: ``40 s``, ``12 min`` or ``3 h 10 min``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"
