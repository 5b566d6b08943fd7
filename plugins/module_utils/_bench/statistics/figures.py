# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Figures of samples: token rates, steps, and percentiles of the waiting times of a client.

A rate is a sum of tokens over a sum of times, so that each answer has a weight by its time. Tokens per step and
milliseconds per step are separate figures: with speculation, tokens per step depend on the text, and only milliseconds
per step depend on the machine.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..load.answer import Sample

#: The number of values that a 99th percentile needs.
ENOUGH_FOR_P99 = 1000
SUMMED = ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "drafted", "accepted")


def count_decoding_steps(samples: Sequence[Sample]) -> int:
    """Return the number of steps of samples with one stream: generated tokens without accepted drafted tokens."""
    return int(sum(sample["predicted_n"] - sample["accepted"] for sample in samples))


def ms_per_step(samples: Sequence[Sample]) -> float:
    """Return the mean milliseconds per step of at least one sample with one stream."""
    return float(sum(sample["predicted_ms"] for sample in samples) / count_decoding_steps(samples))


def figures_of_parallel_streams(samples: Sequence[Sample]) -> dict[str, float | None]:
    """Return the figures of at least one sample with several streams, all of one arm, kind and number of streams.

    ``decode`` is the token rate of all streams together, and ``tpot`` the mean time per token of a stream. The time to
    first token has no 95th percentile, because each sample has only a median of it.
    """
    tokens, milliseconds = (sum(sample[name] for sample in samples) for name in ("predicted_n", "predicted_ms"))
    with_arrivals = _samples_with_arrival_times(samples)
    gaps = _gaps_of_all_samples(with_arrivals)
    return {
        "decode": 1000 * tokens / milliseconds,
        "tpot": samples[0]["streams"] * milliseconds / tokens,
        "ttft_p50": percentile([sample["ttft_ms"] for sample in with_arrivals], 50),
        "gap_p50": percentile(gaps, 50),
        "gap_p95": percentile(gaps, 95),
    }


def figures_of_one_stream(samples: Sequence[Sample]) -> dict[str, float | None]:
    """Return the figures of at least one sample with one stream, all of one arm and kind.

    Rates are tokens per second, times are milliseconds. A figure is None where the samples do not have it: the
    acceptance rate without drafted tokens, times of the client without arrival times, and the 99th percentile of too
    few gaps.
    """
    total = {name: sum(sample[name] for sample in samples) for name in SUMMED}
    steps = count_decoding_steps(samples)
    with_arrivals = _samples_with_arrival_times(samples)
    first = [sample["ttft_ms"] for sample in with_arrivals]
    per_token = [sum(sample["gaps_ms"]) / (sample["predicted_n"] - 1) for sample in with_arrivals]
    gaps = _gaps_of_all_samples(with_arrivals)
    return {
        "decode": 1000 * total["predicted_n"] / total["predicted_ms"],
        "prefill": 1000 * total["prompt_n"] / total["prompt_ms"] if total["prompt_ms"] else None,
        "ms_per_step": ms_per_step(samples),
        "tokens_per_step": total["predicted_n"] / steps,
        "acceptance": total["accepted"] / total["drafted"] if total["drafted"] else None,
        "ttft_p50": percentile(first, 50),
        "ttft_p95": percentile(first, 95),
        "tpot_p50": percentile(per_token, 50),
        "tpot_p95": percentile(per_token, 95),
        "gap_p50": percentile(gaps, 50),
        "gap_p95": percentile(gaps, 95),
        "gap_p99": percentile(gaps, 99) if len(gaps) >= ENOUGH_FOR_P99 else None,
    }


def _samples_with_arrival_times(samples: Sequence[Sample]) -> list[Sample]:
    return [sample for sample in samples if sample["ttft_ms"] is not None]


def _gaps_of_all_samples(samples: Sequence[Sample]) -> list[float]:
    """Return the gaps between pieces of text of all samples; one gap of 0.0 where each answer came in one piece."""
    return [gap for sample in samples for gap in sample["gaps_ms"]] or [0.0] * bool(samples)


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the interpolated value below which ``percent`` percent of the values lie; None for no values."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))
