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
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..load.answer import Sample

#: The number of values that a 99th percentile needs.
ENOUGH_FOR_P99 = 1000


def is_plain_sample(sample: Mapping[str, Any]) -> bool:
    """Return whether a sample has no context before its prompt, and its requests followed answers, not a rate."""
    return sample["depth"] == 0 and sample["turn"] == 1 and sample["rate"] is None


def count_decoding_steps(samples: Sequence[Sample]) -> int:
    """Return the number of steps of the answers of samples: generated tokens without accepted drafted tokens."""
    return int(sum(sample["predicted_n"] - sample["accepted"] for sample in samples))


def ms_per_step(samples: Sequence[Sample]) -> float:
    """Return the mean milliseconds per step of at least one sample with decoding times."""
    return float(sum(sample["predicted_ms"] for sample in samples) / count_decoding_steps(samples))


def figures_of_samples(samples: Sequence[Sample]) -> dict[str, float | None]:
    """Return the figures of at least one sample, all of one arm, kind and number of streams.

    Rates are tokens per second, times are milliseconds, and both have one meaning for any number of streams:

    - ``output``: generated tokens of all streams together, end to end, so with the time for reading prompts.
    - ``decode``: generated tokens of all streams together, by the server's time for generation alone.
    - ``prefill``: tokens of a prompt over the server's time for reading it.
    - ``ms_per_step``, ``tokens_per_step``, ``acceptance``: steps of a stream, and the share of accepted drafted tokens.
    - ``ttft_*``: from the sent request to its first text. ``tpot_*``: per token of a stream after the first text.
    - ``gap_*``: between two pieces of text of a stream.
    - ``within_slo``: the share of answers within the limits of the run.

    A figure is None where the samples do not have it: the acceptance rate without drafted tokens, times of the client
    without arrival times, decoding times of windows of old documents, ``decode`` of requests at a rate, and the 99th
    percentile of too few gaps.
    """
    with_arrivals = [sample for sample in samples if sample["ttft_ms"] is not None]
    first = [ttft for sample in with_arrivals for ttft in sample["ttfts_ms"] or [sample["ttft_ms"]]]
    per_token = [tpot for tpot in map(_ms_per_output_token, with_arrivals) if tpot is not None]
    # One gap of 0.0 stands for answers that came in one piece.
    gaps = [gap for sample in with_arrivals for gap in sample["gaps_ms"]] or [0.0] * bool(with_arrivals)
    slo = [sample["within_slo"] for sample in samples if sample["within_slo"] is not None]
    return {
        "output": 1000 * _sum_of(samples, "output_n") / _sum_of(samples, "output_ms"),
        **_server_figures(samples),
        "ttft_p50": percentile(first, 50),
        "ttft_p95": percentile(first, 95),
        "tpot_p50": percentile(per_token, 50),
        "tpot_p95": percentile(per_token, 95),
        "gap_p50": percentile(gaps, 50),
        "gap_p95": percentile(gaps, 95),
        "gap_p99": percentile(gaps, 99) if len(gaps) >= ENOUGH_FOR_P99 else None,
        "within_slo": sum(slo) / len(slo) if slo else None,
    }


def _server_figures(samples: Sequence[Sample]) -> dict[str, float | None]:
    """Return the figures from token counts and times of the server."""
    timed = [sample for sample in samples if sample["predicted_n"]]
    drafted, prompt_ms = _sum_of(samples, "drafted"), _sum_of(samples, "prompt_ms")
    figures: dict[str, float | None] = dict.fromkeys(("decode", "prefill", "ms_per_step", "tokens_per_step"))
    if timed:
        tokens = _sum_of(timed, "predicted_n")
        if timed[0]["rate"] is None:
            figures["decode"] = 1000 * timed[0]["streams"] * tokens / _sum_of(timed, "predicted_ms")
        figures["ms_per_step"] = ms_per_step(timed)
        figures["tokens_per_step"] = tokens / count_decoding_steps(timed)
    if prompt_ms:
        figures["prefill"] = 1000 * _sum_of(samples, "prompt_n") / prompt_ms
    return {**figures, "acceptance": _sum_of(samples, "accepted") / drafted if drafted else None}


def _ms_per_output_token(sample: Sample) -> float | None:
    """Return the mean time per token of the answers of a sample, after the first text of each; None for an old window.

    The tokens of windows of schema 1 are not those of the answers with arrival times.
    """
    later = (sample["predicted_n"] or 0) - len(sample["ttfts_ms"])
    return sum(sample["gaps_ms"]) / later if later > 0 else None


def _sum_of(samples: Sequence[Sample], key: str) -> float:
    return float(sum(sample[key] for sample in samples))


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the interpolated value below which ``percent`` percent of the values lie; None for no values."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))
