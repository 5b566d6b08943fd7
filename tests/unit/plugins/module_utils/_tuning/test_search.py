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
from ansible_collections.sovereign.epyc.plugins.module_utils._tuning.search import DEFAULT, Search

THREADS, DRAFTS = [8, 16, 24, 32, 48, 64], [0, 1, 2, 3, 4, 6, 8, 12]
#: The measurements of a grid that has each combination ten times.
GRID = 10 * len(THREADS) * len(DRAFTS)


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


def searched(seed: int, noise: float) -> tuple[float, int]:
    """Return how fast the pick is as a share of the best, and the measurements."""
    draw = random.Random(seed)
    rate = landscape(draw)
    default = {"threads": 64, "draft_max": draw.choice([3, 4, 6])}
    host = Host(rate, default, draw, noise)
    picked = Search({"threads": THREADS, "draft_max": DRAFTS}, default, host).measure_until_best_is_found()
    return host.speed(picked) / max(rate(t, k) for t in THREADS for k in DRAFTS), host.measurements


@pytest.mark.parametrize("noise", [0.01, 0.02])
def test_on_hidden_landscapes_with_a_cliff_the_pick_is_as_good_as_the_best(noise: float) -> None:
    found = [searched(seed, noise) for seed in range(100)]
    assert sum(share >= 0.98 for share, dummy in found) >= 95
    assert max(count for dummy, count in found) <= GRID / 2


def test_where_nothing_matters_the_default_or_something_about_as_fast_is_picked() -> None:
    host = Host(lambda threads, drafted: 1.0, {"threads": 64, "draft_max": 3}, random.Random(1), 0.01)
    Search({"threads": THREADS, "draft_max": DRAFTS}, host.default, host).measure_until_best_is_found()
    assert {phase for phase, dummy in host.rounds} <= {schedule.SWEEP, schedule.HALVING, schedule.RACE}


def test_of_two_that_are_about_the_same_the_simpler_one_stays() -> None:
    """16 threads are as fast as 48, and with another draft nothing changes."""
    host = Host(lambda threads, drafted: 1.0 if threads in (16, 48) else 0.5, {}, random.Random(1), 0.001)
    host.default = {"threads": 64, "draft_max": 3}
    assert Search({"threads": THREADS, "draft_max": DRAFTS}, host.default, host).measure_until_best_is_found() == (
        ("threads", 16),
    )


def test_what_each_does_is_predicted_to_add_up() -> None:
    host = Host(
        lambda threads, drafted: (2.0 if threads == 8 else 1.0) * (3.0 if drafted == 1 else 1.0),
        {},
        random.Random(1),
        0,
    )
    host.default = {"threads": 64, "draft_max": 3}
    search = Search({"threads": THREADS, "draft_max": DRAFTS}, host.default, host)
    best = search.measure_until_best_is_found()
    assert best == (("threads", 8), ("draft_max", 1))
    assert math.exp(search.predict_gain(best)) == pytest.approx(6, rel=0.02)


@pytest.mark.parametrize(("threads", "rounds"), [([8, 16], 5), ([8, 16, 24], 6)])
def test_the_comparisons_of_a_race_share_the_error_level(threads: list[int], rounds: int) -> None:
    """However large an effect is, five rounds prove it at the whole error level, and six at half of it."""
    host = Host(lambda threads, drafted: threads, {"threads": 8, "draft_max": 3}, random.Random(1), 0)
    Search({"threads": threads}, host.default, host).measure_until_best_is_found()
    assert [phase for phase, dummy in host.rounds].count(schedule.RACE) == rounds


def test_a_candidate_that_cannot_be_is_not_asked_for_again() -> None:
    asked: list[Any] = []

    def measure(phase: str, candidates: Sequence[Any]) -> dict[Any, float]:
        asked.extend(candidates)
        return {one: float(dict(one).get("draft_max", 3)) for one in candidates if dict(one).get("draft_max") != 12}

    best = Search({"draft_max": DRAFTS}, {"draft_max": 3}, measure).measure_until_best_is_found()
    assert best == (("draft_max", 8),) and asked.count((("draft_max", 12),)) == 1


@pytest.mark.parametrize("rounds", range(6))
def test_when_the_time_is_over_it_is_the_best_until_then(rounds: int) -> None:
    host = Host(lambda threads, drafted: threads == 8 or 0.5, {"threads": 64, "draft_max": 3}, random.Random(1), 0.001)

    def measure(phase: str, candidates: Sequence[Any]) -> dict[Any, float] | None:
        return None if len(host.rounds) == rounds else host(phase, candidates)

    best = Search({"threads": THREADS, "draft_max": DRAFTS}, host.default, measure).measure_until_best_is_found()
    assert (best == DEFAULT) is (rounds == 0) and (rounds == 0 or dict(best)["threads"] == 8)
