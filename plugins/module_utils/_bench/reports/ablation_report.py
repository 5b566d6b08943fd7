# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of an ablation for a terminal of 100 columns; a document gives the same bytes on any machine."""

from __future__ import annotations

import math

from ..rounds import schedule
from ..verdicts.comparison import PAYS, format_interval
from ..verdicts.setting_verdicts import TESTED_WORDS, Judgement
from . import benchmark_report, tuning_report
from .forest_plot import PlotAxis
from .report_parts import (
    discarded_round_lines,
    format_metric_ratios,
    host_and_sample_count_lines,
    join_report_lines,
    titled_list_lines,
    wrap_to_report_width,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Optional

    from ..verdicts.comparison import Comparison

    #: A name, the word of its verdict, and the comparison behind it.
    Row = tuple[str, str, Optional[Comparison]]

NAME_WIDTH = 22


def render_report_of_any_run(document: Mapping[str, Any]) -> str:
    """Return the report of a validated document of a benchmark, a tuning or an ablation."""
    anchor = schedule.anchor_name(document["plan"]["arms"])
    if anchor == schedule.RUNNING:
        return benchmark_report.render_benchmark_report(document)
    if anchor == schedule.DEFAULT:
        return tuning_report.render_tuning_report(document)
    return join_report_lines(_ablation_report_lines(document, Judgement(document)))


def ablation_headline(judgement: Judgement) -> str:
    """Return the result of an ablation in one line, with the joint gain of a sound and confirmed run."""
    if judgement.faults:
        return "This run is not sound and proves nothing."
    if judgement.variants and not judgement.verdicts:
        return judgement.variants[0].headline(judgement.running_name)
    kept_over_stock = judgement.confirmation.kept_over_stock
    gain = kept_over_stock.interval if kept_over_stock else None
    if gain is None:
        count = kept_over_stock.count if kept_over_stock else 0
        return f"Not confirmed: {count} of {schedule.CONFIRMATION_ROUNDS} fresh rounds of what is kept against stock."
    paying = sum(verdict.word == PAYS for verdict in judgement.verdicts)
    tested = sum(verdict.word in TESTED_WORDS for verdict in judgement.verdicts)
    proof = ", a loss" if gain.high < 0 else ", no proven gain" if gain.low <= 0 else ""
    verb = "pays" if paying == 1 else "pay"
    return f"On this host {paying} of {tested} settings {verb}; together {format_interval(gain)}{proof}"


def _ablation_report_lines(document: Mapping[str, Any], judgement: Judgement) -> Iterator[str]:
    yield from wrap_to_report_width(ablation_headline(judgement))
    for variant in judgement.variants[0 if judgement.verdicts or judgement.faults else 1 :]:
        yield from wrap_to_report_width(variant.headline(judgement.running_name))
    for sentence in judgement.faults:
        yield from wrap_to_report_width(sentence)
    yield ""
    yield from wrap_to_report_width(f"Run {document['id']} of {document['started']}, seed {document['seed']}")
    yield from host_and_sample_count_lines(document, judgement.rounds)
    yield ""
    yield from _forest_plot_lines(document, judgement)
    yield from _verdict_reason_lines(judgement)
    yield from _guard_metric_lines(judgement)
    yield from _confirmation_lines(judgement)
    yield from discarded_round_lines(judgement.rounds)


def _forest_plot_lines(document: Mapping[str, Any], judgement: Judgement) -> Iterator[str]:
    """Yield a line for each setting, the largest gain first, then for stock and for the twin of each class."""
    rows: list[Row] = [(verdict.knob, verdict.word, verdict.primary) for verdict in judgement.verdicts_by_gain()]
    rows.append(("tuned over stock", "", judgement.stock))
    rows += [(f"tuned, {setting_class}", "itself", twin) for setting_class, twin in judgement.twins.items()]
    intervals = [row[2].interval for row in rows if row[2] and row[2].interval]
    axis = PlotAxis(intervals, math.log1p(document["plan"]["zone"]))
    yield f"{'setting':<{NAME_WIDTH}} {'verdict':<10} {'with over without':<24} {'n':>2}  {axis.scale_line()}"
    for name, word, comparison in rows:
        ratio = comparison.format_ratio() if comparison else "-"
        count = comparison.count if comparison else 0
        line = axis.interval_line(comparison.interval if comparison else None)
        yield f"{_fit_name_to_column(name)} {word:<10} {ratio:<24} {count:>2}  {line}"
    yield f"n: rounds, starts or boots; [o]: interval and estimate; : is below {document['plan']['zone']:.1%}"


def _verdict_reason_lines(judgement: Judgement) -> Iterator[str]:
    with_reason = [verdict for verdict in judgement.verdicts if verdict.reason]
    if with_reason:
        yield ""
    for verdict in with_reason:
        yield from wrap_to_report_width(f"{verdict.knob}: {verdict.word}, {verdict.reason}")


def _guard_metric_lines(judgement: Judgement) -> Iterator[str]:
    shown = [verdict for verdict in judgement.verdicts if any(guard.interval for guard in verdict.guards)]
    ratios = (f"{verdict.knob}: {format_metric_ratios(verdict.guards, not judgement.faults)}" for verdict in shown)
    yield from titled_list_lines("By metric, + and - where the interval proves it:", ratios)


def _confirmation_lines(judgement: Judgement) -> Iterator[str]:
    confirmation = judgement.confirmation
    if confirmation.kept_over_stock is None:
        return
    yield ""
    yield f"Confirmation, {confirmation.kept_over_stock.count} fresh rounds:"
    for name, comparison in confirmation.comparisons_by_name().items():
        yield f"  {name:<20} {comparison.format_ratio()}"
    yield from wrap_to_report_width(format_metric_ratios(confirmation.by_metric, not judgement.faults), "  ")


def _fit_name_to_column(name: str) -> str:
    return f"{name:<{NAME_WIDTH}}" if len(name) <= NAME_WIDTH else f"{name[: NAME_WIDTH - 3]}..."
