# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run as one HTML page that needs no network and no script; the same document gives the same bytes on any machine.

The library computes every figure, and the page only draws figures. Parts without data are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.run_report import build_run_report
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.shown_run import ShownRun
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import frame
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.style import STYLE as PAGE_STYLE
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import (
    fingerprint,
    report_html,
    round_charts,
    speed_charts,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import parse_run_document
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.style import STYLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.report_model import Report

#: Key of a section -> the function that yields its charts.
CHARTS = {"streams": speed_charts.streams_charts, "depth": speed_charts.depth_charts}


def render_run_page(data: object) -> str:
    """Return the page of a run document, given as data or as JSON text; BadRequest for an invalid document."""
    run = ShownRun(parse_run_document(data))
    report = build_run_report(run)
    title = f"{report.title}: {report.headline}"
    return frame.render_page(title, PAGE_STYLE + STYLE, "", _body_elements(run, report))


def _body_elements(run: ShownRun, report: Report) -> Iterator[Html]:
    yield from report_html.render_first_screen(report)
    for section in report.sections:
        charts = CHARTS[section.key](run) if section.key in CHARTS else ()
        yield report_html.render_section(section, list(charts))
    details = [
        *round_charts.sample_chart(run),
        *round_charts.arm_rounds_chart(run),
        *fingerprint.fingerprint_parts(run),
    ]
    if details:
        yield element("section", element("h2", "How it was measured"), *details)
    yield from report_html.render_steps(report.steps)
