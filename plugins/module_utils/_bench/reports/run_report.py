# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of any run: an ablation, a tuning or a benchmark."""

from __future__ import annotations

from .ablation_report import (
    ablation_headline,
    ablation_sections,
    ablation_steps,
    kept_loss_alerts,
    metrics_section,
    propose_change,
)
from .benchmark_report import benchmark_headline, benchmark_steps
from .first_screen import format_provenance, list_facts, list_figures
from .report_model import Report
from .report_text import render_report_text
from .shown_run import COMPARISON, ShownRun
from .speed_sections import discarded_rounds_section, speed_sections
from .tuning_report import propose_options, tuning_headline, tuning_sections, tuning_steps
from .variant_report import propose_rollout, variant_headlines, variants_section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .report_model import Section

#: The beginning of the remark of a run whose time did not settle all that it was asked.
NOT_ENOUGH_TIME = "Not enough time"


def render_run_report(document: Mapping[str, Any]) -> str:
    """Return the report of a validated document as text for a terminal."""
    return render_report_text(build_run_report(ShownRun(document)))


def build_run_report(run: ShownRun) -> Report:
    """Return the report of a run, from which the text and the page are rendered."""
    sections: list[Section] = []
    by_metric: list[Section] = []
    if run.judgement and run.kind == COMPARISON:
        headlines = [ablation_headline(run.judgement)] if run.faults else variant_headlines(run.judgement)
        report = Report(run.title, headlines[0])
        report.more_headlines += headlines[1:]
        report.change = propose_rollout(run, run.judgement)
        sections += variants_section(run, run.judgement)
    elif run.judgement:
        report = Report(run.title, ablation_headline(run.judgement))
        report.alerts += kept_loss_alerts(run.judgement)
        report.change = propose_change(run, run.judgement)
        report.more_headlines += variant_headlines(run.judgement)
        report.steps += ablation_steps(run, run.judgement)
        sections += [*variants_section(run, run.judgement), *ablation_sections(run, run.judgement)]
        by_metric += metrics_section(run.judgement)
    elif run.tuning:
        report = Report(run.title, tuning_headline(run.tuning))
        report.change = propose_options(run.tuning)
        report.steps += tuning_steps(run.tuning)
        sections += tuning_sections(run.tuning)
    else:
        report = Report(run.title, benchmark_headline(run))
        report.steps += benchmark_steps(run)
    if run.rounds and not run.counts:
        report.alerts.insert(0, "No round counts, and this proves nothing. Every figure below is of discarded rounds.")
    report.faults += run.faults
    report.facts += list_facts(run)
    report.figures += list_figures(run)
    report.provenance = format_provenance(run)
    shortages = [remark for remark in run.data["remarks"] if remark.startswith(NOT_ENOUGH_TIME)]
    report.alerts[:0] = shortages
    report.remarks += [remark for remark in run.data["remarks"] if remark not in shortages]
    report.sections += [*sections, *speed_sections(run), *by_metric, *discarded_rounds_section(run)]
    return report
