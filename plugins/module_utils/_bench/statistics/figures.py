# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Figures of samples of one stream: rates, steps, and percentiles of what a client waits for; from the records alone.

Rates are sums over sums, so that a long answer weighs as much as it took. Tokens per step and milliseconds per step are
kept apart: with speculation the first depends on the text, and only the second on the machine.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..load.answer import Sample

#: A share of one in a hundred needs this many values to mean anything.
ENOUGH_FOR_P99 = 1000
SUMMED = ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "drafted", "accepted")


def steps_of(samples: Sequence[Sample]) -> int:
    """Return how many steps some samples of one stream took: all tokens but those that were guessed right."""
    return int(sum(one["predicted_n"] - one["accepted"] for one in samples))


def ms_per_step(samples: Sequence[Sample]) -> float:
    """Return the milliseconds of a step of some samples of one stream; at least one sample."""
    return float(sum(one["predicted_ms"] for one in samples) / steps_of(samples))


def of_streams(samples: Sequence[Sample]) -> dict[str, float | None]:
    """Return the figures of windows of several streams, one arm, one kind, one number of streams; at least one.

    ``decode`` is of all streams together, ``tpot`` the mean time per token of a stream. The time to the first text is a
    median in each window already, so there is no 95th percentile of it.
    """
    tokens, milliseconds = (sum(one[name] for one in samples) for name in ("predicted_n", "predicted_ms"))
    seen = _seen(samples)
    gaps = _gaps(seen)
    return {
        "decode": 1000 * tokens / milliseconds,
        "tpot": samples[0]["streams"] * milliseconds / tokens,
        "ttft_p50": percentile([one["ttft_ms"] for one in seen], 50),
        "gap_p50": percentile(gaps, 50),
        "gap_p95": percentile(gaps, 95),
    }


def figures(samples: Sequence[Sample]) -> dict[str, float | None]:
    """Return the figures of some samples of one stream, one arm and one kind; at least one sample.

    Rates are tokens per second, times milliseconds. None stands for what these samples cannot tell: the acceptance
    where nothing was guessed, what only a client sees where the samples have nothing of it, and the 99th percentile of
    too few gaps.
    """
    total = {name: sum(one[name] for one in samples) for name in SUMMED}
    steps = steps_of(samples)
    seen = _seen(samples)
    first = [one["ttft_ms"] for one in seen]
    each = [sum(one["gaps_ms"]) / (one["predicted_n"] - 1) for one in seen]
    gaps = _gaps(seen)
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


def _seen(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples of which a client saw the answer come."""
    return [one for one in samples if one["ttft_ms"] is not None]


def _gaps(seen: Sequence[Sample]) -> list[float]:
    """Return the gaps of all answers; answers in one piece have none, which is a gap of 0."""
    return [gap for one in seen for gap in one["gaps_ms"]] or [0.0] * bool(seen)


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the value below which a share of the values lies, on the straight line between its two neighbours.

    None of no values.
    """
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))
