#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holds predicted decode rates against rates that others published for EPYC servers.

Prints a Markdown table with the floor and the time for memory apart, then why each miss misses, then the figures.
Run as `make bench-prediction`. Exit code 1 when a figure misses its bar.
"""

from __future__ import annotations

import sys

from ansible_collections.sovereign.epyc.plugins.plugin_utils._public_rates import (
    HIT_SHARE,
    PublicRate,
    hit_share,
    load_public_rates,
)
from tools.bench.measurement import run_measurement
from vepyc.figures import Bar, Figures

NAME = "bench-prediction"
#: The least percentage of hits among the published rates that count.
LEAST_HITS = 80
HEAD = ("run", "published", "predicted", "range", "floor ms", "memory ms", "GB/s", "off by", "")


def render_table_of_rates(rates: list[PublicRate]) -> list[str]:
    """Return the lines of a Markdown table with a row for each published rate."""
    rows = [HEAD, ["---"] * len(HEAD), *(table_row(rate) for rate in rates)]
    return [f"| {' | '.join(row)} |" for row in rows]


def table_row(rate: PublicRate) -> list[str]:
    """Return the cells of a published rate."""
    predicted = rate.prediction
    return [
        rate.name,
        f"{rate.rate:g}",
        f"{predicted.tokens_per_second:.1f}",
        f"{predicted.low:.1f}-{predicted.high:.1f}",
        f"{predicted.floor_ms:.1f}",
        f"{predicted.memory_ms:.1f}",
        f"{predicted.gbps:.0f} {predicted.source}",
        f"{100 * rate.relative_prediction_error:+.0f} %",
        hit_or_miss_word(rate),
    ]


def hit_or_miss_word(rate: PublicRate) -> str:
    """Return whether a prediction hits, or why the row does not count."""
    if rate.row.get("fault"):
        return "fault named"
    if rate.row.get("constant_from"):
        return "gave a constant"
    return "hit" if rate.is_hit else "miss"


def print_prediction(figures: Figures) -> None:
    """Print the table, the reasons of misses and faults, and the figures."""
    rates = load_public_rates()
    print("\n".join(render_table_of_rates(rates)))
    for rate in rates:
        reasons = [rate.row.get("fault"), rate.row.get("miss")]
        text = " ".join(reason for reason in reasons if reason)
        if text:
            print(f"{rate.name} ({hit_or_miss_word(rate)}): {text}")
    counted = [rate for rate in rates if rate.is_usable_as_evidence]
    figures.print_figure("published_rates", len(rates), "runs")
    figures.print_figure("published_rates_that_count", len(counted), "runs")
    within = f"hits_within_{100 * HIT_SHARE:.0f}_percent"
    figures.print_figure(within, 100 * hit_share(rates), "%", Bar(">=", LEAST_HITS))
    in_range = [rate.prediction.low <= rate.rate <= rate.prediction.high for rate in counted]
    figures.print_figure("published_rate_in_predicted_range", 100 * sum(in_range) / len(counted), "%")


if __name__ == "__main__":
    sys.exit(run_measurement(NAME, print_prediction))
