# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A forest plot in characters: for each comparison a line with its interval, around 1 and the zone of nothing."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..statistics.confidence_interval import Interval

WIDTH = 36


class Axis:
    """The range of all intervals, the zone and 1, in logarithms."""

    def __init__(self, found: Sequence[Interval], zone: float) -> None:
        self.zone = zone
        self.low = min([-zone, *(one.low for one in found)])
        self.high = max([zone, *(one.high for one in found)])

    def at(self, value: float) -> int:
        """Return the column of a logarithm; rounded first, so that the last digit of a machine decides nothing."""
        share = round((value - self.low) / (self.high - self.low), 9)
        return math.floor(share * (WIDTH - 1) + 0.5)

    def line(self, found: Interval | None) -> str:
        """Return the line of an interval, or the empty ground of one that is not there yet."""
        begin, end = self.at(-self.zone), self.at(self.zone)
        cells = [":" if begin <= at <= end else " " for at in range(WIDTH)]
        cells[self.at(0.0)] = "|"
        if found is not None:
            low, high = self.at(found.low), self.at(found.high)
            cells[low : high + 1] = "-" * (high + 1 - low)
            cells[low], cells[high] = "[", "]"
            cells[self.at(found.mean)] = "o"
        return "".join(cells).rstrip()

    def scale(self) -> str:
        """Return the ratios at both ends."""
        low, high = f"{math.exp(self.low):.2f}", f"{math.exp(self.high):.2f}"
        return f"{low}{high:>{WIDTH - len(low)}}"
