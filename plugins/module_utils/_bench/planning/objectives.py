# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objectives of an ablation or a tuning: which decides, which get a verdict, and what is too small to matter.

Latency and the reading of prompts are measured by one stream, so both always get a verdict. Throughput needs as many
streams as the instance has slots, which takes longer, so it is measured where it is asked for.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..load.objective_names import LATENCY, OBJECTIVES, PROMPT, SMALLEST_EFFECT, THROUGHPUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..load.request import MeasuringRequest

#: The argument spec of the option that only an ablation has; all long runs have ``objective`` and ``smallest``.
OBJECTIVE_SPEC: dict[str, dict[str, Any]] = {
    "objectives": {"type": "list", "elements": "str", "choices": list(OBJECTIVES)},
}


class RequestedObjectives:
    """The objective that decides, all objectives that get a verdict, and the smallest effect that matters."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        """Read options by name, of which any may be missing; BadRequest for an invalid option."""
        self.objective: str = raw.get("objective") or LATENCY
        named: list[str] = list(raw.get("objectives") or [LATENCY, PROMPT])
        if raw.get("streams"):
            named.append(THROUGHPUT)
        self.objectives = list(dict.fromkeys([self.objective, *named]))
        self.smallest = SMALLEST_EFFECT if raw.get("smallest") is None else float(raw["smallest"])
        for name in self.objectives:
            if name not in OBJECTIVES:
                raise BadRequest(f"There is no objective {name}; the objectives are {', '.join(OBJECTIVES)}.")
        if not 0.001 <= self.smallest <= 0.5:
            raise BadRequest(
                f"smallest is {self.smallest:g}; give a share from 0.001 to 0.5, such as 0.02 for 2 percent."
            )

    def set_streams_to_slots_for_throughput(self, request: MeasuringRequest, slots: int) -> None:
        """Have a request measured with as many streams as slots where throughput is asked for and no streams are named.

        BadRequest where throughput is asked for of an instance with one slot.
        """
        if THROUGHPUT not in self.objectives or request.streams:
            return
        if slots < 2:
            raise BadRequest(
                "The objective throughput is asked for, and the instance has one slot, so that it serves one stream "
                "only: give it more slots, or take another objective."
            )
        request.streams = [slots]

    def to_plan(self) -> dict[str, Any]:
        """Return the objectives in the format of a run document."""
        return {"objective": self.objective, "objectives": self.objectives, "zone": self.smallest}
