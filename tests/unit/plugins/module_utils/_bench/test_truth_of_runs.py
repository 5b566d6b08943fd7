# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How often a run is wrong, and how often it finds what is there: twenty seeded runs each, with hidden effects."""

from __future__ import annotations

import copy
import math
import random
from collections import Counter

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.confidence_interval import (
    confidence_interval,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import Bench

SEEDS = range(20)
IDLE = {f"idle{number}": 0.0 for number in range(10)}


@pytest.fixture(scope="module")
def null_runs() -> list[Bench]:
    """Runs of ten settings that do nothing, on a host that becomes slower by 10 percent an hour."""
    runs = [Bench(seed, IDLE, noise=0.02, drift_per_hour=0.1) for seed in SEEDS]
    for run in runs:
        run.ablate(24, every=2)
    return runs


def test_without_an_effect_no_setting_is_claimed(null_runs: list[Bench]) -> None:
    judged = [Judgement(run.data) for run in null_runs]
    assert sum(bool(one.settings_proven_to_help_or_hurt()) for one in judged) <= 1
    assert sum(bool(one.faults) for one in judged) <= 1, "a sound run is not void"
    assert {one.word for judgement in judged for one in judgement.verdicts} <= {"undecided", "nothing", "pays", "hurts"}


def test_relabelled_arms_and_permuted_samples_give_no_claim() -> None:
    """Real effects, of which another name or another order of the numbers leaves none."""
    for seed in SEEDS:
        run = Bench(seed, {**IDLE, "up": 0.05, "down": -0.08})
        run.ablate(12, every=12)
        assert set(Judgement(run.data).settings_proven_to_help_or_hurt()) == {"up", "down"}
        draw = random.Random(seed)
        relabelled, permuted = copy.deepcopy(run.data), copy.deepcopy(run.data)
        for row in relabelled["plan"]["order"]:
            names = draw.sample(row["arms"], len(row["arms"]))
            new = dict(zip(row["arms"], names))
            for sample in relabelled["samples"]:
                if sample["round"] == row["round"]:
                    sample["arm"] = new[sample["arm"]]
        times = [sample["predicted_ms"] for sample in permuted["samples"]]
        draw.shuffle(times)
        for sample, time in zip(permuted["samples"], times):
            sample["predicted_ms"] = time
        assert (
            Judgement(relabelled).settings_proven_to_help_or_hurt()
            == Judgement(permuted).settings_proven_to_help_or_hurt()
            == []
        )


def test_chance_of_a_start_is_not_taken_for_an_effect() -> None:
    """Each start is 2 percent off, and all requests to it are alike: as samples of their own they would prove that."""
    runs = [Bench(seed, {"idle": 0.0}, schedule.RESTART, start_noise=0.02, requests=3) for seed in SEEDS]
    assert sum(bool(run.ablate(24).settings_proven_to_help_or_hurt()) for run in runs) <= 1
    assert sum(by_request(run) for run in runs) >= 5


def by_request(run: Bench) -> bool:
    """Return whether something is claimed after some round where each request is a value."""
    times = {
        arm: [math.log(sample["predicted_ms"]) for sample in run.data["samples"] if sample["arm"] == arm]
        for arm in (schedule.TUNED, "without idle")
    }
    values = [one - other for one, other in zip(*times.values())]
    looks = [confidence_interval(values[:count], 0.05) for count in range(6, len(values) + 1, 3)]
    return any(found is not None and (found.low > 0 or found.high < 0) for found in looks)


def test_real_effects_are_found_with_their_sign() -> None:
    effects = {"up": 0.05, "down": -0.08, "small": 0.02, "none": 0.0, "left": 0.0, "right": 0.0}
    found: Counter[str] = Counter()
    for seed in SEEDS:
        judgement = Bench(seed, effects, pairs={("left", "right"): 0.06}).ablate(10)
        words = {one.knob: one.word for one in judgement.verdicts}
        found.update(name for name, word in (("up", "pays"), ("down", "hurts")) if words[name] == word)
        found.update(f"{name} {word}" for name, word in words.items())
    assert found["up"] >= 19 and found["down"] >= 19
    wrong = ("none pays", "none hurts", "small hurts", "up hurts", "down pays", "left hurts", "right hurts")
    assert [name for name in wrong if found[name]] == []


def test_a_pair_that_pays_only_together_is_shown_by_the_confirmation() -> None:
    """Left out alone each seems to do all of it, which would be 12 percent; together they do 6."""
    run = Bench(5, {"left": 0.0, "right": 0.0, "down": -0.08}, pairs={("left", "right"): 0.06})
    words = {one.knob: one.word for one in run.ablate(12).verdicts}
    assert words == {"left": "pays", "right": "pays", "down": "hurts"}
    race = run.confirm(["down"]).confirmation
    assert race.kept_over_stock and race.kept_over_stock.interval and race.confirmed
    dummy, low, high = race.kept_over_stock.interval.to_ratios()
    assert low < 1.06 < high < 1.12 and low > 1
    assert race.over_tuned["latency"].word == "pays"


def test_noise_that_lasts_longer_than_a_round_voids_the_run() -> None:
    """Intervals become too narrow then: without the rule a third of such runs would claim something."""
    judged = [
        Bench(seed, {f"idle{number}": 0.0 for number in range(4)}, noise=0.02, rho=0.6).ablate(24, every=6)
        for seed in SEEDS
    ]
    assert sum(bool(one.settings_proven_to_help_or_hurt()) for one in judged) <= 1
    assert sum(any("resemble the ones before" in fault for fault in one.faults) for one in judged) >= 17
