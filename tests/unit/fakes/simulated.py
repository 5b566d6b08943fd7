# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that runs as fast as a test says, in place of the switch and the meter of a run."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._ablation import restore_guard, round_runner
from ansible_collections.sovereign.epyc.plugins.module_utils._ablation.arm_switch import InstanceVariant
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import apply_stored
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import sample, witness


class Simulated:
    """Stands for switch and meter. ``level`` is the log of how much faster an arm is.

    ``broken`` maps an arm to what goes wrong with it, ``void`` says why all is void, and ``guessing`` how many tokens
    an arm guesses.
    """

    def __init__(self, level: Callable[[Mapping[str, Any]], float], noise: float = 0.008) -> None:
        self.level = level
        self.noise = noise
        self.draw = random.Random(7)
        self.steps: list[tuple[str, str]] = []
        self.broken: dict[str, Exception] = {}
        self.void: str | None = None
        self.guessing: dict[str, int] = {}
        self.put_back = 0
        self.failures: list[str] = []
        self.begun: list[str] = []
        self.arm: Mapping[str, Any] = {}
        self.variant = InstanceVariant(None, [])

    def take_over(self, patch: pytest.MonkeyPatch) -> None:
        """Have all runs measured here."""
        patch.setattr(round_runner, "ArmSwitch", self._switch)
        patch.setattr(round_runner, "Meter", lambda *dummy: self)
        patch.setattr(restore_guard, "start_restore_guard", lambda store, fs, unit: self.begun.append(unit))
        patch.setattr(apply_stored, "end_trial_and_apply_stored", lambda store, fs: self._settle())

    def _settle(self) -> Simulated:
        self.put_back += 1
        return self

    # The switch

    def _switch(self, store: object, fs: object, target: Any, *rest: object) -> Simulated:
        self.target, self.starts = target, 0
        return self

    def apply_settings(self, arm: Mapping[str, Any]) -> None:
        """Make an arm the present one, or raise its error in ``broken``."""
        self.arm = arm
        self.steps.append(("live", arm["name"]))
        if arm["name"] in self.broken:
            raise self.broken[arm["name"]]

    def start_instance(self, arm: Mapping[str, Any]) -> None:
        """Make an arm the present one by a start."""
        self.apply_settings(arm)
        self.steps[-1] = ("start", arm["name"])
        self.starts += 1

    def host(self) -> None:
        """Return nothing: the meter does not look."""

    @property
    def settings_digest(self) -> str:
        """The settings of the arm."""
        return self.read_settings_digest()

    def read_settings_digest(self) -> str:
        """Return the settings of the arm."""
        return json.dumps(self.arm["settings"])

    # The meter

    def warm_up_and_report_instability(self) -> str:
        """Return that the pace is even."""
        return ""

    def measure_samples(
        self, where: dict[str, Any], requests: int, settings: str, digest: Any
    ) -> tuple[list[dict[str, Any]], str]:
        """Return samples as fast as this arm is."""
        samples = []
        for dummy in range(requests):
            rate = 0.02 * math.exp(self.level(self.arm) + self.draw.gauss(0, self.noise))
            proof = witness(settings_sha256=settings)
            guessed = self.guessing.get(where["arm"], 0)
            samples.append(sample(where, rate, 0.2, drafted=guessed, void=self.void, witness=proof))
        return samples, self.void or ""
