#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures reports: combining the drift results of 5,000 hosts, and opening the drift page and the plan page of 1,000.

Run as `make bench-report`. Exit code 1 when a figure misses its bar.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import (
    drift_html,
    fleet_metrics,
    fleet_report,
    junit_file,
    markdown_page,
    terminal_page,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._plan_page import plan_html
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import fleets, plans
from tools.pictures.chromium import Page
from vepyc.figures import Bar, Figures

HOSTS, PAGE_HOSTS = 5000, 1000
OPENINGS = 5
RENDERERS = (
    terminal_page.render_terminal_page,
    markdown_page.render_markdown,
    drift_html.render_drift_html_page,
    junit_file.render_junit,
    fleet_metrics.render_fleet_metrics,
)


def measure_building_reports(figures: Figures) -> None:
    """Measure the time to build a report, compare it with the previous report, and render it in every format.

    Results of hosts come as JSON texts, one at a time, as from Ansible's workers, so the memory is that of the report
    only.
    """
    start = time.process_time()
    preparation = 0.0
    collector = fleet_report.ResultCollector()
    for name, faults in fleets.stream(HOSTS):
        before = time.process_time()
        text = None if fleet_report.UNREACHABLE in faults else json.dumps(fleets.answer(*faults))
        preparation += time.process_time() - before
        if text is None:
            collector.record_host_failure(name, fleet_report.UNREACHABLE, "Check the host", "No route to host")
        else:
            collector.add_findings_counts_and_map(name, *json.loads(text))
    first = collector.build_document(generated=fleets.BEFORE)
    document = collector.build_document(generated=fleets.NOW, previous=first)
    folded = time.process_time()
    json.dumps(document)
    for render in RENDERERS:
        render(document)
    figures.print_figure(f"report_fold_{HOSTS}_hosts", folded - start - preparation, "s", Bar("<", 10))
    figures.print_figure(f"report_formats_{HOSTS}_hosts", time.process_time() - folded, "s")
    figures.print_figure(
        "report_memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB", Bar("<", 500)
    )


def measure_paint_times_of_pages(figures: Figures) -> None:
    """Measure the time until a browser without caches has painted the drift page and the plan page."""
    drift = fleets.report(dict(fleets.stream(PAGE_HOSTS)), host_map=plans.result("9754 SMT")["map"])
    planned = plans.gathered(dict(plans.stream(PAGE_HOSTS)))
    with tempfile.TemporaryDirectory() as folder, Page() as browser:
        times = measure_page_openings(browser, Path(folder, "report.html"), drift_html.render_drift_html_page(drift))
        assert browser.evaluate_javascript("document.querySelectorAll('tbody tr').length") == PAGE_HOSTS
        figures.print_figure(f"page_open_{PAGE_HOSTS}_hosts", median(times), "s", Bar("<", 2))
        figures.print_figure("page_open_first", times[0], "s")
        text = plan_html.render_plan_page(planned)
        times = measure_page_openings(browser, Path(folder, "plan.html"), text)
        assert browser.evaluate_javascript("document.querySelectorAll('section svg').length") == len(plans.KINDS)
        figures.print_figure(f"plan_page_{PAGE_HOSTS}_hosts", median(times), "s", Bar("<", 2))
        figures.print_figure("plan_page_first", times[0], "s")
        figures.print_figure("plan_page_plans", len(planned["plans"]), "different plans")
        figures.print_figure("plan_page_size", len(text.encode()) / (1 << 20), "MiB")


def measure_page_openings(browser: Page, file: Path, text: str) -> list[float]:
    """Open a page several times; return the seconds of each opening."""
    file.write_text(text, encoding="utf-8")
    return [browser.open_file(file) for dummy in range(OPENINGS)]


def main() -> int:
    """Measure, and print a line for each figure; return 1 if one misses its bar."""
    figures = Figures()
    measure_building_reports(figures)
    measure_paint_times_of_pages(figures)
    return int(figures.missed)


if __name__ == "__main__":
    sys.exit(main())
