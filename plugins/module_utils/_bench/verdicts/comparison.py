# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One comparison of two arms: its interval, and what that proves about the better side.

A comparison has the setting on its upper side: above 0 the setting makes the metric better.
"""

from __future__ import annotations

from ..rounds import measured_rounds, schedule
from ..statistics.confidence_interval import interval

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..rounds.measured_rounds import Key, Round
    from ..statistics.confidence_interval import Interval

PAYS, HURTS, NOTHING, UNDECIDED = "pays", "hurts", "nothing", "undecided"


class Rule:
    """What a comparison is held to: ``alpha``, the ``zone`` of nothing as a logarithm, and the ``least`` of values."""

    __slots__ = ("alpha", "least", "zone")

    def __init__(self, alpha: float, zone: float, least: int) -> None:
        self.alpha = alpha
        self.zone = zone
        self.least = least


class Comparison:
    """A metric of two arms: how many values there are, the interval once there is one, and the word for it."""

    __slots__ = ("count", "found", "key", "word")

    def __init__(self, key: Key, values: Sequence[float], rule: Rule) -> None:
        self.key = key
        self.count = len(values)
        self.found: Interval | None = interval(values, rule.alpha) if self.count >= rule.least else None
        self.word = _word(self.found, rule.zone)

    def to_dict(self) -> dict[str, object]:
        """Return plain data; ratios have six decimals, which are the same on every machine."""
        ratios = self.found.ratios() if self.found else (None, None, None)
        ratio, low, high = (None if one is None else round(one, 6) for one in ratios)
        metric, kind, streams = self.key
        place = {"metric": metric, "kind": kind, "streams": streams, "rounds": self.count}
        return {**place, "ratio": ratio, "low": low, "high": high}

    def text(self) -> str:
        """Return the ratio with its interval, as in ``1.34 (1.31 to 1.37)``."""
        return ratio_text(self.found)


def compare(those: Sequence[Round], arm: str, key: Key, rule: Rule, anchor: str = schedule.TUNED) -> Comparison:
    """Compare the anchor with an arm in the good ones of some rounds."""
    return Comparison(key, measured_rounds.differences(those, arm, key, anchor), rule)


def ratio_text(found: Interval | None) -> str:
    """Return an interval as ratios; three decimals where two would hide which side of 1 it is on."""
    if found is None:
        return "no interval yet"
    ratios = found.ratios()
    digits = 2 if min(abs(one - 1) for one in ratios[1:]) >= 0.01 else 3
    middle, low, high = (f"{one:.{digits}f}" for one in ratios)
    return f"{middle} ({low} to {high})"


def key_text(comparison: Comparison) -> str:
    """Return the name of a metric for people."""
    metric, kind, streams = comparison.key
    return " ".join([metric, *([f"of {kind}"] if kind else []), *([f"with {streams} streams"] if streams > 1 else [])])


def _word(found: Interval | None, zone: float) -> str:
    if found is None:
        return UNDECIDED
    if found.low > 0:
        return PAYS
    if found.high < 0:
        return HURTS
    return NOTHING if found.low >= -zone and found.high <= zone else UNDECIDED
