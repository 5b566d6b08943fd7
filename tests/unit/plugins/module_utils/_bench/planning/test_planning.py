# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What starts, passes and rounds cost, how many rounds an effect needs, and how the time of a run is divided."""

from __future__ import annotations

import math

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.planning import budget, costs, precision
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_arms_of_a_class_share_a_start_or_have_a_start_each() -> None:
    asked = costs.Costs(45, 35)
    assert asked.round_seconds(schedule.LIVE, 4) == 45 + 4 * 35
    assert asked.round_seconds(schedule.RESTART, 4, passes=2) == 4 * (45 + 2 * 35)


def test_costs_are_the_means_of_what_was_measured() -> None:
    meter = costs.CostMeter()
    meter.add_start(40)
    assert meter.costs is None
    meter.add_start(50)
    meter.add_passes(60, 2)
    meter.add_passes(40, 1)
    assert meter.costs is not None and meter.costs.to_plan() == {"pass_s": 35, "start_s": 45}
    recorded = {"live": {"pass_s": 1, "start_s": 2}, "restart": {"pass_s": 35, "start_s": 45}}
    found = costs.costs_of_plan({"costs": recorded})
    assert found is not None and (found.pass_s, found.start_s) == (35, 45)
    assert costs.costs_of_plan({}) is None


@pytest.mark.parametrize(
    ("start_s", "pass_s", "pass_sd", "start_sd", "passes"),
    [
        (45, 35, 0.008, 0.01, 1),
        (90, 203, 0.008, 0.01, 1),
        # A start that takes ten minutes is worth more passes, if passes are noisy.
        (600, 35, 0.01, 0.012, 3),
        (600, 35, 0.01, 0.0, precision.MAX_PASSES),
    ],
)
def test_passes_of_a_start_follow_from_costs_and_variances(
    start_s: float, pass_s: float, pass_sd: float, start_sd: float, passes: int
) -> None:
    noise = precision.Noise(pass_sd, start_sd)
    assert precision.best_passes_per_start(costs.Costs(start_s, pass_s), noise) == passes


def test_more_passes_do_not_average_out_the_chance_of_a_start() -> None:
    noise = precision.Noise(0.01, 0.02)
    assert math.isclose(noise.standard_deviation_of_log_ratio(schedule.LIVE, 4), 0.01 * math.sqrt(2 / 4))
    assert noise.standard_deviation_of_log_ratio(schedule.RESTART, 100) > 0.02 * math.sqrt(2)


def test_larger_effects_need_fewer_rounds() -> None:
    needed = [precision.rounds_for_half_width(effect, 0.018, 0.0026) for effect in (0.02, 0.04, 0.08)]
    assert needed == sorted(needed, reverse=True) and needed[-1] < 10 < needed[0]
    assert precision.interval_half_width(needed[0], 0.018, 0.0026) <= 0.02
    assert precision.interval_half_width(needed[0] - 1, 0.018, 0.0026) > 0.02
    assert precision.rounds_for_half_width(1e-9, 1.0, 0.05) == precision.MAX_PLANNED_ROUNDS


def test_the_confirmation_has_its_time_before_all_else() -> None:
    clock = Clock()
    time = budget.Budget(10, clock)
    time.reserve_rounds(2, 100)
    assert (time.seconds_left(), time.free_seconds()) == (600, pytest.approx(600 - 220))
    clock.now += 500
    assert time.free_seconds() < 0 < time.seconds_left()
    time.release_reserve()
    assert time.free_seconds() == 100
    clock.now += 200
    assert time.format_time_left() == "0 s left"


@pytest.mark.parametrize(
    ("seconds", "text"), [(40.4, "40 s"), (110, "2 min"), (7199, "2 h 00 min"), (11400, "3 h 10 min")]
)
def test_times_for_people(seconds: float, text: str) -> None:
    assert budget.format_seconds(seconds) == text
