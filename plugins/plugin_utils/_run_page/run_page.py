# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run as one HTML page that needs nothing else: no network, no script, and the same bytes on every machine.

The engine computes every figure; the page only draws them. A part of which the document has no data is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import frame
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.style import STYLE as PAGE_STYLE
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import format_count
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import (
    forest_plot,
    round_charts,
    speed_charts,
    tables,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import Run, given
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.style import STYLE

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTS = (
    forest_plot.plot,
    speed_charts.memory,
    speed_charts.latency,
    round_charts.course,
    speed_charts.predicted,
    round_charts.lived,
    tables.candidates,
    tables.gain,
    tables.verdicts,
    tables.guards,
    tables.confirmation,
    tables.figures,
    tables.void,
    tables.fingerprint,
)


def render(data: object) -> str:
    """Return the page of a document, or of the text of its file; raises BadRequest where it is none."""
    run = Run(given(data))
    return frame.render_page(f"Benchmark: {run.headline()}", PAGE_STYLE + STYLE, "", _body(run))


def _body(run: Run) -> Iterator[Html]:
    data, known = run.data, run.data["fingerprint"]
    yield element("h1", "Benchmark")
    yield element("p", run.headline(), class_="headline")
    of = f"Run {data['id']} of the instance {data['instance']}"
    host = f"{known['sku'] or 'Unknown processor'}, Linux {known['kernel'] or 'unknown'}"
    rounds, samples = format_count(len(run.rounds), "round"), format_count(len(data["samples"]), "sample")
    counts = f"{rounds}, {len(run.void)} of them void; {samples}"
    rest = f", seed {data['seed']}. {host}. {counts}."
    yield element("p", of, ", ", element("time", data["started"]), rest, class_="faint")
    for sentence in run.faults:
        yield element("article", element("p", sentence), class_="drift")
    for sentence in data["remarks"]:
        yield element("p", sentence)
    for part in PARTS:
        yield from part(run)
