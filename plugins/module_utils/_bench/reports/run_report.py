# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of any run: an ablation, a tuning or a benchmark."""

from __future__ import annotations

from .ablation_report import (
    ablation_headline,
    ablation_sections,
    kept_loss_alerts,
    list_next_steps_of_ablation,
    metrics_section,
    propose_inventory_change,
)
from .benchmark_report import benchmark_headline, list_next_steps_of_benchmark
from .first_screen import format_provenance, list_facts, list_figures
from .report_model import Report
from .report_text import render_report_text
from .shown_run import COMPARISON, ShownRun
from .speed_sections import discarded_rounds_section, speed_sections
from .tuning_report import list_next_steps_of_tuning, propose_options, tuning_headline, tuning_sections
from .variant_report import propose_rollout, variant_headlines, variants_section
from .wording import join_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def render_run_report(document: Mapping[str, Any]) -> str:
    """Return the report of a validated document as text for a terminal."""
    return render_report_text(build_run_report(ShownRun(document)))


def build_run_report(run: ShownRun) -> Report:
    """Return the report of a run, from which the text and the page are rendered."""
    report = _build_report_of_kind(run)
    report.alerts[:0] = [*run.data["shortages"], *_discarded_run_alerts(run)]
    report.faults += run.faults
    report.facts += list_facts(run)
    report.figures += list_figures(run)
    report.provenance = format_provenance(run)
    report.remarks += run.data["remarks"]
    report.sections += speed_sections(run)
    report.sections += metrics_section(run.judgement) if run.judgement else ()
    report.sections += discarded_rounds_section(run)
    return report


def _build_report_of_kind(run: ShownRun) -> Report:
    """Return the report with the parts that only an ablation, a comparison, a tuning or a benchmark has."""
    if run.tuning:
        report = Report(run.title, tuning_headline(run.tuning))
        report.change = propose_options(run.tuning)
        report.sections += tuning_sections(run.tuning)
        report.steps += list_next_steps_of_tuning(run.tuning)
    elif run.judgement is None:
        report = Report(run.title, benchmark_headline(run))
        report.steps += list_next_steps_of_benchmark(run)
    elif run.kind == COMPARISON:
        headlines = [ablation_headline(run.judgement)] if run.faults else variant_headlines(run.judgement)
        report = Report(run.title, headlines[0])
        report.more_headlines += headlines[1:]
        report.change = propose_rollout(run, run.judgement)
        report.sections += variants_section(run, run.judgement)
    else:
        report = Report(run.title, ablation_headline(run.judgement))
        report.alerts += kept_loss_alerts(run.judgement)
        report.more_headlines += variant_headlines(run.judgement)
        report.change = propose_inventory_change(run, run.judgement)
        report.sections += [*variants_section(run, run.judgement), *ablation_sections(run, run.judgement)]
        report.steps += list_next_steps_of_ablation(run, run.judgement)
    return report


def _discarded_run_alerts(run: ShownRun) -> list[str]:
    """Return the alert of a run of which no round counts, with the programs that disturbed it most."""
    if not run.rounds or run.counts:
        return []
    alert = "No round counts, and this proves nothing. Every figure below is of discarded rounds."
    busiest = join_names([f"{unit} ({share:.1%})" for unit, share in _busiest_other_programs(run)])
    return [f"{alert} The busiest other programs were {busiest}." if busiest else alert]


def _busiest_other_programs(run: ShownRun) -> list[tuple[str, float]]:
    """Return the three busiest other programs of a run with their largest share of the time of the instance's CPUs."""
    shares: dict[str, float] = {}
    for sample in run.data["samples"]:
        for unit in sample["witness"]["busiest"]:
            shares[unit["unit"]] = max(unit["share"], shares.get(unit["unit"], 0.0))
    return sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
