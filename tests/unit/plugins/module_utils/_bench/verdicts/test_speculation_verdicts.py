# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of a server that speculates: its speed depends on the prompt, and a text may differ."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement, Verdict
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import KINDS, Bench, scale_time

SEEDS = range(20)
WITHOUT = "without speculation"
PROMPTS = 3
TOKENS = 96
Sample = dict[str, Any]


class SpeculatingBench(Bench):
    """A run of the setting ``speculation`` with three prompts of each kind.

    A step of a speculating arm takes ``step`` times as long, and gives ``tokens_per_step`` of a kind and a prompt.
    ``change`` alters each sample before it is written down.
    """

    def __init__(
        self,
        seed: int,
        step: float,
        tokens_per_step: Callable[[str, int], float],
        change: Callable[[Sample], None] = lambda sample: None,
        speculates: Callable[[str], bool] = lambda arm: arm not in (WITHOUT, "stock"),
        rounds: int = 8,
    ) -> None:
        super().__init__(seed, {"speculation": 0.0}, schedule.RESTART, noise=0.005, kinds=KINDS, requests=PROMPTS)
        counts: dict[tuple[int, str, str], int] = {}

        def speculate(sample: Sample) -> None:
            place = (sample["round"], sample["arm"], sample["kind"])
            number = counts.get(place, 0)
            counts[place] = number + 1
            prompt = hashlib.sha256(f"{sample['kind']}{number}".encode()).hexdigest()[:12]
            sample.update(prompt=prompt, text_sha256=f"text of {prompt}")
            if speculates(sample["arm"]):
                accepted = round(TOKENS - TOKENS / tokens_per_step(sample["kind"], number))
                sample.update(drafted=TOKENS, accepted=accepted)
                scale_time(sample, step * (TOKENS - accepted) / TOKENS)
            change(sample)

        self.spoil = speculate
        for dummy in range(rounds):
            self.round(["tuned", "again", WITHOUT])


def judge(bench: Bench) -> Verdict:
    return Judgement(bench.data).verdicts[0]


def text_differs_once(sample: Sample) -> None:
    if (sample["round"], sample["arm"], sample["kind"]) == (3, WITHOUT, "code"):
        sample["text_sha256"] = "another text"


def test_twice_as_fast_pays_though_a_text_differs_and_a_step_takes_longer() -> None:
    found = [judge(SpeculatingBench(seed, 1.2, lambda kind, number: 2.4, text_differs_once)) for seed in SEEDS]
    assert [one.word for one in found] == ["pays"] * 20
    verdict = found[0]
    assert (verdict.differing_texts, verdict.compared_texts) == (3, 72)
    assert (
        verdict.deciding_comparison
        and verdict.deciding_comparison.prompts == 9
        and verdict.deciding_comparison.interval
    )
    assert abs(verdict.deciding_comparison.interval.to_ratios()[0] - 2.0) < 0.02
    details = {comparison.key[0]: comparison.word for comparison in verdict.details}
    assert details["steps"] == "hurts" and details["tokens per step"] == "pays"


def test_a_gain_of_one_prompt_alone_is_no_gain_of_all_prompts() -> None:
    """All rounds agree on the mean, which is the luck of one text."""
    verdict = judge(SpeculatingBench(1, 1.0, lambda kind, number: 2.0 if (kind, number) == ("code", 0) else 1.0))
    assert (
        verdict.deciding_comparison
        and verdict.deciding_comparison.interval
        and verdict.deciding_comparison.interval.mean > 0.05
    )
    assert verdict.word == "undecided" and verdict.deciding_comparison.is_limited_by_prompts
    assert not verdict.needs_rounds
    assert verdict.reason == ("its effect differs between the 9 prompts: more prompts would decide, not more rounds")


def test_kinds_may_gain_differently() -> None:
    """N-grams make an edit of code much faster and prose no faster, and both are what was asked for."""
    gains = {"code": 2.4, "prose": 1.0, "summary": 1.4}
    bench = SpeculatingBench(1, 1.0, lambda kind, number: gains[kind] * (1 + 0.05 * number))
    verdict = judge(bench)
    assert verdict.word == "pays"
    by_kind = {guard.key[1]: guard for guard in verdict.guards if guard.key[1]}
    assert by_kind["code"].interval and by_kind["code"].interval.mean > 0.8


def test_gains_that_were_measured_of_nine_real_prompts_pay_beside_many_other_settings() -> None:
    """Prompts of two kinds gain very differently, and those of a third kind not at all."""
    gains = {"code": (2.37, 2.5, 2.35), "prose": (1.0, 1.0, 1.0), "summary": (1.17, 2.11, 1.26)}
    bench = SpeculatingBench(1, 1.0, lambda kind, number: gains[kind][number], rounds=14)
    bench.data["plan"]["alpha"] *= 3 / 19  # as with 17 settings
    verdict = judge(bench)
    assert verdict.word == "pays" and verdict.deciding_comparison and verdict.deciding_comparison.is_limited_by_prompts


def speculates_always(arm: str) -> bool:
    return True


def test_another_setting_that_changes_texts_is_no_gain_by_the_luck_of_texts() -> None:
    """Without the setting numbers are rounded otherwise, so that each prompt accepts more or fewer tokens by chance."""
    words = []
    for seed in SEEDS:
        draw = random.Random(seed)
        luck = {(kind, number): draw.gauss(0, 0.08) for kind in KINDS for number in range(PROMPTS)}
        order: dict[tuple[int, str], int] = {}

        def change_texts(sample: Sample, luck: Any = luck, order: Any = order) -> None:
            place = (sample["round"], sample["kind"])
            if sample["arm"] == WITHOUT:
                number = order.get(place, 0)
                order[place] = number + 1
                sample["text_sha256"] = "another text"
                scale_time(sample, 1 + luck[sample["kind"], number])

        bench = SpeculatingBench(seed, 1.0, lambda kind, number: 2.0, change_texts, speculates_always, rounds=6)
        words.append(judge(bench).word)
    assert sum(word in ("pays", "hurts") for word in words) <= 1


def test_equal_texts_and_steps_need_no_spread_of_prompts() -> None:
    bench = SpeculatingBench(1, 1.0, lambda kind, number: 1.0 + number, speculates=speculates_always)
    verdict = judge(bench)
    assert verdict.deciding_comparison and (verdict.deciding_comparison.prompts, verdict.differing_texts) == (0, 0)


def test_a_different_text_without_speculation_is_counted_and_decides_nothing() -> None:
    bench = Bench(3, {"boost": 0.05}, noise=0.003)
    bench.spoil = lambda sample: sample.update(text_sha256=sample["arm"])
    for dummy in range(10):
        bench.round(["tuned", "again", "without boost"])
    verdict = judge(bench)
    assert (verdict.word, verdict.reason, verdict.differing_texts, verdict.compared_texts) == ("pays", "", 10, 10)
    assert verdict.deciding_comparison and verdict.deciding_comparison.prompts == 0


def test_a_document_without_prompts_is_judged_by_rounds() -> None:
    def forget_prompt(sample: Sample) -> None:
        sample["prompt"] = None

    verdict = judge(SpeculatingBench(1, 1.2, lambda kind, number: 2.4, forget_prompt))
    assert verdict.word == "pays" and verdict.deciding_comparison and verdict.deciding_comparison.prompts == 0
