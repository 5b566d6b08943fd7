# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compared runs as one HTML page that needs no network and no script, made of the report that a terminal shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.compare.comparison_report import (
    build_comparison_report,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.compare.run_comparison import RunComparison
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import frame
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.style import STYLE as PAGE_STYLE
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import report_html
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import parse_run_document
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.style import STYLE

if TYPE_CHECKING:
    from collections.abc import Sequence


def compare_runs(documents: Sequence[Any], labels: Sequence[str] | None = None) -> RunComparison:
    """Return the comparison of run documents, each as data or JSON text; BadRequest for an invalid document."""
    valid = [parse_run_document(document) for document in documents]
    return RunComparison(valid, labels or [document["id"] for document in valid])


def render_comparison_page(comparison: RunComparison) -> str:
    """Return the page of compared runs."""
    report = build_comparison_report(comparison)
    body = [
        *report_html.render_first_screen(report),
        *(report_html.render_section(section) for section in report.sections),
        *report_html.render_steps(report.steps),
    ]
    return frame.render_page(f"{report.title}: {report.headline}", PAGE_STYLE + STYLE, "", body)
