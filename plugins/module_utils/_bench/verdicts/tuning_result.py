# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a tuning found out, from the samples alone: the best candidate against the default on fresh rounds.

One metric decides: the tokens of an answer over all of its time, with one stream, the geometric mean over the kinds of
prompts. Decoding by kind and with several streams, and prefill, are guards: a proven loss there keeps the default. The
rounds in which the candidate was found flatter it, so they say nothing about its gain.
"""

from __future__ import annotations

import math
from statistics import median

from ..rounds import measured_rounds, schedule
from ..statistics.confidence_interval import mean
from . import soundness
from .comparison import HURTS, PAYS, UNDECIDED, Rule, compare, key_text, ratio_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .comparison import Comparison

#: What a result holds for: where one of these is another, it has to be measured again.
HOLDS_FOR = ("sku", "microcode", "bios", "kernel", "engine_build", "model_sha256")


class Standing:
    """One candidate: its arm, the ratios to the default that were predicted and measured, and in how many rounds."""

    __slots__ = ("arm", "count", "measured", "predicted", "rejected")

    def __init__(self, arm: Mapping[str, Any], values: list[float], predicted: float | None, rejected: str) -> None:
        self.arm = arm
        self.count = len(values)
        self.measured = math.exp(mean(values)) if values else None
        self.predicted = predicted
        self.rejected = rejected


class Tuning:
    """``best`` is the arm that was confirmed or shall be, None where the search ended with the default.

    ``gain`` compares it with the default on fresh rounds, and ``guards`` the same by metric. ``proven`` says whether it
    is to be taken, ``decided`` whether more rounds would change nothing.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Judge a document of a tuning that document.check has passed."""
        self.document = document
        self.rounds = measured_rounds.of(document)
        plan = document["plan"]
        self.arms = {arm["name"]: arm for arm in plan["arms"]}
        fresh = [one for one in self.rounds if one.phase == schedule.CONFIRMATION]
        names = {name for one in fresh for name in one.planned} - {schedule.DEFAULT, schedule.AGAIN}
        self.best = self.arms[min(names)] if names else None
        # Two comparisons share the probability of a false claim: the gain, and the default with its twin.
        rule = Rule(plan["alpha"] / 2, math.log1p(plan["zone"]), schedule.CONFIRMING)
        self.gain: Comparison | None = None
        self.guards: list[Comparison] = []
        self.twins: dict[str, Comparison] = {}
        if self.best:
            name = self.best["name"]
            self.gain = compare(fresh, schedule.DEFAULT, measured_rounds.WHOLE_REQUEST, rule, name)
            self.guards = [compare(fresh, schedule.DEFAULT, key, rule, name) for key in measured_rounds.guards(fresh)]
            twin = compare(fresh, schedule.AGAIN, measured_rounds.WHOLE_REQUEST, rule, schedule.DEFAULT)
            self.twins = {schedule.RESTART: twin}
        self.faults = soundness.of_the_machine(document, self.twins)
        self.faults += soundness.resembling(fresh, schedule.CONFIRMATION, schedule.DEFAULT)
        self.lost = [one for one in self.guards if one.word == HURTS]

    @property
    def decided(self) -> bool:
        """Whether the interval of the gain has decided."""
        return self.gain is not None and self.gain.word != UNDECIDED

    @property
    def proven(self) -> bool:
        """Whether the best candidate beats the default, and loses nothing."""
        return self.gain is not None and self.gain.word == PAYS and not self.lost and not self.faults

    def tuned(self) -> dict[str, Any]:
        """Return what is to be stored of a proven gain, as ``llama_tuned`` has it; nothing where the default stays."""
        if not self.proven or not self.best or not self.gain or not self.gain.found:
            return {}
        ratio, low, high = (round(one, 3) for one in self.gain.found.ratios())
        known = self.document["fingerprint"]
        return {
            "options": dict(self.best["options"]),
            "run": self.document["id"],
            "ratio": ratio,
            "low": low,
            "high": high,
            "measured_on": {key: known[key] for key in HOLDS_FOR},
        }

    def standings(self) -> list[Standing]:
        """Return all candidates, the best first, those without a round last."""
        plan = self.document["plan"]
        default = self._rate(schedule.DEFAULT)
        found = []
        for arm in plan["arms"]:
            name = arm["name"]
            if name in (schedule.DEFAULT, schedule.AGAIN):
                continue
            searched = [one for one in self.rounds if one.phase != schedule.CONFIRMATION]
            values = measured_rounds.differences(searched, schedule.DEFAULT, measured_rounds.WHOLE_REQUEST, name)
            predicted = plan["predicted"].get(name)
            ratio = predicted / default if predicted and default else None
            found.append(Standing(arm, values, ratio, plan["rejected"].get(name, "")))
        return sorted(found, key=lambda one: -(one.measured or 0.0))

    def error(self) -> float | None:
        """Return by which share predictions were off, the median; None where none was measured."""
        pairs = [(one.predicted, one.measured) for one in self.standings()]
        off = [abs(predicted / measured - 1) for predicted, measured in pairs if predicted and measured]
        return median(off) if off else None

    def headline(self) -> str:
        """Return the first line in words."""
        name = self.document["instance"]
        if self.faults:
            return f"{name}: this run is void and proves nothing."
        if self.proven and self.gain and self.best:
            return f"{name}: {self.changes(self.best)}: {ratio_text(self.gain.found)} over the default"
        if self.best is None or self.gain is None:
            return f"{name}: the default stays; no candidate was better."
        gain = ratio_text(self.gain.found)
        why = f"{key_text(self.lost[0])} loses {self.lost[0].text()}" if self.lost else gain
        return f"{name}: the default stays; {self.changes(self.best)} did not beat it: {why}"

    def changes(self, arm: Mapping[str, Any]) -> str:
        """Return the options of a candidate, and what the default has."""
        usual = self.arms[schedule.DEFAULT]["options"]
        return ", ".join(f"{name} {value} instead of {usual[name]}" for name, value in arm["options"].items())

    def _rate(self, name: str) -> float | None:
        """Return tokens per second of whole requests in the rounds of the sweep, from which the rest is predicted."""
        those = [one for one in self.rounds if one.phase == schedule.SWEEP and not one.void and name in one.levels]
        levels = [one.levels[name][measured_rounds.WHOLE_REQUEST] for one in those]
        return 1000 * math.exp(mean(levels)) if levels else None
