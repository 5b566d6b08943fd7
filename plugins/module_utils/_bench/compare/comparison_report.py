# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a comparison: what differs between the runs, then the figures of each later run and of each arm."""

from __future__ import annotations

from ..reports.report_model import NUMBER, Cell, Column, Report, Section, Step, Table
from ..reports.report_text import render_report_text
from ..verdicts.comparison import HURTS, PAYS
from .run_comparison import CLEAR_CHANGE, LEAST_ROUNDS, NOT_PAIRED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..reports.report_model import AnyCell
    from .run_comparison import ComparedFigure, RunComparison

#: The most rows that the table of differences shows, and the most characters of a value.
MOST_DIFFERENCES, LONGEST_VALUE = 40, 60


def render_comparison_report(comparison: RunComparison) -> str:
    """Return the report of compared runs as text for a terminal."""
    return render_report_text(build_comparison_report(comparison))


def build_comparison_report(comparison: RunComparison) -> Report:
    """Return the report of compared runs, from which the text and a page are rendered."""
    report = Report("Comparison", comparison.headline())
    for label, document in zip(comparison.labels, comparison.documents):
        report.facts.append((label, f"run {document['id']} of {document['started']}"))
    if len(comparison.documents) > 1:
        report.sections.append(_differences_section(comparison))
    by_subject: dict[str, list[ComparedFigure]] = {}
    for figure in comparison.figures:
        by_subject.setdefault(figure.subject, []).append(figure)
    report.sections += [_figures_section(subject, figures) for subject, figures in by_subject.items()]
    if not by_subject:
        report.remarks.append(
            "No figure is in two runs or in two arms of one run, in rounds that count. Name another run, or measure "
            "again."
        )
    if any(not figure.is_paired for figure in comparison.figures):
        report.steps.append(
            Step(
                "To know it better, measure both as arms of one run: then rounds are paired, and the ratio has an "
                "interval.",
                'ansible-playbook playbooks/ablation.yml -e \'{"epyc_ablation_arms": [{"binary": "/opt/..."}]}\'',
            )
        )
    return report


def _differences_section(comparison: RunComparison) -> Section:
    differences = comparison.differences[:MOST_DIFFERENCES]
    left_out = len(comparison.differences) - len(differences)
    if not differences:
        return Section("differences", "What differs", legend="Nothing that is known differs between these runs.")
    columns = [Column("differs"), *map(Column, comparison.labels)]
    rows = [[one.name, *map(_cut_text, one.values)] for one in differences]
    legend = f"and {left_out} more" if left_out else ""
    return Section("differences", "What differs", Table(columns, rows), legend)


def _figures_section(subject: str, figures: list[ComparedFigure]) -> Section:
    columns = [Column("figure"), Column("before", NUMBER), Column("now", NUMBER), Column("ratio", NUMBER)]
    columns += [Column("interval"), Column("verdict")]
    legend = "ratio: above 1 it is better than before, also for times"
    if not all(figure.is_paired for figure in figures):
        legend += (
            f"; before, now: medians over rounds. {NOT_PAIRED}: the runs were not measured in the same rounds, so that "
            "other starts and other times are in the ratio too. It is clear where at least "
            f"{LEAST_ROUNDS} rounds of each run lie wholly apart, by {CLEAR_CHANGE:.0%} or more."
        )
    rows = [_figure_cells(figure) for figure in figures]
    return Section(f"figures {subject}", subject, Table(columns, rows), legend)


def _figure_cells(figure: ComparedFigure) -> list[AnyCell]:
    values = ["" if value is None else f"{value:.4g} {figure.unit}" for value in (figure.old, figure.new)]
    word = HURTS if figure.is_loss else PAYS if figure.is_gain else ""
    return [figure.name, *values, Cell(f"{figure.ratio:.3f}", word), figure.interval_text(), figure.word]


def _cut_text(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."
