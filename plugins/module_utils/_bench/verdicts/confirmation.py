# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The confirmation: stock, tuned and what is kept, raced on fresh rounds.

The rounds that chose what is kept flatter it, so its gain is read only from rounds that came after. They also show what
settings do together, which the ablation does not: two that pay only as a pair each look like the whole gain there.
"""

from __future__ import annotations

import math

from ..rounds import measured_rounds, schedule
from .comparison import Rule, compare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Round
    from .comparison import Comparison


class Confirmation:
    """The race: ``together`` compares what is kept with stock, ``parts`` the same by metric, ``others`` the rest.

    All is None or empty before the first fresh round. The three pairs share the probability of a false claim.
    """

    __slots__ = ("confirmed", "others", "parts", "together", "winner")

    def __init__(self, document: Mapping[str, Any], those: Sequence[Round]) -> None:
        fresh = [one for one in those if one.phase == schedule.CONFIRMATION]
        plan = document["plan"]
        rule = Rule(plan["alpha"] / 3, math.log1p(plan["zone"]), schedule.CONFIRMING)
        #: Where nothing was removed, tuned is what is kept.
        self.winner = schedule.KEPT if any(schedule.KEPT in one.levels for one in fresh) else schedule.TUNED
        self.together: Comparison | None = None
        self.parts: list[Comparison] = []
        self.others: dict[str, Comparison] = {}
        self.confirmed = False
        if not fresh:
            return
        self.together = compare(fresh, schedule.STOCK, measured_rounds.ONE_STREAM, rule, self.winner)
        self.confirmed = self.together.found is not None
        self.parts = [compare(fresh, schedule.STOCK, key, rule, self.winner) for key in measured_rounds.guards(fresh)]
        if self.winner == schedule.KEPT:
            one_stream = measured_rounds.ONE_STREAM
            self.others = {
                "tuned over stock": compare(fresh, schedule.STOCK, one_stream, rule),
                "kept over tuned": compare(fresh, schedule.TUNED, one_stream, rule, schedule.KEPT),
            }
