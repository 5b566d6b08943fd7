# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulated server in simulated time: starts and passes take seconds of its clock, and settings have hidden effects.

It stands for switch and meter, as ``Simulated`` does. All else is the real code: which rounds are measured, and what
the samples prove.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._ablation import (
    ablation,
    removable_options,
    removable_settings,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import MeasuringRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import sample, witness
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured
from ansible_collections.sovereign.epyc.tests.unit.fakes.simulated import Simulated

#: Metrics on which a setting may have an effect.
DECODE, PREFILL, THROUGHPUT = "decode", "prefill", "throughput"
#: Tokens per second of one stream and of the reading of a prompt, before any effect.
RATE, PROMPT_RATE = 40.0, 400.0
#: The name of the setting with which the server drafts tokens.
SPECULATION = "speculation"
#: Drafted and accepted tokens of an answer of 96 tokens: 2.4 tokens a step.
DRAFTED, ACCEPTED = 80, 56
#: Prompts of a pass in a world in which prompts differ: kind and number.
PROMPTS = [(kind, number) for kind in ("prose", "code", "summary") for number in range(3)]


class Clock:
    """Seconds that pass only when the simulated server takes them."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Return the present second."""
        return self.now


def save_only_ended_documents(patch: pytest.MonkeyPatch) -> None:
    """Have documents written at the end of a run only: each writing validates the whole document and the old file."""
    save = run_document.save_document
    patch.setattr(
        run_document, "save_document", lambda path, document: save(path, document) if document["ended"] else None
    )


class Setting:
    """A setting with its effects as shares by metric; an effect may differ by start, with a standard deviation."""

    def __init__(
        self, name: str, unit: str, effects: Mapping[str, float] | float = 0.0, sd_by_start: float = 0.0
    ) -> None:
        self.name = name
        self.unit = unit
        self.effects = dict(effects) if isinstance(effects, Mapping) else {DECODE: effects, THROUGHPUT: effects}
        self.sd_by_start = sd_by_start

    def to_removable(self) -> dict[str, Any]:
        """Return the setting as the run gets it from the host."""
        return {"name": self.name, "class": self.unit, "settings": {f"sysfs:{self.name}": "1"}, "arguments": []}


class TimedServer(Simulated):
    """A server whose starts and passes take seconds, with the noise of starts and of passes."""

    def __init__(
        self,
        settings: Sequence[Setting],
        seed: int,
        start_s: float = 45.0,
        pass_s: float = 35.0,
        noise: float = 0.008,
        start_noise: float = 0.01,
        pairs: Mapping[tuple[str, str], float] | None = None,
        streams: int = 1,
        differing_texts: int | None = None,
    ) -> None:
        """Begin; ``differing_texts`` is how many of several prompts have another text with speculation.

        Without it there is one prompt only.
        """
        super().__init__(lambda arm: 0.0, noise)
        self.settings = list(settings)
        self.draw = random.Random(seed)
        self.clock = Clock()
        self.start_s, self.pass_s, self.start_noise = start_s, pass_s, start_noise
        self.pairs = pairs or {}
        self.streams = streams
        self.differing_texts = differing_texts
        self.luck = 0.0
        self.luck_of_settings: dict[str, float] = {}

    def take_over(self, patch: pytest.MonkeyPatch) -> None:
        """Have all runs measured here, on a host with these settings."""
        super().take_over(patch)
        host_settings = [setting.to_removable() for setting in self.settings]
        patch.setattr(removable_settings, "list_removable_settings", lambda host, store, reboots: (host_settings, {}))
        patch.setattr(removable_options, "list_removable_options", lambda target, host: [])

    def start_instance(self, arm: Mapping[str, Any]) -> None:
        """Start the server for an arm; the start has its own luck."""
        self.clock.now += self.start_s
        super().start_instance(arm)
        self.luck = self.draw.gauss(0, self.start_noise)
        self.luck_of_settings = {
            setting.name: self.draw.gauss(0, setting.sd_by_start) for setting in self.settings if setting.sd_by_start
        }

    def log_level(self, metric: str) -> float:
        """Return how much faster the present arm is in a metric, as a natural logarithm."""
        present = [setting for setting in self.settings if setting.name not in self.arm["removed"]]
        level = self.luck + self.draw.gauss(0, self.noise)
        for setting in present:
            level += math.log1p(setting.effects.get(metric, 0.0)) + self.luck_of_settings.get(setting.name, 0.0)
        return level + sum(math.log1p(gain) for pair, gain in self.pairs.items() if self.settings_present(*pair))

    def measure_samples(
        self, where: dict[str, Any], requests: int, settings: str, digest: Any
    ) -> tuple[list[dict[str, Any]], str]:
        """Return the samples of some passes, which take their time."""
        samples = []
        for dummy in range(requests):
            self.clock.now += self.pass_s
            samples += self.measure_pass(where, {"void": self.void, "witness": witness(settings_sha256=settings)})
        return samples, self.void or ""

    def measure_pass(self, where: dict[str, Any], other: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the samples of one pass."""
        if self.settings_present(SPECULATION):
            other = {**other, "drafted": DRAFTED, "accepted": ACCEPTED}
        if self.differing_texts is not None:
            return [self.measure_prompt(where, at, other) for at in range(len(PROMPTS))]
        rates = [math.exp(self.log_level(metric)) for metric in (DECODE, PREFILL)]
        samples = [sample(where, rates[0] * RATE / 1000, rates[1] * PROMPT_RATE / 1000, **other)]
        if self.streams > 1:
            rate = 3 * RATE / 1000 * math.exp(self.log_level(THROUGHPUT))
            samples.append(sample(where, rate, PROMPT_RATE / 1000, self.streams, **other))
        return samples

    def settings_present(self, *names: str) -> bool:
        """Return whether the present arm has all these settings."""
        there = {setting.name for setting in self.settings} - set(self.arm["removed"])
        return set(names) <= there

    def measure_prompt(self, where: dict[str, Any], at: int, other: dict[str, Any]) -> dict[str, Any]:
        """Return the sample of a prompt, on whose text the gain of speculation depends."""
        kind = PROMPTS[at][0]
        speculating = self.settings_present(SPECULATION)
        own_gain = random.Random(at).gauss(0, 0.1) if speculating else 0.0
        rate = RATE / 1000 * math.exp(self.log_level(DECODE) + own_gain)
        differs = speculating and at < (self.differing_texts or 0)
        told = {"kind": kind, "prompt": f"{at:012x}", "text_sha256": f"text {at}{' drafted' * differs}"}
        return sample(where, rate, PROMPT_RATE / 1000, **{**other, **told})


def run_timed_ablation(
    host: Measured, server: TimedServer, minutes: float, seed: int, **options: Any
) -> dict[str, Any]:
    """Run an ablation on a server in simulated time, and return the document of the run."""
    request = MeasuringRequest({"streams": [], "output": None, **options.pop("request", {})})
    dummy, document = ablation.run_ablation(
        host.host(),
        request,
        ablation.AblationRequest({"seed": seed, "minutes": minutes, **options}),
        lambda line: None,
        server.clock,
    )
    return document


def thirty_billion_host() -> list[Setting]:
    """Return 8 live and 9 restart settings, three of which have an effect."""
    effects = {"speculation": 0.25, "memory policy": 0.15, "threads": 0.08}
    live = [Setting(f"live {at}", schedule.LIVE) for at in range(8)]
    names = [*effects, *(f"restart {at}" for at in range(6))]
    return live + [Setting(name, schedule.RESTART, effects.get(name, 0.0)) for name in names]
