# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The costs of measuring: seconds of a start of the server, and of a pass, in which an arm is sent all prompts once.

A cold start reads the model from disk and warms the server up. All arms of a round share a start where the settings
take effect at once; each arm has a start of its own where the settings take effect at a start.
"""

from __future__ import annotations

from ..rounds import schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


#: The shortest seconds that costs may have, so that costs can be divided by each other.
SHORTEST_S = 0.001


class Costs:
    """Seconds of a start with its warm-up, and of one pass."""

    def __init__(self, start_s: float, pass_s: float) -> None:
        self.start_s = max(SHORTEST_S, start_s)
        self.pass_s = max(SHORTEST_S, pass_s)

    def round_seconds(self, setting_class: str, arms: int, passes: int = 1) -> float:
        """Return the seconds of a round with a number of arms, each of which is sent all prompts ``passes`` times."""
        starts = 1 if schedule.REPETITIONS[setting_class].shares_start else arms
        return starts * self.start_s + arms * passes * self.pass_s

    def to_plan(self) -> dict[str, float]:
        """Return the costs in the format of a run document."""
        return {"pass_s": round(self.pass_s, 3), "start_s": round(self.start_s, 3)}


def costs_of_plan(plan: Mapping[str, Any]) -> Costs | None:
    """Return the costs that a run has recorded, those of the most expensive class; None for a run without costs."""
    for setting_class in reversed(schedule.REPETITIONS):
        recorded = plan.get("costs", {}).get(setting_class)
        if recorded:
            return Costs(recorded["start_s"], recorded["pass_s"])
    return None


class CostMeter:
    """Collects the durations of starts and passes of a run; ``costs`` are their means, None before the first of each.

    The mean of all arms is used: slow arms, such as stock, take more time than the anchor.
    """

    def __init__(self) -> None:
        self._start_seconds: list[float] = []
        self._pass_seconds: list[float] = []

    def add_start(self, seconds: float) -> None:
        """Record the duration of a start with its warm-up."""
        self._start_seconds.append(seconds)

    def add_passes(self, seconds: float, passes: int) -> None:
        """Record the duration of some passes of an arm."""
        self._pass_seconds.append(seconds / passes)

    @property
    def costs(self) -> Costs | None:
        """The mean costs until now."""
        if not self._start_seconds or not self._pass_seconds:
            return None
        starts, passes = self._start_seconds, self._pass_seconds
        return Costs(sum(starts) / len(starts), sum(passes) / len(passes))
