# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import measured_rounds, schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.confidence_interval import (
    confidence_interval,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement, Verdict
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import Bench, witness

Sample = dict[str, Any]
WITHOUT = "without boost"


def measured(
    rounds: int = 10, effect: float = 0.05, spoil: Callable[[Sample], None] | None = None, **how: Any
) -> Bench:
    """Return a run of one setting, as long as it is said, whatever it finds."""
    bench = Bench(3, {"boost": effect}, **how)
    bench.spoil = spoil or bench.spoil
    for dummy in range(rounds):
        bench.round(["stock", "tuned", "again", WITHOUT])
    run_document.validate_document(bench.data)
    return bench


def verdict(bench: Bench) -> Verdict:
    return Judgement(bench.data).verdicts[0]


@pytest.mark.parametrize(("effect", "word"), [(0.05, "pays"), (-0.05, "hurts"), (0.0, "nothing")])
def test_the_verdict_words(effect: float, word: str) -> None:
    one = verdict(measured(12, effect, noise=0.003))
    assert (one.word, one.needs_rounds, one.reason) == (word, False, "")
    assert (
        one.deciding_comparison
        and one.deciding_comparison.interval
        and one.deciding_comparison.interval.to_ratios()[0] == pytest.approx(1 + effect, abs=0.005)
    )


def test_what_is_not_decided_goes_on_until_the_limit() -> None:
    bench = measured(schedule.MAX_ROUNDS - 1, 0.0, noise=0.02)
    assert (verdict(bench).word, Judgement(bench.data).undecided_settings("live")) == ("undecided", ["boost"])
    bench.round(["stock", "tuned", "again", WITHOUT])
    assert Judgement(bench.data).undecided_settings("live") == []
    assert verdict(bench).reason == "40 rounds that count, of 40, did not decide"


def test_a_host_of_which_each_round_is_void_does_not_hold_the_run_for_ever() -> None:
    assert verdict(
        measured(schedule.MAX_ROUND_TRIES - 1, spoil=lambda sample: sample.update(void="foreign requests"))
    ).needs_rounds
    one = verdict(measured(schedule.MAX_ROUND_TRIES, spoil=lambda sample: sample.update(void="foreign requests")))
    assert (one.needs_rounds, one.word, one.reason) == (False, "not tested", "0 of 1 round count")


def test_a_setting_without_rounds_is_not_tested() -> None:
    bench = measured(0)
    bench.data["plan"]["untested"]["isolation"] = "it needs a reboot, and reboots are not allowed"
    words = {one.knob: (one.word, one.reason) for one in Judgement(bench.data).verdicts}
    assert words["boost"] == ("not tested", "0 of 1 round count")
    assert words["isolation"] == ("not tested", "it needs a reboot, and reboots are not allowed")


def test_fewer_than_five_boots_test_nothing() -> None:
    assert (verdict(measured(4, unit="reboot")).word, verdict(measured(4, unit="reboot")).needs_rounds) == (
        "not tested",
        True,
    )
    assert verdict(measured(4, unit="reboot")).reason == "4 of 5 boots count"
    assert verdict(measured(10, unit="reboot")).word == "pays"


def test_requests_to_one_start_are_one_value() -> None:
    one = verdict(measured(8, unit="restart", requests=3))
    assert one.deciding_comparison and one.deciding_comparison.count == 8


@pytest.mark.parametrize(
    ("metric", "name"), [("prefill", "prefill"), ("code", "decode of code"), ("4", "output with 4 streams")]
)
def test_a_proven_loss_of_a_guard_makes_a_gain_mixed(metric: str, name: str) -> None:
    how: dict[str, Any] = {"kinds": ("prose", "code"), "streams": (1, 4)}
    assert verdict(measured(10, 0.2, **how)).word == "pays"
    one = verdict(measured(10, 0.2, by_metric={("boost", metric): -0.1}, **how))
    assert one.word == "mixed" and not one.needs_rounds and not one.is_left_out
    assert one.reason.startswith("latency 1.") and f"{name} 0.9" in one.reason


def test_one_metric_decides_over_all_kinds() -> None:
    """Twice as fast on one kind and half as fast on the other is nothing, whatever the sum of the tokens says."""
    by_metric = {("boost", "prose"): 1.0, ("boost", "code"): -0.5}
    assert verdict(measured(12, 0.0, noise=0.003, kinds=("prose", "code"), by_metric=by_metric)).word == "nothing"


def void(**how: Any) -> Callable[[Sample], None]:
    """Return what changes one arm's sample of round 4."""

    def change(sample: Sample) -> None:
        if (sample["round"], sample["arm"]) == (4, WITHOUT):
            sample.update(how)

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (void(void="somebody else asked the server"), "somebody else asked the server"),
        (
            void(witness=witness(others=0.03)),
            "Other programs took 3.0% of the time of the instance's CPUs, above 2.0%.",
        ),
        (void(witness=witness(steal=0.006)), "The hypervisor took 0.6% of the CPU time, above 0.5%."),
        (void(kind="other"), "stock has no sample of other with 1 stream"),
        (void(start=77), "the server was started again within the round"),
    ],
)
def test_a_void_round_is_dropped_whole(change: Callable[[Sample], None], why: str) -> None:
    clean, judgement = measured(10), Judgement(measured(10, spoil=change).data)
    spoiled = [one for one in judgement.rounds if one.discard_reason]
    if "no sample" in why:  # Then the others lack that kind.
        assert why in {one.discard_reason for one in spoiled}
        return
    assert [(one.number, one.discard_reason) for one in spoiled] == [(4, why)]
    assert judgement.stock.count == judgement.twins["live"].count == 9
    assert Judgement(clean.data).stock.count == 10


def test_an_arm_that_is_missing_voids_its_round() -> None:
    bench = measured(10)
    bench.data["samples"] = [s for s in bench.data["samples"] if (s["round"], s["arm"]) != (4, "again")]
    assert [one.discard_reason for one in Judgement(bench.data).rounds if one.discard_reason] == [
        "again has no sample of prose with 1 stream"
    ]


def test_a_start_that_serves_two_rounds_counts_once() -> None:
    bench = measured(10, unit="restart")
    first = next(s["start"] for s in bench.data["samples"] if (s["round"], s["arm"]) == (1, WITHOUT))
    for sample in bench.data["samples"]:
        if sample["arm"] == WITHOUT:
            sample["start"] = first
    judgement = Judgement(bench.data)
    assert {one.discard_reason for one in judgement.rounds[1:]} == {
        f"{WITHOUT} was not started anew: start {first} is of round 1"
    }
    assert judgement.verdicts[0].deciding_comparison and judgement.verdicts[0].deciding_comparison.count == 1


def test_a_jump_of_the_anchor_voids_its_round_and_a_new_level_stays() -> None:
    def spike(sample: Sample) -> None:
        sample["predicted_ms"] *= 1.2 if sample["round"] == 4 else 1.5 if sample["round"] >= 8 else 1

    judgement = Judgement(measured(12, spoil=spike).data)
    assert [one.number for one in judgement.rounds if one.discard_reason] == [4, 8]
    assert judgement.rounds[3].discard_reason.startswith("the anchor was 0.8")


def test_steal_of_the_run_forbids_every_claim() -> None:
    def stolen(sample: Sample) -> None:
        sample["witness"]["steal"] = 0.03 if sample["round"] % 3 == 0 else 0.0

    judgement = Judgement(measured(20, spoil=stolen).data)
    assert (judgement.settings_proven_to_help_or_hurt(), judgement.verdicts[0].word) == ([], "undecided")
    assert len(judgement.faults) == 1 and judgement.faults[0].startswith("The hypervisor took 0.9% of the CPU time")


def test_a_twin_that_differs_voids_the_run() -> None:
    def favour(sample: Sample) -> None:
        sample["predicted_ms"] *= 0.9 if sample["arm"] == "tuned" else 1

    judgement = Judgement(measured(12, spoil=favour).data)
    assert (judgement.settings_proven_to_help_or_hurt(), judgement.verdicts[0].reason) == ([], "the run is not sound")
    assert judgement.faults[0].startswith("The state that all is compared with differs from itself in decode, 1.1")


def test_settings_that_did_not_come_back_void_the_run() -> None:
    bench = measured(10)
    bench.data["restored"] = True
    assert Judgement(bench.data).settings_proven_to_help_or_hurt() == ["boost"]
    bench.data["restored"] = False
    assert Judgement(bench.data).settings_proven_to_help_or_hurt() == []


def test_a_setting_that_does_not_take_is_rejected() -> None:
    def read_back(sample: Sample) -> None:
        sample["witness"]["settings_sha256"] = "tuned" if sample["arm"] != "stock" else "stock"

    one = verdict(measured(12, 0.0, noise=0.003, spoil=read_back))
    assert (one.word, one.reason) == ("rejected", "in round 1 its settings read back as those of the anchor")
    bench = measured(12, 0.0, noise=0.003)
    bench.data["plan"]["rejected"]["boost"] = "the file is read-only"
    assert (verdict(bench).word, verdict(bench).reason) == ("rejected", "the file is read-only")


def test_the_more_settings_the_more_it_takes() -> None:
    one = Judgement(measured(7, 0.05).data).verdicts[0].deciding_comparison
    many = Bench(3, {"boost": 0.05, **{f"idle{number}": 0.0 for number in range(9)}})
    many.data["plan"]["order"], many.data["samples"] = measured(7).data["plan"]["order"], measured(7).data["samples"]
    other = Judgement(many.data).verdicts[0].deciding_comparison
    assert one and other and one.interval and other.interval
    assert one.interval.mean == other.interval.mean and one.interval.high < other.interval.high


def test_the_rows_for_programs() -> None:
    bench = measured(10)
    bench.data["plan"]["untested"]["isolation"] = "it needs a reboot"
    first, prose, prefill, last = Judgement(bench.data).to_rows()
    assert first["ratio"] == pytest.approx(1.05, abs=0.02) and first["low"] < first["ratio"] < first["high"]
    place = {"knob": "boost", "overall": "pays", "verdict": "pays", "metric": "decode", "streams": 1, "rounds": 10}
    ratios = {name: first[name] for name in ("ratio", "low", "high")}
    assert first == {**place, **ratios, "objective": "latency", "kind": ""}
    assert prose == {**place, **ratios, "objective": "", "kind": "prose"}
    assert prefill["metric"] == "prefill"
    assert last == {"knob": "isolation", "overall": "not tested", "objective": "", "verdict": "not tested"}
    (early, *dummy) = Judgement(measured(4).data).to_rows()
    assert (early["verdict"], early["ratio"], early["rounds"]) == ("undecided", None, 4)


def test_only_fresh_rounds_confirm() -> None:
    bench = measured(12)
    assert Judgement(bench.data).confirmation.kept_over_stock is None
    bench.data["plan"]["arms"].append(schedule.build_kept_arm([], "live"))
    for count in range(1, 11):
        bench.round(["stock", "tuned", "kept"], schedule.CONFIRMATION)
        race = Judgement(bench.data).confirmation
        assert race.kept_over_stock and race.kept_over_stock.count == count
        assert race.confirmed is (count == 10)
    assert Judgement(bench.data).stock.count == 12


def test_the_three_comparisons_of_a_confirmation_share_the_error_level() -> None:
    bench = measured(1)
    bench.data["plan"]["arms"].append(schedule.build_kept_arm([], "live"))
    for dummy in range(schedule.CONFIRMATION_ROUNDS):
        bench.round(["stock", "tuned", "kept"], schedule.CONFIRMATION)
    fresh = [one for one in measured_rounds.rounds_of_document(bench.data) if one.phase == schedule.CONFIRMATION]
    race = Judgement(bench.data).confirmation
    for comparison, arm, anchor in (
        (race.kept_over_stock, "stock", "kept"),
        (race.tuned_over_stock["latency"], "stock", "tuned"),
        (race.over_tuned["latency"], "tuned", "kept"),
    ):
        expected = confidence_interval(
            measured_rounds.log_ratios_of_counting_rounds(fresh, arm, measured_rounds.ONE_STREAM, anchor),
            bench.data["plan"]["alpha"] / 3,
        )
        assert comparison and comparison.interval and expected
        assert comparison.interval.to_ratios() == expected.to_ratios()
