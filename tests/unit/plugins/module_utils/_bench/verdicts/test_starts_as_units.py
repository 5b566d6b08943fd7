# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a setting does may differ by the start of the server, so that rounds on one start are one repetition."""

from __future__ import annotations

import math
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import measured_rounds, schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.comparison import make_decision_rule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import Bench, scale_time

ROUNDS_OF_A_START = 5


def measure(seed: int, rounds: int, effect_sd: float, per_start: int = ROUNDS_OF_A_START) -> Bench:
    """Return a run of one setting without an effect on average; on each start its effect is another one."""
    bench = Bench(seed, {"idle": 0.0}, noise=0.005)
    effects: dict[int, float] = {}

    def share_start(sample: dict[str, Any]) -> None:
        sample["start"] = 1 + (sample["round"] - 1) // per_start
        effect = effects.setdefault(sample["start"], bench.draw.gauss(0, effect_sd))
        if sample["arm"] == "without idle":
            scale_time(sample, math.exp(effect))

    bench.spoil = share_start
    for dummy in range(rounds):
        bench.round(["tuned", "again", "without idle"])
    return bench


def test_rounds_that_share_a_start_are_one_value() -> None:
    rounds = measured_rounds.rounds_of_document(measure(1, 10, 0.0).data)
    values = measured_rounds.log_ratios_of_counting_rounds(rounds, "without idle", measured_rounds.ONE_STREAM)
    first = [
        one.levels["tuned"][measured_rounds.ONE_STREAM] - one.levels["without idle"][measured_rounds.ONE_STREAM]
        for one in rounds[:ROUNDS_OF_A_START]
    ]
    assert len(values) == 2 and math.isclose(values[0], sum(first) / ROUNDS_OF_A_START)


def test_an_effect_that_differs_by_start_is_not_claimed() -> None:
    """One percent by start; a run is looked at after each start, and ends with the first claim."""
    claims = faults = 0
    for seed in range(60):
        bench = measure(seed, 40, 0.01)
        judgement = Judgement(bench.data)
        faults += bool(judgement.faults)
        rule = make_decision_rule(bench.data["plan"], schedule.LIVE)
        claims += is_claimed_at_any_look(judgement, rule)
    assert claims <= 3
    assert faults <= 3, "effects by start are no reason to discard a run"


def is_claimed_at_any_look(judgement: Judgement, rule: Any) -> bool:
    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.comparison import Comparison

    key = measured_rounds.ONE_STREAM
    values = measured_rounds.log_ratios_of_counting_rounds(judgement.rounds, "without idle", key)
    looks = [Comparison(key, values[:count], rule) for count in range(1, len(values) + 1)]
    return any(look.word in ("pays", "hurts") for look in looks)


def test_ten_rounds_on_two_starts_confirm_nothing() -> None:
    bench = measure(1, 4, 0.0, per_start=1)
    bench.data["plan"]["arms"].append(schedule.build_kept_arm([], "live"))
    for dummy in range(schedule.CONFIRMATION_ROUNDS):
        bench.round(["stock", "tuned", "kept"], schedule.CONFIRMATION)
    assert Judgement(bench.data).confirmation.confirmed
    for sample in bench.data["samples"]:
        sample["start"] = 1 + (sample["round"] - 1) // ROUNDS_OF_A_START
    race = Judgement(bench.data).confirmation
    assert race.kept_over_stock and race.kept_over_stock.count < 4 and not race.confirmed


def test_a_run_of_which_no_round_counts_is_at_fault() -> None:
    bench = measure(1, 3, 0.0, per_start=1)
    for sample in bench.data["samples"]:
        sample["void"] = "Other programs ran."
    judgement = Judgement(bench.data)
    assert judgement.faults == [
        "No round counts, of 3. The last was discarded: Other programs ran. Remove what disturbs this host, and "
        "measure again."
    ]
    assert judgement.undecided_settings("live") == ["idle"], "the next round may count"
