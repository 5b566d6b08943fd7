# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run in a few numbers: the rates of a stream by the number of streams, power, and the rates that were predicted.

The numbers are of the arm that is the instance as it runs, and of rounds that count.
"""

from __future__ import annotations

from ..statistics import energy_figures
from ..statistics.figures import figures_of_samples, is_plain_sample
from . import measured_rounds, schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


def summarize_run(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary of a validated document as plain data; ``rates`` is empty where no round counts."""
    known = document["fingerprint"]
    samples = _select_counting_samples(document)
    return {
        **{key: document[key] for key in ("id", "instance", "started", "predictions")},
        **{key: known.get(key) for key in ("host", "sku", "kernel", "engine", "engine_build", "quantization")},
        "model": known.get("model"),
        "rates": [
            {"streams": streams, **_rates_of_stream(streams, [s for s in samples if s["streams"] == streams])}
            for streams in sorted({sample["streams"] for sample in samples})
        ],
        "watts": energy_figures.compute_mean_watts(samples),
        "tokens_per_joule": energy_figures.compute_tokens_per_joule(samples),
    }


def _select_counting_samples(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    arm = schedule.anchor_name(document["plan"]["arms"])
    counting = {
        measured.number
        for measured in measured_rounds.rounds_of_document(document)
        if not measured.discard_reason and arm in measured.levels
    }
    return [
        sample
        for sample in document["samples"]
        if sample["arm"] == arm and sample["round"] in counting and is_plain_sample(sample) and sample["predicted_n"]
    ]


def _rates_of_stream(streams: int, samples: Sequence[Any]) -> dict[str, float]:
    """Return the decoded tokens and the decoding steps of one stream per second, and the output of all streams."""
    figures = figures_of_samples(samples)
    return {
        "tokens_per_second": (figures["decode"] or 0.0) / streams,
        "steps_per_second": 1000 / (figures["ms_per_step"] or 1.0),
        "output": figures["output"] or 0.0,
    }
