# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.compare.prediction_report import (
    NO_LEARNING,
    render_prediction_report,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.memory.compared_predictions import (
    compare_predictions,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds.run_summary import summarize_run
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents


def predicted_rate(rate: float, streams: int) -> dict[str, Any]:
    """Return a predicted rate as a run document keeps it."""
    bounds = {"low": 0.8 * rate, "high": 1.1 * rate, "ceiling": 1.3 * rate}
    return {
        "streams": streams,
        "tokens_per_second": rate,
        **bounds,
        "gbps": 371.0,
        "source": "measured",
        "arithmetic": "",
    }


def benchmark(host: str, started: str = "2026-11-25T00:00:00Z", factor: float = 1.0) -> dict[str, Any]:
    """Return a benchmark on a host, with predictions of one and of four streams that are this factor of the rates."""
    document = bench_documents.benchmark()
    rates = {rate["streams"]: rate["steps_per_second"] for rate in summarize_run(document)["rates"]}
    document["fingerprint"]["host"] = host
    document["started"] = started
    document["predictions"] = [predicted_rate(factor * rates[streams], streams) for streams in (1, 4)]
    return document


def test_the_newest_run_of_each_instance_counts() -> None:
    documents = [benchmark("b"), benchmark("a", "2026-11-26T00:00:00Z", 0.5), benchmark("a", factor=2.0)]
    compared = compare_predictions(documents)
    assert [(row.host, row.predicted["streams"]) for row in compared] == [("a", 1), ("a", 4), ("b", 1), ("b", 4)]
    assert [row.ratio for row in compared] == pytest.approx([2, 2, 1, 1])


def test_steps_are_compared_and_not_the_tokens_that_were_guessed() -> None:
    document = benchmark("a")
    for sample in document["samples"]:
        sample.update(drafted=60, accepted=48)
    row = compare_predictions([document])[0]
    assert row.steps == pytest.approx(row.tokens / 2)


def test_a_run_without_a_counting_round_compares_nothing() -> None:
    document = benchmark("a")
    for sample in document["samples"]:
        sample["void"] = "a test took the CPUs"
        sample["witness"]["steal"] = 0.5
    assert summarize_run(document)["rates"] == [] and compare_predictions([document]) == []
    assert "no run has both a prediction and a round that counts" in render_prediction_report([document])


def test_the_report_of_a_fleet_and_what_it_does_not_learn() -> None:
    text = render_prediction_report([benchmark("a"), benchmark("b", factor=2.0)])
    assert "2 of 4 predictions within 25%; the median of measured over predicted is 0.75." in " ".join(text.split())
    assert NO_LEARNING in " ".join(text.split())
    assert "\n  a chat" in text and "371 GB/s, measured" in text
