# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the search picks on hidden landscapes, with noise and drift, and how many measurements it takes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._tuning.gain_model import (
    DEFAULT,
    GainEstimates,
    GainModel,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._tuning.search import Search

THREADS, DRAFTS = [8, 16, 24, 32, 48, 64], [0, 1, 2, 3, 4, 6, 8, 12]
SPACE = {"threads": THREADS, "draft_max": DRAFTS}
#: The standard deviation of one measurement that the model assumes.
NOISE = 0.013


def landscape(draw: random.Random) -> Callable[[int, int], float]:
    """Tokens per second by threads and length of the draft: memory saturates, barriers cost, and behind one length the
    time of a step jumps."""
    right, cost = draw.uniform(0.5, 0.92), draw.uniform(0.03, 0.25)
    cliff, fall = draw.choice([3, 4, 6, 8]), draw.uniform(0.2, 0.7)
    saturated, barrier, more = draw.uniform(0.2, 1), draw.uniform(0, 0.012), draw.uniform(0.01, 0.12)

    def rate(threads: int, drafted: int) -> float:
        step = 1 / min(1, threads / 64 / saturated) + barrier * threads
        step += more * drafted * (64 / threads) ** 0.5 + cost * drafted * (1 + 0.3 * threads / 64)
        return sum(right**k for k in range(drafted + 1)) / step / (1 + fall * (drafted > cliff))

    return rate


class Host:
    """Measures candidates: noise as a share, and it gets slower by a tenth in an hour of two measurements a minute."""

    def __init__(self, rate: Callable[[int, int], float], default: dict[str, Any], draw: random.Random, noise: float):
        self.rate, self.default, self.draw, self.noise = rate, default, draw, noise
        self.measurements = 0
        self.rounds: list[tuple[str, int]] = []

    def speed(self, candidate: Any) -> float:
        values = {**self.default, **dict(candidate)}
        return self.rate(values["threads"], values["draft_max"])

    def __call__(self, phase: str, candidates: Sequence[Any]) -> dict[Any, float] | None:
        self.rounds.append((phase, len(candidates)))
        order = sorted(candidates, key=lambda one: self.draw.random())
        levels = {}
        for one in order:
            self.measurements += 1
            drift = math.log(1 - 0.1 * self.measurements / 120)
            levels[one] = math.log(self.speed(one)) + drift + self.draw.gauss(0, self.noise)
        return levels


def make_search(host: Any, arms: int = 150, space: dict[str, list[int]] | None = None, **functions: Any) -> Search:
    """Return a search on a host with a limited number of measurements."""
    space = space or SPACE
    model = GainModel(space, host.default, dict.fromkeys(space, 0.08), NOISE)
    calls = {"measure": host, "is_possible": lambda candidate: True, **functions}
    return Search(space, host.default, model, count_affordable_arms=lambda: arms - host.measurements, **calls)


def searched(seed: int, noise: float) -> tuple[float, int]:
    """Return how fast the pick is as a share of the best, and the measurements."""
    draw = random.Random(seed)
    rate = landscape(draw)
    host = Host(rate, {"threads": 64, "draft_max": draw.choice([3, 4, 6])}, draw, noise)
    picked = make_search(host).measure_until_best_is_found()
    return host.speed(picked) / max(rate(t, k) for t in THREADS for k in DRAFTS), host.measurements


@pytest.mark.parametrize("noise", [0.01, 0.02])
def test_on_hidden_landscapes_with_a_cliff_the_pick_is_as_good_as_the_best(noise: float) -> None:
    found = [searched(seed, noise) for seed in range(6)]
    assert sum(share >= 0.98 for share, dummy in found) >= 5
    # A grid of all combinations, each measured twice, would take 96.
    assert sum(count for dummy, count in found) / len(found) < 96


def test_where_nothing_matters_no_large_gain_is_estimated() -> None:
    host = Host(lambda threads, drafted: 1.0, {"threads": 64, "draft_max": 3}, random.Random(1), 0.01)
    search = make_search(host)
    assert search.estimates.mean_gain(search.measure_until_best_is_found()) < math.log(1.02)
    assert {phase for phase, dummy in host.rounds} <= {schedule.SWEEP, schedule.RACE}


def test_of_two_that_are_about_the_same_the_simpler_one_stays() -> None:
    """16 threads are as fast as 48, and with another draft nothing changes."""
    host = Host(lambda threads, drafted: 1.0 if threads in (16, 48) else 0.9, {}, random.Random(1), 0.0)
    host.default = {"threads": 64, "draft_max": 3}
    best = dict(make_search(host).measure_until_best_is_found())
    assert best in ({"threads": 16}, {"threads": 48})


def test_what_each_does_is_predicted_to_add_up() -> None:
    def rate(threads: int, drafted: int) -> float:
        return (1.1 if threads == 8 else 1.0) * (1.2 if drafted == 1 else 1.0)

    model = GainModel(SPACE, {"threads": 64, "draft_max": 3}, dict.fromkeys(SPACE, 0.1), 0.001)
    alone = {(): 0.0, (("threads", 8),): math.log(1.1), (("draft_max", 1),): math.log(1.2)}
    both = (("threads", 8), ("draft_max", 1))
    assert math.exp(GainEstimates(model, [alone]).mean_gain(both)) == pytest.approx(1.32, rel=0.01)
    host = Host(rate, {"threads": 64, "draft_max": 3}, random.Random(1), 0.002)
    assert make_search(host).measure_until_best_is_found() == both


def test_two_options_that_depend_on_each_other_are_found_together() -> None:
    """With fewer threads a longer draft is better; each alone gains less than half of what both gain."""

    def rate(threads: int, drafted: int) -> float:
        return math.exp(
            -((THREADS.index(threads) - 2) ** 2) / 60 - (DRAFTS.index(drafted) + THREADS.index(threads) - 7) ** 2 / 60
        )

    host = Host(rate, {"threads": 64, "draft_max": 1}, random.Random(2), 0.01)
    best = dict(make_search(host).measure_until_best_is_found())
    assert rate(best["threads"], best["draft_max"]) >= 0.98


def test_options_with_large_expected_effects_come_first() -> None:
    host = Host(lambda threads, drafted: 1.0, {"threads": 64, "draft_max": 3}, random.Random(1), 0.01)
    tried: list[Any] = []

    def measure(phase: str, candidates: Sequence[Any]) -> dict[Any, float] | None:
        tried.extend(candidates)
        return host(phase, candidates)

    model = GainModel(SPACE, host.default, {"threads": 0.02, "draft_max": 0.2}, NOISE)
    Search(
        SPACE, host.default, model, measure, lambda one: True, lambda: 7 - host.measurements
    ).measure_until_best_is_found()
    assert {option for candidate in tried for option, value in candidate} == {"draft_max"}


def test_values_behind_a_cliff_cost_few_measurements() -> None:
    """Each of them is worse than the one before, so not each of them is measured."""
    host = Host(
        lambda threads, drafted: 1.0 if drafted <= 3 else 0.5, {"threads": 64, "draft_max": 3}, random.Random(1), 0.01
    )
    counts: dict[Any, int] = {}

    def measure(phase: str, candidates: Sequence[Any]) -> dict[Any, float] | None:
        for candidate in candidates:
            drafted = dict(candidate).get("draft_max", 3)
            counts[drafted] = counts.get(drafted, 0) + 1
        return host(phase, candidates)

    make_search(host, measure=measure).measure_until_best_is_found()
    assert sum(counts.get(drafted, 0) for drafted in (4, 6, 8, 12)) < sum(counts.values()) / 4


def test_a_candidate_that_cannot_be_is_not_asked_for_again() -> None:
    """Twelve does not start, and eight is refused before any start."""
    asked: list[Any] = []
    host = Host(lambda threads, drafted: 1 + drafted / 50, {"threads": 64, "draft_max": 3}, random.Random(1), 0.001)

    def measure(phase: str, candidates: Sequence[Any]) -> dict[Any, float] | None:
        asked.extend(candidates)
        return host(phase, [one for one in candidates if dict(one).get("draft_max") != 12])

    search = make_search(
        host, space={"draft_max": DRAFTS}, measure=measure, is_possible=lambda one: dict(one).get("draft_max") != 8
    )
    assert search.measure_until_best_is_found() == (("draft_max", 6),)
    assert asked.count((("draft_max", 12),)) == 1 and not asked.count((("draft_max", 8),))
    assert search.untried_values() == []


def test_when_the_time_is_over_it_is_the_best_until_then() -> None:
    for arms in (2, 8, 16, 40):
        host = Host(
            lambda threads, drafted: threads == 8 or 0.5, {"threads": 64, "draft_max": 3}, random.Random(1), 0.001
        )
        search = make_search(host, arms)
        best = search.measure_until_best_is_found()
        assert host.measurements <= arms
        assert best == DEFAULT if arms == 2 else arms < 16 or dict(best)["threads"] == 8
    assert len(search.untried_values()) < 3
