# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Figures of samples: rates, steps, and percentiles of the times that a client waits, computed from the records alone.

Rates are sums over sums, so that a long answer weighs as much as the time that it took. Tokens per step and
milliseconds per step are separate figures: with speculation the first depends on the text, and only the second on the
machine.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..load.answer import Sample

#: A 99th percentile of fewer values than this would mean nothing.
ENOUGH_FOR_P99 = 1000
SUMMED = ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "drafted", "accepted")


def count_steps(samples: Sequence[Sample]) -> int:
    """Return how many steps single-stream samples took: every generated token but the accepted drafted ones."""
    return int(sum(sample["predicted_n"] - sample["accepted"] for sample in samples))


def ms_per_step(samples: Sequence[Sample]) -> float:
    """Return the mean milliseconds per step of single-stream samples, of which there must be at least one."""
    return float(sum(sample["predicted_ms"] for sample in samples) / count_steps(samples))


def figures_of_streams(samples: Sequence[Sample]) -> dict[str, float | None]:
    """Return the figures of samples of several streams, all of one arm, kind and number of streams.

    ``decode`` is the token rate of all streams together, ``tpot`` the mean time per token of a stream. The time to
    first token is a median in each sample already, so there is no 95th percentile of it. There must be at least one
    sample.
    """
    tokens, milliseconds = (sum(sample[name] for sample in samples) for name in ("predicted_n", "predicted_ms"))
    seen = _samples_with_arrivals(samples)
    gaps = _all_gaps(seen)
    return {
        "decode": 1000 * tokens / milliseconds,
        "tpot": samples[0]["streams"] * milliseconds / tokens,
        "ttft_p50": percentile([sample["ttft_ms"] for sample in seen], 50),
        "gap_p50": percentile(gaps, 50),
        "gap_p95": percentile(gaps, 95),
    }


def figures_of_one_stream(samples: Sequence[Sample]) -> dict[str, float | None]:
    """Return the figures of single-stream samples, all of one arm and kind; there must be at least one.

    Rates are tokens per second, times milliseconds. None stands for a figure that these samples do not have: the
    acceptance where nothing was drafted, what only a client sees where no client's times are recorded, and the 99th
    percentile of too few gaps.
    """
    total = {name: sum(sample[name] for sample in samples) for name in SUMMED}
    steps = count_steps(samples)
    seen = _samples_with_arrivals(samples)
    first = [sample["ttft_ms"] for sample in seen]
    each = [sum(sample["gaps_ms"]) / (sample["predicted_n"] - 1) for sample in seen]
    gaps = _all_gaps(seen)
    return {
        "decode": 1000 * total["predicted_n"] / total["predicted_ms"],
        "prefill": 1000 * total["prompt_n"] / total["prompt_ms"] if total["prompt_ms"] else None,
        "ms_per_step": ms_per_step(samples),
        "tokens_per_step": total["predicted_n"] / steps,
        "acceptance": total["accepted"] / total["drafted"] if total["drafted"] else None,
        "ttft_p50": percentile(first, 50),
        "ttft_p95": percentile(first, 95),
        "tpot_p50": percentile(each, 50),
        "tpot_p95": percentile(each, 95),
        "gap_p50": percentile(gaps, 50),
        "gap_p95": percentile(gaps, 95),
        "gap_p99": percentile(gaps, 99) if len(gaps) >= ENOUGH_FOR_P99 else None,
    }


def _samples_with_arrivals(samples: Sequence[Sample]) -> list[Sample]:
    return [sample for sample in samples if sample["ttft_ms"] is not None]


def _all_gaps(seen: Sequence[Sample]) -> list[float]:
    """Return the gaps between pieces of text of all samples, [0.0] where each answer came in one piece."""
    return [gap for sample in seen for gap in sample["gaps_ms"]] or [0.0] * bool(seen)


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the value below which ``percent`` percent of the values lie, interpolated; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))
