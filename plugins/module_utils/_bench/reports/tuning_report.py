# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of the report of a tuning: headline, tables of candidates and confirmation, and what to change."""

from __future__ import annotations

from ..rounds import schedule
from ..verdicts.comparison import PAYS, format_metric_name
from .inventory_change import changed_options_text, render_options_diff
from .report_model import NOTE, NUMBER, Change, Column, Section, Step, Table
from .table_cells import metric_cells, ratio_cell
from .wording import count_with_noun, format_gain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..verdicts.tuning_result import CandidateResult, TuningResult
    from .report_model import AnyCell


def tuning_headline(result: TuningResult) -> str:
    """Return the result of a tuning in one line."""
    if result.faults:
        return "this run is not sound and proves nothing."
    if result.best is None or result.gain is None:
        zone = f"{result.document['plan']['zone']:.0%}".replace("%", " %")
        if result.time_shortage_message:
            return "the default stays, and nothing is proven yet."
        return f"the default stays: nothing that was tried seems more than {zone} better."
    changed = changed_options_text(result.best, result.arms[schedule.DEFAULT]["options"])
    interval = result.gain.interval
    if result.is_gain_proven and interval:
        return f"{format_gain(interval, result.objective, 'the default')} with {changed}."
    if result.time_shortage_message:
        return f"the default stays, and {changed} is not proven yet."
    reason = format_gain(interval, result.objective) if interval else "no interval yet"
    if result.lost_metrics and result.gain.word == PAYS:
        lost = result.lost_metrics[0]
        losses = f"{format_metric_name(lost)} loses {lost.format_ratio()}"
        return f"mixed, so the default stays: {changed} is {reason}, but {losses}."
    return f"the default stays: in {result.gain.count} rounds {changed} was {reason}, which proves no gain."


def propose_options(result: TuningResult) -> Change | None:
    """Return the options that beat the default as a change of the inventory; None where the run proves nothing."""
    if result.faults:
        return None
    if not result.is_gain_proven or not result.best:
        return Change("Change nothing: the default stays.")
    return Change(
        "Give the instance these options in host_vars or group_vars, or run tune.yml with epyc_tune_write=true; then "
        "run site.yml.",
        render_options_diff(
            result.document["instance"], result.best["options"], result.arms[schedule.DEFAULT]["options"]
        ),
    )


def list_next_steps_of_tuning(result: TuningResult) -> Iterator[Step]:
    """Yield what to do after the run."""
    if result.faults:
        yield Step("Repair what the first lines name, and measure again.")
    elif result.is_gain_proven:
        yield Step("After the change, measure what the instance does now.", "ansible-playbook playbooks/benchmark.yml")


def tuning_sections(result: TuningResult) -> Iterator[Section]:
    """Yield the sections of the candidates and of the confirmation; a section without data is left out."""
    candidates = result.candidate_results()
    if candidates:
        columns = [Column("options"), Column("predicted", NUMBER), Column("measured", NUMBER), Column("n", NUMBER)]
        table = Table([*columns, Column("rejected", NOTE)], [_candidate_row(candidate) for candidate in candidates])
        error = result.median_prediction_error()
        remarks = [] if error is None else [f"Predictions of combinations were off by {error:.1%} (median)."]
        metric, dummy, streams = result.metric
        name = f"{metric} with {streams} streams" if streams > 1 else metric
        legend = f"predicted, measured: over the default, {name}; n: rounds"
        yield Section("candidates", "Candidates", table, legend, remarks)
    yield from _confirmation_section(result)


def _candidate_row(candidate: CandidateResult) -> list[AnyCell]:
    predicted, measured = (f"{value:.3f}" if value else "" for value in (candidate.predicted, candidate.measured))
    return [format_arm_options(candidate.arm), predicted, measured, str(candidate.count), candidate.rejected]


def _confirmation_section(result: TuningResult) -> Iterator[Section]:
    if not result.best or not result.gain:
        return
    has_faults = bool(result.faults)
    names = dict.fromkeys(format_metric_name(guard) for guard in result.guards if guard.interval)
    gain = ratio_cell(result.gain, has_faults)
    rows: list[list[AnyCell]] = [
        [f"{format_arm_options(result.best)} over the default", gain, *metric_cells(names, result.guards, has_faults)]
    ]
    rows += [
        ["the default over itself", ratio_cell(twin, True), *metric_cells(names, [], True)]
        for twin in result.twins.values()
    ]
    columns = [Column("confirmation"), Column(format_metric_name(result.gain)), *map(Column, names)]
    title = f"Confirmation in {count_with_noun(result.gain.count, 'fresh round')}"
    yield Section("confirmation", title, Table(columns, rows))


def format_arm_options(arm: Mapping[str, Any]) -> str:
    """Return the options of a candidate as text."""
    return ", ".join(f"{name} {value}" for name, value in arm["options"].items())
