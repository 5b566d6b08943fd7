# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of the report of an ablation: headline, tables of settings and confirmation, and what to change."""

from __future__ import annotations

import json
import math

from ..rounds import measured_rounds, schedule
from ..verdicts.comparison import HURTS, MIXED, PAYS, UNDECIDED, UNTESTED, format_interval, format_metric_name
from ..verdicts.objectives import combine_verdict_words
from ..verdicts.setting_verdicts import TESTED_WORDS
from .inventory_change import removal_arms, render_removal_diff
from .report_model import NOTE, NUMBER, PLOT, Cell, Change, Column, Section, Step, Table
from .table_cells import metric_cells, ratio_cell
from .wording import count_with_noun, format_gain, join_names, objective_of_metric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..verdicts.comparison import Comparison
    from ..verdicts.setting_verdicts import Judgement, Verdict
    from .report_model import AnyCell
    from .shown_run import ShownRun


def ablation_headline(judgement: Judgement) -> str:
    """Return the result of an ablation in one line, with the joint gain of a sound and confirmed run."""
    if judgement.faults:
        return "this run is not sound and proves nothing."
    kept_over_stock = judgement.confirmation.kept_over_stock
    gain = kept_over_stock.interval if kept_over_stock else None
    if gain is None:
        count = kept_over_stock.count if kept_over_stock else 0
        return f"not confirmed: {count} of {schedule.CONFIRMATION_ROUNDS} fresh rounds of what is kept against stock."
    paying = sum(verdict.word == PAYS for verdict in judgement.verdicts)
    tested = sum(verdict.word in TESTED_WORDS for verdict in judgement.verdicts)
    verb = "pays" if paying == 1 else "pay"
    text = format_gain(gain, next(iter(judgement.confirmation.over_stock)), schedule.STOCK)
    if gain.low <= 0 <= gain.high:
        text = f"no proven gain, {text}"
    elif gain.high < 0:
        text = f"a loss, {text}"
    return f"{text}; {paying} of {tested} settings {verb}."


def kept_loss_alerts(judgement: Judgement) -> Iterator[str]:
    """Yield a sentence for each metric in which the kept settings are proven to be worse than the tuned ones."""
    for comparison in judgement.confirmation.losses_against_tuned:
        if comparison.interval:
            change = format_gain(comparison.interval, objective_of_metric(comparison))
            yield (
                f"What is kept is worse than what is tuned in {format_metric_name(comparison)}: {change}. Weigh that "
                "before settings are taken out."
            )


def ablation_sections(run: ShownRun, judgement: Judgement) -> Iterator[Section]:
    """Yield the sections of the settings and of the confirmation; a section without data is left out."""
    yield _settings_section(run, judgement)
    yield from _confirmation_section(judgement)


def propose_inventory_change(run: ShownRun, judgement: Judgement) -> Change | None:
    """Return what to change in the inventory; None where the run proves nothing."""
    if judgement.faults or not judgement.confirmation.confirmed:
        return None
    removed = judgement.settings_to_leave_out()
    mixed = [verdict.knob for verdict in judgement.verdicts if verdict.word == MIXED]
    question = ""
    if mixed:
        question = f" Decide on {join_names(mixed)} by what you serve: better in one objective, worse in another."
    if not removed:
        return Change(f"Change nothing: no setting was proven to hurt without a gain.{question}")
    does_not = f"{'does' if len(removed) == 1 else 'do'} not pay"
    remove = f"{join_names(removed)} {does_not}: remove these lines from host_vars or group_vars, and run site.yml."
    return Change(
        f"{remove}{question}",
        render_removal_diff(run.data["instance"], removal_arms(run.data["plan"]["arms"], removed)),
    )


def list_next_steps_of_ablation(run: ShownRun, judgement: Judgement) -> Iterator[Step]:
    """Yield what to do after the run: repair it, decide what is open, or measure again after a change."""
    if judgement.faults:
        yield Step("Repair what the first lines name, and measure again.")
        return
    undecided = [verdict.knob for verdict in judgement.verdicts if verdict.word == UNDECIDED]
    untested = [verdict.knob for verdict in judgement.verdicts if verdict.word == UNTESTED and verdict.setting_class]
    if undecided or untested:
        names = join_names([*undecided, *untested])
        variables = json.dumps({"epyc_ablation_knobs": [*undecided, *untested]})
        yield Step(
            f"Give {names} more time in a run of their own.",
            f"ansible-playbook playbooks/ablation.yml -l HOST -e '{variables}'",
        )
    if judgement.settings_to_leave_out():
        yield Step("After the change, measure what the instance does now.", "ansible-playbook playbooks/benchmark.yml")


def _settings_section(run: ShownRun, judgement: Judgement) -> Section:
    classes = {arm["name"]: arm["class"] for arm in run.data["plan"]["arms"]}
    others = judgement.objectives[1:]
    rows = [_verdict_row(verdict, others, bool(judgement.faults)) for verdict in judgement.verdicts_by_gain()]
    references = [("tuned over stock", judgement.stock, classes[schedule.STOCK])] if judgement.stock.count else []
    references += [(f"tuned over itself, {unit}", twin, unit) for unit, twin in judgement.twins.items()]
    for name, comparison, unit in references:
        cells = _comparison_cells(comparison, "", schedule.REPETITIONS[unit].name)
        rows.append([name, "", *cells, *[""] * len(others), "", ""])
    columns = [Column("setting"), Column("verdict"), Column(judgement.objectives[0]), Column("n", NUMBER)]
    columns += [Column("interval", PLOT), *map(Column, others), Column("other texts", NUMBER), Column("reason", NOTE)]
    zone = run.data["plan"]["zone"]
    legend = (
        f"{join_names(judgement.objectives)}: with the setting over without it; n: rounds, starts or boots; the plot "
        f"has the interval of {judgement.objectives[0]} with its estimate, and around 1 the band of changes below "
        f"{100 * zone:g} %"
    )
    if any(verdict.differing_texts for verdict in judgement.verdicts):
        legend += "; other texts: answers that have another text without the setting"
    return Section("settings", "What each setting does", Table(columns, rows, math.log1p(zone)), legend)


def _verdict_row(verdict: Verdict, other_objectives: list[str], has_faults: bool) -> list[AnyCell]:
    unit = schedule.REPETITIONS[verdict.setting_class].name if verdict.setting_class else ""
    texts = f"{verdict.differing_texts} of {verdict.compared_texts}" if verdict.differing_texts else ""
    return [
        verdict.knob,
        Cell(verdict.word, verdict.word),
        *_deciding_cells(verdict, unit),
        *(ratio_cell(verdict.comparisons.get(objective), has_faults) for objective in other_objectives),
        texts,
        _reason_that_ratios_do_not_show(verdict),
    ]


def _reason_that_ratios_do_not_show(verdict: Verdict) -> str:
    """Return the reason of a verdict; "" where it only repeats the ratios of the row."""
    words = [comparison.word for comparison in verdict.comparisons.values()]
    follows = verdict.word in (PAYS, HURTS, MIXED) and combine_verdict_words(words) == verdict.word
    return "" if follows else verdict.reason


def _deciding_cells(verdict: Verdict, unit: str) -> list[AnyCell]:
    """Return the cells of ratio, count and plot: of the deciding objective, or as the screening estimated it."""
    if verdict.screened and (
        verdict.is_settled_by_screening or not verdict.deciding_comparison or not verdict.deciding_comparison.interval
    ):
        ratio = format_interval(verdict.screened)
        return [Cell(ratio, "", verdict.screened), "", Cell(f"{ratio}, by screening", verdict.word, verdict.screened)]
    return _comparison_cells(verdict.deciding_comparison, verdict.word, unit)


def _comparison_cells(comparison: Comparison | None, word: str, unit: str) -> list[AnyCell]:
    """Return the cells of ratio, count and plot; the plot has the colour of the verdict."""
    if comparison is None:
        return ["", "", ""]
    ratio, interval = comparison.format_ratio(), comparison.interval
    tooltip = f"{ratio}, {count_with_noun(comparison.count, unit)}" if unit else ratio
    return [Cell(ratio if interval else "", "", interval), str(comparison.count), Cell(tooltip, word, interval)]


def metrics_section(judgement: Judgement) -> Iterator[Section]:
    """Yield the effect of each setting on each metric that explains its verdict: a row for each setting."""
    by_verdict = {
        verdict: [found for found in (*verdict.guards, *_details_that_explain_verdict(verdict)) if found.interval]
        for verdict in judgement.verdicts
    }
    names = dict.fromkeys(format_metric_name(found) for comparisons in by_verdict.values() for found in comparisons)
    rows = [
        [verdict.knob, *metric_cells(names, comparisons, bool(judgement.faults))]
        for verdict, comparisons in by_verdict.items()
        if comparisons
    ]
    if rows:
        legend = "+ and -: the interval proves a gain or a loss; above 1 the setting is better, also for times"
        yield Section("metrics", "By metric", Table([Column("setting"), *map(Column, names)], rows), legend)


def _details_that_explain_verdict(verdict: Verdict) -> list[Comparison]:
    """Return the details of a verdict; those of steps only where speculation has other tokens per step."""
    per_step = [found.interval for found in verdict.details if found.key[0] == measured_rounds.PER_STEP]
    if any(interval and interval.mean for interval in per_step):
        return verdict.details
    return [found for found in verdict.details if found.key[0] not in (measured_rounds.STEPS, measured_rounds.PER_STEP)]


def _confirmation_section(judgement: Judgement) -> Iterator[Section]:
    """Yield the confirmation: a row for each pair of arms, a column for each objective and each guard."""
    race, has_faults = judgement.confirmation, bool(judgement.faults)
    if race.kept_over_stock is None:
        return
    pairs = [
        (f"{race.winner} over stock", race.over_stock, race.by_metric),
        ("tuned over stock", race.tuned_over_stock, []),
        ("kept over tuned", race.over_tuned, race.guards_over_tuned),
    ]
    guards = (*race.by_metric, *race.guards_over_tuned)
    names = dict.fromkeys(format_metric_name(comparison) for comparison in guards if comparison.interval)
    rows: list[list[AnyCell]] = []
    for name, by_objective, by_metric in pairs:
        if by_objective:
            ratios = [ratio_cell(by_objective.get(objective), has_faults) for objective in race.over_stock]
            rows.append([name, *ratios, *metric_cells(names, by_metric, has_faults)])
    columns = [Column("confirmation"), *map(Column, race.over_stock), *map(Column, names)]
    title = f"Confirmation in {count_with_noun(race.kept_over_stock.count, 'fresh round')}"
    yield Section("confirmation", title, Table(columns, rows))
