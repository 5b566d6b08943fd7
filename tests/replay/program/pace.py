# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How fast each request is: the base times the effects that are in force times noise, which the seed decides.

Effects of files are looked at anew for each request, those of arguments and variables hold from the start on. Whatever
the shares and sizes are, each request draws the same random numbers, so that two truths differ in nothing else.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import Mapping
from pathlib import Path

from .truth import Condition, Truth, value_of


class Start:
    """Which start of the server this is, and when the first one was. systemd keeps the folder that remembers it."""

    def __init__(self) -> None:
        self.number, self.first = 1, time.time()
        folder = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
        if folder:
            file = Path(folder, "starts.json")
            if file.exists():
                before = json.loads(file.read_text())
                self.number, self.first = before["starts"] + 1, before["first"]
            file.write_text(json.dumps({"starts": self.number, "first": self.first}))


class _Noise:
    """Factors around 1, each of which resembles the one before as much as the truth says."""

    def __init__(self, truth: Truth, seed: str) -> None:
        self._random = random.Random(seed)
        self._truth = truth
        self._last = self._random.gauss(0, 1)

    def factor(self) -> float:
        share = self._truth.autocorrelation
        self._last = share * self._last + math.sqrt(1 - share * share) * self._random.gauss(0, 1)
        return math.exp(self._truth.noise * self._last)


class Pace:
    """Tells the time of each request in turn."""

    def __init__(self, truth: Truth, arguments: Mapping[str, str], start: Start) -> None:
        self.truth = truth
        self._arguments = dict(arguments)
        self._environment = dict(os.environ)
        self._start = start
        seed = f"{truth.seed}/{start.number}"
        self._of_start = math.exp(truth.start_noise * random.Random(f"{seed}/start").gauss(0, 1))
        self._spikes = random.Random(f"{seed}/spikes")
        self._step, self._prompt = _Noise(truth, f"{seed}/step"), _Noise(truth, f"{seed}/prompt")

    def next(self) -> tuple[float, float]:
        """Return the milliseconds of a step of the next request, and those of a token of its prompt."""
        truth = self.truth
        spike = truth.spikes.factor if self._spikes.random() < truth.spikes.share else 1.0
        drift = (1 + truth.drift_per_hour) ** ((time.time() - self._start.first) / 3600)
        step, prompt = (noise.factor() * self._of_start * spike * drift for noise in (self._step, self._prompt))
        for effect in truth.effects:
            if all(one.holds(self._value(one)) for one in effect.conditions):
                step, prompt = step * effect.factor, prompt * effect.prompt_factor
        return truth.base_ms * step, truth.prompt_ms * prompt

    def _value(self, one: Condition) -> str | None:
        if one.subject == "file":
            return value_of(one.name)
        return (self._arguments if one.subject == "argument" else self._environment).get(one.name)
