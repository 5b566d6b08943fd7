# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Figures of samples, against numbers that a reader can check by heart."""

from __future__ import annotations

import random
from statistics import quantiles

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.answer import build_one_stream_sample
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.closed_loop import BusyWindow
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.figures import (
    figures_of_samples,
    percentile,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.completions import WHERE, WITNESS, answer


def bursts(count: int) -> list[float]:
    """When tokens come: the first at 200 ms, and then four each 40 ms."""
    return [0.2 + 0.04 * (number // 4) for number in range(count)]


def test_a_burst_server() -> None:
    """A token takes about 10 ms; half of the gaps are none, and one in four is 40 ms."""
    found = figures_of_samples([build_one_stream_sample(answer(0, bursts(256)), WHERE, WITNESS)])
    assert found["tpot_p50"] == pytest.approx(10, rel=0.02) and found["tpot_p95"] == found["tpot_p50"]
    assert found["gap_p50"] == 0 and found["gap_p95"] == pytest.approx(40)
    assert percentile([1000 * gap for gap in (0.04, 0.0, 0.0, 0.0) * 60], 90) == pytest.approx(40)
    assert found["ttft_p50"] == pytest.approx(200)


def test_the_99th_percentile_needs_a_thousand_gaps() -> None:
    some = build_one_stream_sample(answer(0, bursts(251)), WHERE, WITNESS)
    assert figures_of_samples([some] * 3)["gap_p99"] is None
    assert figures_of_samples([some] * 4)["gap_p99"] == pytest.approx(40)


def test_rates_are_sums_over_sums() -> None:
    """A mean of the two rates would say 75 tokens per second."""
    fast = answer(0, [1, 2], prompt_n=10, prompt_ms=10.0, predicted_n=10, predicted_ms=100.0)
    slow = answer(
        0, [1, 2], prompt_n=10, prompt_ms=90.0, predicted_n=30, predicted_ms=600.0, draft_n=25, draft_n_accepted=20
    )
    found = figures_of_samples([build_one_stream_sample(one, WHERE, WITNESS) for one in (fast, slow)])
    assert found["decode"] == pytest.approx(1000 * 40 / 700) and found["prefill"] == pytest.approx(200)
    # 40 tokens of which 20 were guessed took 20 steps.
    assert found["ms_per_step"] == pytest.approx(35) and found["tokens_per_step"] == pytest.approx(2)
    assert found["acceptance"] == pytest.approx(0.8)


def test_without_speculation_each_token_is_a_step() -> None:
    found = figures_of_samples([build_one_stream_sample(answer(0, [1, 2, 3], predicted_ms=60.0), WHERE, WITNESS)])
    assert found["ms_per_step"] == pytest.approx(20)
    assert (found["tokens_per_step"], found["acceptance"]) == (1, None)


def test_all_in_one_piece_has_no_gap() -> None:
    found = figures_of_samples([build_one_stream_sample(answer(0, [1], predicted_n=5), WHERE, WITNESS)])
    assert (found["gap_p95"], found["tpot_p50"]) == (0, 0)


def test_a_server_that_scales_perfectly_prints_streams_times_the_rate() -> None:
    """Prompts take 0.2 s and 40 tokens 0.8 s, in a stream alone as in each of four."""
    times = {"prompt_ms": 200.0, "predicted_ms": 800.0}
    answers = [answer(at, [at + 0.2 + 0.02 * n for n in range(1, 41)], **times) for at in range(4)]
    alone = figures_of_samples([build_one_stream_sample(one, WHERE, WITNESS) for one in answers])
    together = figures_of_samples([BusyWindow([answers] * 4).to_sample(WHERE, WITNESS)])
    assert (alone["output"], alone["decode"]) == (pytest.approx(40), pytest.approx(50))
    assert (together["output"], together["decode"]) == (pytest.approx(160), pytest.approx(200))
    for name in ("prefill", "ms_per_step", "ttft_p50", "ttft_p95", "tpot_p50", "gap_p95"):
        assert together[name] == pytest.approx(alone[name]), name


def test_a_window_of_an_old_document_has_only_its_output() -> None:
    """Its tokens are of all answers that touch the window, its gaps of those wholly within."""
    sample = BusyWindow([[answer(0, [1, 2, 3])]] * 2).to_sample(WHERE, WITNESS)
    found = figures_of_samples([{**sample, "predicted_n": None, "predicted_ms": None, "ttfts_ms": []}])
    assert found["output"] == pytest.approx(2) and found["ttft_p50"] == pytest.approx(1000)
    assert [found[name] for name in ("decode", "ms_per_step", "tokens_per_step", "tpot_p50")] == [None] * 4


@pytest.mark.parametrize("count", [2, 3, 10, 101])
def test_percentiles_are_those_of_the_standard_library(count: int) -> None:
    values = random.Random(count).sample(range(1000), count)
    cuts = quantiles(values, n=100, method="inclusive")
    assert [percentile(values, percent) for percent in range(1, 100)] == pytest.approx(cuts)
    assert (percentile(values, 0), percentile(values, 100)) == (min(values), max(values))
