# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a setting gains or loses by objective, and what follows for the settings that are kept."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.objectives import combine_verdict_words
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement, Verdict
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import Bench, witness

SEEDS = range(20)
ROUND = ["tuned", "again", "without ubatch"]


def measure(
    seed: int, effect: float = 0.0, rounds: int = 12, objectives: tuple[str, ...] = ("latency", "prompt"), **how: Any
) -> Bench:
    """Return a run of one setting with an effect on decoding; ``by_metric`` may say another one of other metrics."""
    bench = Bench(seed, {"ubatch": effect}, noise=how.pop("noise", 0.008), **how)
    bench.data["plan"].update(objective=objectives[0], objectives=list(objectives))
    for dummy in range(rounds):
        bench.round(ROUND)
    return bench


def judge(bench: Bench) -> Verdict:
    return Judgement(run_document.validate_document(bench.data)).verdicts[0]


def words(verdict: Verdict) -> dict[str, str]:
    return {objective: comparison.word for objective, comparison in verdict.comparisons.items()}


def test_faster_prompts_pay_where_decoding_is_as_before() -> None:
    by_metric = {("ubatch", "prefill"): 0.4}
    found = [judge(measure(seed, by_metric=by_metric)) for seed in SEEDS]
    assert [one.comparisons["prompt"].word for one in found] == ["pays"] * 20
    assert [one.word for one in found].count("pays") >= 19
    assert "prompt 1." in found[0].reason and not found[0].is_left_out


def test_more_for_many_streams_and_less_for_one_is_mixed_and_kept() -> None:
    how: dict[str, Any] = {"streams": (1, 8), "by_metric": {("ubatch", "8"): 0.3, ("ubatch", "prefill"): 0.0}}
    found = [judge(measure(seed, -0.015, 30, ("latency", "throughput"), **how)) for seed in SEEDS]
    assert [one.word for one in found] == ["mixed"] * 20
    assert {word for one in found for word in words(one).items()} == {("latency", "hurts"), ("throughput", "pays")}
    assert not any(one.is_left_out for one in found)
    assert "latency 0.98" in found[0].reason and "throughput 1.3" in found[0].reason


def test_a_gain_that_was_not_asked_for_is_named_beside_nothing() -> None:
    verdict = judge(measure(1, objectives=("latency",), by_metric={("ubatch", "prefill"): 0.4}, noise=0.004))
    assert verdict.word == "nothing"
    assert verdict.reason.startswith("it gains where this run was not asked to judge: prefill 1.4")


def test_the_chosen_objective_comes_first() -> None:
    how: dict[str, Any] = {"streams": (1, 8), "by_metric": {("ubatch", "8"): 0.3, ("ubatch", "prefill"): 0.0}}
    verdict = judge(measure(1, 0.0, 12, ("throughput", "latency"), **how))
    assert list(verdict.comparisons) == ["throughput", "latency"] and verdict.deciding_comparison is not None
    assert (verdict.deciding_comparison.key, verdict.deciding_comparison.word) == (("output", "", 8), "pays")


def test_energy_is_judged_by_tokens_per_joule() -> None:
    bench = Bench(1, {"ubatch": 0.0}, noise=0.004)
    bench.data["plan"].update(objective="latency", objectives=["latency", "energy"])

    def use_energy(sample: dict[str, Any]) -> None:
        joules = 100.0 if sample["arm"] == "without ubatch" else 80.0
        sample["witness"] = witness(joules=joules * (1 + 0.001 * (sample["round"] % 3)), seconds=9.0, tokens=96)

    bench.spoil = use_energy
    for dummy in range(10):
        bench.round(ROUND)
    verdict = judge(bench)
    assert verdict.comparisons["energy"].word == verdict.word == "pays"
    assert verdict.comparisons["energy"].format_ratio().startswith("1.25 (")


def test_an_objective_that_was_not_measured_has_no_verdict() -> None:
    verdict = judge(measure(1, 0.3, 8, ("energy", "latency")))
    assert words(verdict) == {"latency": "pays"}
    assert (verdict.word, verdict.needs_rounds) == ("undecided", False)
    assert verdict.reason == "energy, by which this run decides, was not measured"


@pytest.mark.parametrize(
    ("found", "guards", "word"),
    [
        (["nothing", "pays"], [], "pays"),
        (["nothing", "hurts"], [], "hurts"),
        (["undecided", "pays"], [], "pays"),
        (["pays", "hurts"], [], "mixed"),
        (["nothing", "undecided"], [], "nothing"),
        (["undecided", "nothing"], [], "undecided"),
        (["pays", "nothing"], ["hurts"], "mixed"),
        (["hurts", "nothing"], ["pays"], "mixed"),
        (["nothing", "nothing"], ["pays", "hurts"], "nothing"),
    ],
)
def test_the_word_for_all_objectives(found: list[str], guards: list[str], word: str) -> None:
    assert combine_verdict_words(found, guards) == word


def test_what_hurts_the_chosen_objective_is_left_out_unless_it_gains_elsewhere() -> None:
    bench = measure(1, -0.05, by_metric={("ubatch", "prefill"): 0.0})
    assert Judgement(bench.data).settings_to_leave_out() == ["ubatch"]
    bench = measure(1, 0.0, by_metric={("ubatch", "prefill"): -0.2})
    assert judge(bench).word == "hurts" and Judgement(bench.data).settings_to_leave_out() == []
    bench = measure(1, -0.05, by_metric={("ubatch", "prefill"): 0.2})
    assert judge(bench).word == "mixed" and Judgement(bench.data).settings_to_leave_out() == []


def test_what_hurts_is_measured_on_while_it_may_gain_elsewhere() -> None:
    """Prefill is 4 percent faster, and its noise is ten times that of decoding."""
    bench = Bench(1, {"ubatch": -0.05}, noise=0.003, by_metric={("ubatch", "prefill"): 0.04})
    bench.data["plan"].update(objectives=["latency", "prompt"])

    def scatter(sample: dict[str, Any]) -> None:
        sample["prompt_ms"] *= bench.draw.uniform(0.95, 1.05)

    bench.spoil = scatter
    for dummy in range(8):
        bench.round(ROUND)
    verdict = judge(bench)
    assert words(verdict) == {"latency": "hurts", "prompt": "undecided"}
    assert verdict.needs_rounds and not verdict.is_left_out


def test_what_taints_the_kernel_is_left_out_unless_it_pays() -> None:
    for effect, left_out in ((0.0, ["ubatch"]), (0.1, [])):
        bench = measure(1, effect)
        for arm in bench.data["plan"]["arms"]:
            arm["settings"] = {address.replace("sysfs:", "msr:"): value for address, value in arm["settings"].items()}
        assert Judgement(bench.data).settings_to_leave_out() == left_out


def test_settings_and_objectives_share_the_probability_of_a_false_claim() -> None:
    few, many = measure(1, 0.05, 8, ("latency",)), measure(1, 0.05, 8, ("latency", "prompt", "energy"))
    narrow, wide = judge(few).comparisons["latency"].interval, judge(many).comparisons["latency"].interval
    assert narrow and wide and narrow.mean == wide.mean and narrow.high < wide.high


def test_settings_without_an_effect_are_not_claimed_in_any_objective() -> None:
    claims = 0
    for seed in SEEDS:
        bench = Bench(seed, {f"idle{number}": 0.0 for number in range(6)}, noise=0.02, streams=(1, 4))
        bench.data["plan"].update(objectives=["latency", "throughput", "prompt"])
        for dummy in range(20):
            bench.round(["tuned", "again", *(f"without idle{number}" for number in range(6))])
        claims += bool(Judgement(bench.data).settings_proven_to_help_or_hurt())
    assert claims <= 1


def test_kept_is_compared_with_tuned_in_every_objective() -> None:
    """Without the setting one stream gains, and eight streams lose."""
    how: dict[str, Any] = {"streams": (1, 8), "by_metric": {("ubatch", "8"): 0.3, ("ubatch", "prefill"): 0.0}}
    bench = measure(1, -0.05, 6, ("latency", "throughput"), **how)
    bench.confirm(["ubatch"])
    race = Judgement(bench.data).confirmation
    assert race.winner == schedule.KEPT and race.confirmed
    assert {objective: found.word for objective, found in race.over_tuned.items()} == {
        "latency": "pays",
        "throughput": "hurts",
    }
    assert [found.key for found in race.losses_against_tuned] == [("output", "", 8)]
    assert list(race.comparisons_by_name()) == [
        "kept over stock",
        "kept over stock, throughput",
        "tuned over stock",
        "tuned over stock, throughput",
        "kept over tuned",
        "kept over tuned, throughput",
    ]
