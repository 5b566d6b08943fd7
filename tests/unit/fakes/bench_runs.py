# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host with hidden effects that is measured as a run would: the documents that the verdicts are tested on.

Effects, drift and noise are shares: 0.05 is 5 percent. All is drawn from one seed. A sample takes 20 seconds of the
host's time, in which it becomes slower by its drift.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import document_shape, run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement

KINDS = ("prose", "code", "summary")
#: Tokens per second of stock by kind, before any effect.
SPEED = {"prose": 20.0, "code": 30.0, "summary": 25.0}
SECONDS = 20
TOKENS = 96


def fingerprint() -> dict[str, Any]:
    """Return a fingerprint of which nothing is known."""
    known: dict[str, Any] = {"arguments": [], "settings": {}}
    return {name: known.get(name) for name in document_shape.FINGERPRINT}


def witness(**other: Any) -> dict[str, Any]:
    """Return what the witnesses of a quiet host say."""
    quiet: dict[str, Any] = {"others": 0.0, "steal": 0.0, "freq_mhz": None, "pages_by_node": {}}
    energy: dict[str, Any] = {"joules": None, "seconds": None, "tokens": None, "power_source": None, "busiest": []}
    return {**quiet, **energy, "settings_sha256": None, **other}


def sample(where: Mapping[str, Any], rate: float, prompt_rate: float, streams: int = 1, **other: Any) -> dict[str, Any]:
    """Return a sample at a rate of tokens per millisecond of all streams together, and a rate of reading prompts.

    With several streams the rate is end to end, and nothing but the reading of prompts takes from it.
    """
    prompt_ms = 512 / prompt_rate
    data: dict[str, Any] = {
        **where,
        "kind": "prose",
        "streams": streams,
        "depth": 0,
        "turn": 1,
        "rate": None,
        "time": None,
        "prompt": None,
        "prompt_n": 512,
        "prompt_ms": prompt_ms,
        "predicted_n": TOKENS,
        "predicted_ms": streams * TOKENS / rate,
        "output_n": TOKENS,
        "output_ms": TOKENS / rate + (prompt_ms if streams == 1 else 0),
        "drafted": 0,
        "accepted": 0,
        "ttft_ms": None,
        "ttfts_ms": [],
        "gaps_ms": [],
        "text_sha256": "same",
        "within_slo": None,
        "witness": witness(),
        "void": None,
    }
    return {**data, **other}


def scale_time(changed: dict[str, Any], factor: float) -> None:
    """Make the generation of a sample take longer by a factor."""
    longer = changed["predicted_ms"] * (factor - 1) / changed["streams"]
    changed["predicted_ms"] *= factor
    changed["output_ms"] += longer


def knob(name: str, unit: str = schedule.LIVE) -> dict[str, Any]:
    """Return a setting of which the original is 1."""
    return {"name": name, "class": unit, "settings": {f"sysfs:{name}": "1"}, "arguments": []}


class Bench:
    """A host and its run. ``effects`` maps a setting to what it does, ``pairs`` two settings to what both do together.

    ``noise`` is that of a sample, ``start_noise`` that of a start, and ``rho`` how much the noise of an arm resembles
    that of its round before. ``by_metric`` maps (setting, metric) to another effect than the one on decoding.
    """

    def __init__(
        self,
        seed: int,
        effects: Mapping[str, float],
        unit: str = schedule.LIVE,
        noise: float = 0.01,
        start_noise: float = 0.0,
        drift_per_hour: float = 0.0,
        rho: float = 0.0,
        pairs: Mapping[tuple[str, str], float] | None = None,
        kinds: tuple[str, ...] = ("prose",),
        streams: tuple[int, ...] = (1,),
        by_metric: Mapping[tuple[str, str], float] | None = None,
        requests: int = 1,
    ) -> None:
        self.draw = random.Random(seed)
        self.effects, self.unit, self.noise, self.start_noise = effects, unit, noise, start_noise
        self.drift, self.rho, self.pairs, self.requests = drift_per_hour, rho, pairs or {}, requests
        self.kinds, self.streams, self.by_metric = kinds, streams, by_metric or {}
        self.last: dict[str, float] = {}
        self.clock, self.starts, self.nth = 0.0, 0, {schedule.ABLATION: 0, schedule.CONFIRMATION: 0}
        arms = schedule.build_ablation_arms([knob(name, unit) for name in effects])
        self.data = run_document.new_run_document(
            f"run-{seed}", "chat", "2026-11-25T00:00:00Z", seed, fingerprint(), arms
        )
        #: What a test changes in each sample before it is written down.
        self.spoil: Callable[[dict[str, Any]], None] = lambda sample: None

    def on(self, arm: str) -> list[str]:
        """Return the settings that an arm has."""
        if arm == schedule.STOCK:
            return []
        (there,) = (one for one in self.data["plan"]["arms"] if one["name"] == arm)
        gone = {address.partition(":")[2] for address in there["settings"]}
        return [name for name in self.effects if name not in gone]

    def level(self, arm: str, metric: str) -> float:
        """Return the logarithm of what an arm's settings do to a metric."""
        on = self.on(arm)
        single = math.fsum(math.log1p(self.by_metric.get((name, metric), self.effects[name])) for name in on)
        return single + math.fsum(math.log1p(gain) for pair, gain in self.pairs.items() if set(pair) <= set(on))

    def round(self, names: list[str], phase: str = schedule.ABLATION) -> None:
        """Measure one round."""
        rows = self.data["plan"]["order"]
        self.nth[phase] += 1
        row = schedule.plan_round(self.data["seed"], len(rows) + 1, self.unit, self.nth[phase], names, phase)
        rows.append(row)
        luck = self.draw.gauss(0, self.start_noise)
        self.starts += row["restart"]
        for arm in row["arms"]:
            if not schedule.REPETITIONS[self.unit].shares_start:
                self.starts += 1
                luck = self.draw.gauss(0, self.start_noise)
            fresh = self.draw.gauss(0, self.noise)
            kept = self.rho * self.last.get(arm, 0.0)
            self.last[arm] = kept + fresh * math.sqrt(1 - self.rho**2) if arm in self.last else fresh
            for dummy in range(self.requests):
                self.answer(row, arm, luck + (self.last[arm] if self.requests == 1 else self.draw.gauss(0, self.noise)))

    def answer(self, row: Mapping[str, Any], arm: str, luck: float) -> None:
        """Write down the samples of one request for each kind."""
        self.clock += SECONDS
        luck += self.clock / 3600 * math.log1p(-self.drift)
        for kind in self.kinds:
            for streams in self.streams:
                metric = kind if streams == 1 else str(streams)
                rate = SPEED[kind] / 1000 * streams**0.5
                where = {"round": row["round"], "arm": arm, "start": self.starts}
                measured = sample(
                    where,
                    rate * math.exp(luck + self.level(arm, metric)),
                    rate * 10 * math.exp(luck + self.level(arm, "prefill")),
                    streams,
                    kind=kind,
                )
                self.spoil(measured)
                self.data["samples"].append(measured)

    def ablate(self, most: int, every: int = 1) -> Judgement:
        """Measure rounds until all is decided or there are ``most``; look after each of ``every`` rounds."""
        judgement = Judgement(self.data)
        still = list(self.effects)
        while still and self.nth[schedule.ABLATION] < most:
            self.round(schedule.arm_names_of_round(self.data["plan"]["arms"], self.unit, still))
            if self.nth[schedule.ABLATION] % every == 0 and self.nth[schedule.ABLATION] >= 4:
                judgement = Judgement(self.data)
                still = judgement.undecided_settings(self.unit)
        return judgement

    def confirm(self, removed: list[str]) -> Judgement:
        """Race what is left without some settings against stock and tuned."""
        self.data["plan"]["arms"].append(schedule.build_kept_arm([knob(name) for name in removed], self.unit))
        for dummy in range(schedule.CONFIRMATION_ROUNDS):
            self.round([schedule.STOCK, schedule.TUNED, schedule.KEPT], schedule.CONFIRMATION)
        return Judgement(run_document.validate_document(self.data))
