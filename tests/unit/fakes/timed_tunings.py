# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulated server in simulated time whose rate depends on its options: a hidden landscape that a tuning searches."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._ablation.arm_switch import InstanceVariant
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import MeasuringRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._tuning import tuning
from ansible_collections.sovereign.epyc.plugins.module_utils._tuning.search_space import SearchSpace
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import sample
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured
from ansible_collections.sovereign.epyc.tests.unit.fakes.timed_worlds import PROMPT_RATE, RATE, TimedServer

#: Eight options with 31 values beside those of the default.
SPACE: dict[str, list[Any]] = {
    "threads": [32, 64, 80, 96, 112, 128],
    "threads_batch": [32, 64, 80, 96, 112, 128],
    "speculation": ["none", "ngram", "ngram,draft"],
    "draft_max": [1, 2, 3, 4, 5, 6, 8, 10, 13, 16],
    "draft_p_min": [0.0, 0.25, 0.5, 0.75],
    "ubatch": [128, 256, 512, 1024, 2048],
    "memory": ["local", "bind", "interleave"],
    "hugepages": ["none", "thp"],
}
DEFAULT: dict[str, Any] = {
    "threads": 128,
    "threads_batch": 128,
    "speculation": "ngram",
    "draft_max": 3,
    "draft_p_min": 0.75,
    "ubatch": 512,
    "memory": "interleave",
    "hugepages": "none",
}
#: How uneven a rate is beside its main shape, as a share of the largest loss of an option.
UNEVENNESS = 0.04


class Landscape:
    """Log rates by options, relative to the default; ``best`` is the largest one.

    One combination is the best. Each option loses with the distance from its best value. Longer drafts than the best
    length fall off a cliff, and the best length depends on the threads. Two pairs of options depend on each other.
    """

    def __init__(self, seed: int, flat: bool = False) -> None:
        draw = random.Random(f"landscape {seed}")
        self._scale, self.best = 0.0, 0.0
        while not flat:
            self._draw_shape(draw)
            self._scale, self._base = 1.0, 0.0
            self._base = self(DEFAULT)
            starts = [self._peaks, *({o: draw.choice(v) for o, v in SPACE.items()} for dummy in range(8))]
            gain = max(self._climb(start) for start in starts)
            self.best = math.log(draw.uniform(1.2, 1.3))
            if gain > 0.5:
                self._scale = self.best / gain
                return

    def _draw_shape(self, draw: random.Random) -> None:
        self._peaks = {option: draw.choice(values) for option, values in SPACE.items()}
        self._losses = {option: draw.choice([0.05, 0.5, 1.0]) * draw.uniform(0.5, 1.0) for option in SPACE}
        self._unlike = {(o, v): draw.uniform(0.3, 1.0) for o, values in SPACE.items() for v in values}
        self._uneven = {(o, v): draw.gauss(0, UNEVENNESS) for o, values in SPACE.items() for v in values}
        self._cliff, self._lean = draw.uniform(1.0, 3.0), draw.choice([-1, 0, 1])
        self._pairs: list[tuple[str, str, float]] = []
        for dummy in range(2):
            first, second = draw.sample(list(SPACE), 2)
            self._pairs.append((first, second, draw.uniform(-0.4, 0.4)))

    def __call__(self, options: Mapping[str, Any]) -> float:
        """Return the log rate of the default with these options instead of its own."""
        if not self._scale:
            return 0.0
        values = {**DEFAULT, **options}
        shares = {option: SPACE[option].index(value) / (len(SPACE[option]) - 1) for option, value in values.items()}
        level = sum(self._value_level(option, value, values) for option, value in values.items())
        level += sum(size * (shares[one] - 0.5) * (shares[other] - 0.5) * 2 for one, other, size in self._pairs)
        return self._scale * (level - self._base)

    def _value_level(self, option: str, value: Any, values: Mapping[str, Any]) -> float:
        loss, uneven = self._losses[option], self._losses[option] * self._uneven[option, value]
        if isinstance(value, str):
            return uneven - (loss * self._unlike[option, value] if value != self._peaks[option] else 0.0)
        at, peak = SPACE[option].index(value), SPACE[option].index(self._peaks[option])
        if option == "draft_max":
            peak += self._lean * (SPACE["threads"].index(values["threads"]) - 3) // 2
            peak = min(max(peak, 0), len(SPACE[option]) - 1)
            if at > peak:
                return uneven - self._cliff - 0.1 * (at - peak)
        return uneven - loss * 1.5 * math.pow(abs(at - peak) / (len(SPACE[option]) - 1), 1.3)

    def _climb(self, values: Mapping[str, Any]) -> float:
        """Return the largest level that is reached by changes of one option."""
        level = self(values)
        while True:
            near = [{**values, option: value} for option in SPACE for value in SPACE[option]]
            better = max(near, key=self)
            if self(better) <= level:
                return level
            level, values = self(better), better


class TunedServer(TimedServer):
    """A server with a hidden landscape; ``drift`` is how much slower it gets in an hour."""

    def __init__(
        self, log_rate: Callable[[Mapping[str, Any]], float], seed: int, drift: float = 0.0, **costs: Any
    ) -> None:
        super().__init__([], seed, **costs)
        self.log_rate = log_rate
        self.drift = drift

    def take_over(self, patch: pytest.MonkeyPatch) -> None:
        """Have all runs measured here, on an instance with the options of the landscape."""
        super().take_over(patch)
        patch.setattr(tuning, "Candidates", AnyCandidate)
        patch.setattr(tuning, "build_search_space", lambda service, host, server: make_search_space())

    def measure_pass(self, where: dict[str, Any], other: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the samples of one pass; the rates of answer and prompt are equally larger."""
        level = self.log_rate(self.arm["options"]) + self.luck + self.draw.gauss(0, self.noise)
        factor = math.exp(level - self.drift * self.clock.now / 3600)
        return [sample(where, factor * RATE / 1000, factor * PROMPT_RATE / 1000, **other)]


class AnyCandidate:
    """Stands for the planner, which takes each candidate."""

    def __init__(self, host: object, raw: object, target: object) -> None:
        self.service = self.default = InstanceVariant(None, [])

    def build_variant(self, options: Mapping[str, Any], name: str) -> InstanceVariant:
        """Return a variant without anything."""
        return InstanceVariant("[Service]", [])

    def capabilities_of(self, service: object) -> None:
        """Return no capabilities: the space of the landscapes depends on none."""


def make_search_space() -> SearchSpace:
    """Return the space of the landscapes."""
    space = SearchSpace()
    for option, values in SPACE.items():
        space.add_option_with_other_values(option, DEFAULT[option], values)
    return space


def run_timed_tuning(host: Measured, server: TunedServer, minutes: float, seed: int, **options: Any) -> dict[str, Any]:
    """Run a tuning on a server in simulated time, and return the document of the run, with all its steps."""
    steps: list[str] = []
    request = tuning.TuningRequest({"instance": {"name": "chat"}, "seed": seed, "minutes": minutes, **options})
    measuring = MeasuringRequest({"streams": [], "output": None})
    dummy, document = tuning.run_tuning(host.host(), measuring, request, steps.append, server.clock)
    document["steps told"] = steps
    return document
