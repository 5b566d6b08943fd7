# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A forest plot in characters: each line shows an interval, the ratio 1 and the zone of no effect on one axis."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..statistics.confidence_interval import Interval

WIDTH = 36


class PlotAxis:
    """The axis of a plot, in logarithms; it has room for all intervals and for the zone of no effect."""

    def __init__(self, intervals: Sequence[Interval], zone: float) -> None:
        self.zone = zone
        self.low = min([-zone, *(interval.low for interval in intervals)])
        self.high = max([zone, *(interval.high for interval in intervals)])

    def log_ratio_to_column(self, value: float) -> int:
        """Return the column of a logarithm; rounding makes it equal on machines whose floats differ slightly."""
        share = round((value - self.low) / (self.high - self.low), 9)
        return math.floor(share * (WIDTH - 1) + 0.5)

    def interval_line(self, interval: Interval | None) -> str:
        """Return the line of an interval; for None the line shows only the zone and the ratio 1."""
        begin, end = self.log_ratio_to_column(-self.zone), self.log_ratio_to_column(self.zone)
        cells = [":" if begin <= at <= end else " " for at in range(WIDTH)]
        cells[self.log_ratio_to_column(0.0)] = "|"
        if interval is not None:
            low, high = self.log_ratio_to_column(interval.low), self.log_ratio_to_column(interval.high)
            cells[low : high + 1] = "-" * (high + 1 - low)
            cells[low], cells[high] = "[", "]"
            cells[self.log_ratio_to_column(interval.mean)] = "o"
        return "".join(cells).rstrip()

    def scale_line(self) -> str:
        """Return a line with the ratios at both ends of the axis."""
        low, high = f"{math.exp(self.low):.2f}", f"{math.exp(self.high):.2f}"
        return f"{low}{high:>{WIDTH - len(low)}}"
