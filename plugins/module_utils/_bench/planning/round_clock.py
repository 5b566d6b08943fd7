# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The time that a run of equal rounds still takes, estimated anew whenever a request has ended."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class RoundClock:
    """Estimates the seconds until the end of a run.

    ``expected`` are the seconds from the end of a request to the end of the next one. The first round corrects them by
    its pace, and each complete round replaces them by what it took. Several threads may report answers.
    """

    def __init__(self, expected: Sequence[float], clock: Any) -> None:
        self._expected = list(expected)
        self._clock = clock
        self._ends: list[float] = []
        self._begun = clock.monotonic()
        self._has_complete_round = False
        self._lock = threading.Lock()

    @property
    def requests_per_round(self) -> int:
        """The number of requests of a round."""
        return len(self._expected)

    @property
    def round_seconds(self) -> float:
        """The seconds of a round."""
        return sum(self._expected)

    def begin_round(self) -> None:
        """Begin a round now."""
        self._begun, self._ends = self._clock.monotonic(), []

    def add_answer(self, later_rounds: int) -> tuple[int, float]:
        """Record that a request has ended now.

        Return how many have ended in this round, and the seconds until this round and so many later ones have ended.
        """
        with self._lock:
            self._ends.append(self._clock.monotonic())
            return len(self._ends), self._seconds_left(later_rounds)

    def end_round(self) -> None:
        """Replace the expected seconds by those of this round, which has all its answers."""
        moments = [self._begun, *self._ends[:-1], self._clock.monotonic()]
        self._expected = [after - before for before, after in zip(moments, moments[1:])]
        self._has_complete_round = True

    def _seconds_left(self, later_rounds: int) -> float:
        done = sum(self._expected[: len(self._ends)])
        spent = self._ends[-1] - self._begun
        pace = spent / done if done and not self._has_complete_round else 1.0
        return pace * (self.round_seconds - done + later_rounds * self.round_seconds)
