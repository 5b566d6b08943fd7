# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a run for a terminal of 100 columns; the same document gives the same bytes on any machine."""

from __future__ import annotations

import math

from ..rounds import schedule
from ..verdicts.comparison import PAYS, format_interval
from ..verdicts.setting_verdicts import TESTED_WORDS, Judgement
from . import benchmark_report, tuning_report
from .forest_plot import PlotAxis
from .report_parts import discarded_round_lines, format_marked_metric, host_lines, wrap_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Optional

    from ..verdicts.comparison import Comparison

    #: A name, the word of its verdict, and the comparison behind it.
    Row = tuple[str, str, Optional[Comparison]]

NAME_WIDTH = 22


def render_run_report(document: Mapping[str, Any]) -> str:
    """Return the report of a validated document of any kind of run, with a newline at its end."""
    anchor = schedule.anchor_name(document["plan"]["arms"])
    if anchor == schedule.RUNNING:
        return benchmark_report.render_benchmark_report(document)
    if anchor == schedule.DEFAULT:
        return tuning_report.render_tuning_report(document)
    return "\n".join(line.rstrip() for line in _report_lines(document, Judgement(document))) + "\n"


def ablation_headline(judgement: Judgement) -> str:
    """Return the result of an ablation in one line; the joint gain only of a sound, confirmed run."""
    if judgement.faults:
        return "This run is not sound and proves nothing."
    race = judgement.confirmation
    if race.kept_over_stock is None or not race.confirmed or race.kept_over_stock.interval is None:
        count = race.kept_over_stock.count if race.kept_over_stock else 0
        return f"Not confirmed: {count} of {schedule.CONFIRMATION_ROUNDS} fresh rounds of what is kept against stock."
    good = sum(verdict.word == PAYS for verdict in judgement.verdicts)
    raced = sum(verdict.word in TESTED_WORDS for verdict in judgement.verdicts)
    found = race.kept_over_stock.interval
    proof = ", a loss" if found.high < 0 else ", no proven gain" if found.low <= 0 else ""
    verb = "pays" if good == 1 else "pay"
    return f"On this host {good} of {raced} settings {verb}; together {format_interval(found)}{proof}"


def _report_lines(document: Mapping[str, Any], judgement: Judgement) -> Iterator[str]:
    yield ablation_headline(judgement)
    for sentence in judgement.faults:
        yield from wrap_text(sentence)
    yield ""
    yield from wrap_text(f"Run {document['id']} of {document['started']}, seed {document['seed']}")
    yield from host_lines(document, judgement.rounds)
    yield ""
    yield from _forest_lines(document, judgement)
    yield from _reason_lines(judgement)
    yield from _guard_lines(judgement)
    yield from _confirmation_lines(judgement)
    yield from discarded_round_lines(judgement.rounds, "Discarded rounds:")


def _forest_lines(document: Mapping[str, Any], judgement: Judgement) -> Iterator[str]:
    """Yield a line for each setting, the best first, then for stock and the twin of each class."""
    rows: list[Row] = [(verdict.knob, verdict.word, verdict.primary) for verdict in judgement.verdicts]
    rows.sort(key=lambda row: (-row[2].interval.mean if row[2] and row[2].interval else math.inf, row[0]))
    rows.append(("tuned over stock", "", judgement.stock))
    rows += [(f"tuned, {unit}", "itself", twin) for unit, twin in judgement.twins.items()]
    found = [row[2].interval for row in rows if row[2] and row[2].interval]
    axis = PlotAxis(found, math.log1p(document["plan"]["zone"]))
    yield f"{'setting':<{NAME_WIDTH}} {'verdict':<10} {'with over without':<24} {'n':>2}  {axis.scale_line()}"
    for name, word, comparison in rows:
        ratio = comparison.format_ratio() if comparison else "-"
        count = comparison.count if comparison else 0
        line = axis.interval_line(comparison.interval if comparison else None)
        yield f"{_cut_name(name)} {word:<10} {ratio:<24} {count:>2}  {line}"
    yield f"n: rounds, starts or boots; [o]: interval and estimate; : is below {document['plan']['zone']:.1%}"


def _reason_lines(judgement: Judgement) -> Iterator[str]:
    told = [verdict for verdict in judgement.verdicts if verdict.reason]
    if told:
        yield ""
    for verdict in told:
        yield from wrap_text(f"{verdict.knob}: {verdict.word}, {verdict.reason}")


def _guard_lines(judgement: Judgement) -> Iterator[str]:
    shown = [verdict for verdict in judgement.verdicts if any(guard.interval for guard in verdict.guards)]
    if shown:
        yield ""
        yield "By metric, + and - where the interval proves it:"
    for verdict in shown:
        told = ", ".join(
            format_marked_metric(guard, not judgement.faults) for guard in verdict.guards if guard.interval
        )
        yield from wrap_text(f"{verdict.knob}: {told}", "  ")


def _confirmation_lines(judgement: Judgement) -> Iterator[str]:
    race = judgement.confirmation
    if race.kept_over_stock is None:
        return
    yield ""
    yield f"Confirmation, {race.kept_over_stock.count} fresh rounds:"
    for name, comparison in race.named_pairs().items():
        yield f"  {name:<20} {comparison.format_ratio()}"
    yield from wrap_text(
        ", ".join(format_marked_metric(part, not judgement.faults) for part in race.by_metric if part.interval), "  "
    )


def _cut_name(name: str) -> str:
    return f"{name:<{NAME_WIDTH}}" if len(name) <= NAME_WIDTH else f"{name[: NAME_WIDTH - 3]}..."
