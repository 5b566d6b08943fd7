# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run as one HTML page that needs no network and no script; the same document gives the same bytes on any machine.

The library computes every figure, and the page only draws figures. Parts without data are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import frame
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.style import STYLE as PAGE_STYLE
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import count_with_noun
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import (
    forest_plot,
    round_charts,
    speed_charts,
    tables,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import ShownRun, parse_run_document
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.style import STYLE

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTS = (
    forest_plot.render_forest_section,
    speed_charts.memory_time_chart,
    speed_charts.throughput_latency_chart,
    round_charts.render_sample_chart,
    speed_charts.prediction_chart,
    round_charts.render_arm_rounds_chart,
    tables.tuning_candidate_table,
    tables.tuning_confirmation_table,
    tables.verdict_table,
    tables.guard_metric_table,
    tables.ablation_confirmation_table,
    tables.arm_figure_table,
    tables.discarded_rounds_table,
    tables.fingerprint_table,
)


def render_run_page(data: object) -> str:
    """Return the page of a run document, given as data or as JSON text; BadRequest for an invalid document."""
    run = ShownRun(parse_run_document(data))
    return frame.render_page(f"Benchmark: {run.headline()}", PAGE_STYLE + STYLE, "", _body_elements(run))


def _body_elements(run: ShownRun) -> Iterator[Html]:
    data, known = run.data, run.data["fingerprint"]
    yield element("h1", "Benchmark")
    yield element("p", run.headline(), class_="headline")
    run_name = f"Run {data['id']} of the instance {data['instance']}"
    host = f"{known['sku'] or 'Unknown processor'}, Linux {known['kernel'] or 'unknown'}"
    rounds, samples = (
        count_with_noun(len(run.rounds), "round"),
        count_with_noun(len(data["samples"]), "sample"),
    )
    counts = f"{rounds}, {len(run.discarded_rounds)} of them discarded; {samples}"
    rest = f", seed {data['seed']}. {host}. {counts}."
    yield element("p", run_name, ", ", element("time", data["started"]), rest, class_="faint")
    for sentence in run.faults:
        yield element("article", element("p", sentence), class_="drift")
    for sentence in data["remarks"]:
        yield element("p", sentence)
    for part in PARTS:
        yield from part(run)
