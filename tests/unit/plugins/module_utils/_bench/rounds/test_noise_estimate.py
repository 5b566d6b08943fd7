# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import statistics
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds.measured_rounds import (
    Round,
    rounds_of_document,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds.noise_estimate import estimate_noise
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import Bench

ARMS = ["tuned", "again", "without boost"]


def name_prompt(sample: dict[str, Any]) -> None:
    sample["prompt"] = "0123456789ab"


def measure(seed: int, unit: str, rounds: int, **how: Any) -> list[Round]:
    bench = Bench(seed, {"boost": 0.3}, unit, **how)
    bench.spoil = name_prompt
    for dummy in range(rounds):
        bench.round(ARMS)
    return rounds_of_document(bench.data)


@pytest.mark.parametrize(("noise", "start_noise"), [(0.01, 0.02), (0.02, 0.005), (0.008, 0.0)])
def test_both_sources_of_noise_are_estimated(noise: float, start_noise: float) -> None:
    found = [
        estimate_noise(measure(seed, schedule.RESTART, 12, noise=noise, start_noise=start_noise, requests=3))
        for seed in range(20)
    ]
    passes, starts = [one.pass_sd for one in found], [one.start_sd for one in found]
    assert None not in passes and None not in starts
    assert statistics.median(sd or 0.0 for sd in passes) == pytest.approx(noise, rel=0.1)
    assert statistics.median(sd or 0.0 for sd in starts) == pytest.approx(start_noise, rel=0.25, abs=0.004)


def test_drift_of_the_machine_is_no_noise_of_a_start() -> None:
    rounds = measure(1, schedule.RESTART, 12, noise=0.002, start_noise=0.0, requests=3, drift_per_hour=0.1)
    found = estimate_noise(rounds)
    assert found.start_sd is not None and found.start_sd < 0.004


def test_arms_that_share_a_start_show_the_noise_of_a_pass_only() -> None:
    found = estimate_noise(measure(1, schedule.LIVE, 12, noise=0.01, start_noise=0.05))
    assert found.pass_sd == pytest.approx(0.01, rel=0.4) and found.start_sd is None


def test_a_single_round_shows_no_noise() -> None:
    found = estimate_noise(measure(1, schedule.RESTART, 1))
    assert (found.pass_sd, found.start_sd) == (None, None)
