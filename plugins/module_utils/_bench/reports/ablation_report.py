# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of the report of an ablation: headline, tables of settings and confirmation, and what to change."""

from __future__ import annotations

import math

from ..rounds import schedule
from ..verdicts.comparison import HURTS, PAYS, UNDECIDED, format_metric_name
from ..verdicts.setting_verdicts import TESTED_WORDS, UNTESTED
from .inventory_change import removal_arms, render_removal_diff
from .report_model import NOTE, NUMBER, PLOT, Cell, Change, Column, Section, Step, Table
from .table_cells import metric_cells, ratio_cell
from .wording import count_with_noun, format_gain, join_names

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
    text = format_gain(gain, than=schedule.STOCK)
    if gain.low <= 0 <= gain.high:
        text = f"no proven gain, {text}"
    elif gain.high < 0:
        text = f"a loss, {text}"
    return f"{text}; {paying} of {tested} settings {verb}."


def kept_loss_alerts(judgement: Judgement) -> Iterator[str]:
    """Yield a sentence for each metric in which the kept settings are proven to be worse than the tuned ones."""
    for comparison in judgement.confirmation.losses_against_tuned:
        if comparison.interval:
            yield (
                f"What is kept is worse than what is tuned in {format_metric_name(comparison)}: "
                f"{format_gain(comparison.interval)}. Weigh that before settings are taken out."
            )


def ablation_sections(run: ShownRun, judgement: Judgement) -> Iterator[Section]:
    """Yield the sections of the settings and of the confirmation; a section without data is left out."""
    yield _settings_section(run, judgement)
    yield from _confirmation_section(judgement)


def propose_change(run: ShownRun, judgement: Judgement) -> Change | None:
    """Return what to change in the inventory; None where the run proves nothing."""
    if judgement.faults or not judgement.confirmation.confirmed:
        return None
    hurting = [verdict.knob for verdict in judgement.verdicts if verdict.word == HURTS]
    if not hurting:
        return Change("Change nothing: no setting was proven to hurt.")
    arms = removal_arms(run.data["plan"]["arms"], hurting)
    what = f"{join_names(hurting)}, which {'hurts' if len(hurting) == 1 else 'hurt'}"
    return Change(
        f"Take out {what}: remove these lines from host_vars or group_vars, and run site.yml.",
        render_removal_diff(run.data["instance"], arms),
    )


def ablation_steps(run: ShownRun, judgement: Judgement) -> Iterator[Step]:
    """Yield what to do after the run: repair it, decide what is open, or measure again after a change."""
    if judgement.faults:
        yield Step("Repair what the first lines name, and measure again.")
        return
    undecided = [verdict.knob for verdict in judgement.verdicts if verdict.word == UNDECIDED]
    untested = [verdict.knob for verdict in judgement.verdicts if verdict.word == UNTESTED and verdict.setting_class]
    if undecided or untested:
        names = join_names([*undecided, *untested])
        listed = ",".join(f'"{name}"' for name in [*undecided, *untested])
        yield Step(
            f"Give {names} more time in a run of their own.",
            f"ansible-playbook playbooks/ablation.yml -l HOST -e '{{\"epyc_ablation_knobs\": [{listed}]}}'",
        )
    if not undecided and not untested and any(verdict.word == HURTS for verdict in judgement.verdicts):
        yield Step("After the change, measure what the instance does now.", "ansible-playbook playbooks/benchmark.yml")


def _settings_section(run: ShownRun, judgement: Judgement) -> Section:
    classes = {arm["name"]: arm["class"] for arm in run.data["plan"]["arms"]}
    rows = [_verdict_row(verdict) for verdict in judgement.verdicts_by_gain()]
    if judgement.stock.count:
        rows.append(_reference_row("tuned over stock", judgement.stock, classes[schedule.STOCK]))
    rows += [_reference_row(f"tuned over itself, {unit}", twin, unit) for unit, twin in judgement.twins.items()]
    columns = [Column("setting"), Column("verdict"), Column("with over without"), Column("n", NUMBER)]
    columns += [Column("interval", PLOT), Column("reason", NOTE)]
    zone = run.data["plan"]["zone"]
    legend = (
        "n: rounds, starts or boots; with over without: tokens per second with the setting over those without it; the "
        f"plot has the interval with its estimate, and around 1 the band of changes below {100 * zone:g} %"
    )
    return Section("settings", "What each setting does", Table(columns, rows, math.log1p(zone)), legend)


def _verdict_row(verdict: Verdict) -> list[AnyCell]:
    unit = schedule.REPETITIONS[verdict.setting_class].name if verdict.setting_class else ""
    return [
        verdict.knob,
        Cell(verdict.word, verdict.word),
        *_comparison_cells(verdict.primary, verdict.word, unit),
        verdict.reason,
    ]


def _reference_row(name: str, comparison: Comparison, setting_class: str) -> list[AnyCell]:
    return [name, "", *_comparison_cells(comparison, "", schedule.REPETITIONS[setting_class].name), ""]


def _comparison_cells(comparison: Comparison | None, word: str, unit: str) -> list[AnyCell]:
    """Return the cells of ratio, count and plot; the plot has the colour of the verdict."""
    if comparison is None:
        return ["", "", ""]
    ratio = comparison.format_ratio()
    tooltip = f"{ratio}, {count_with_noun(comparison.count, unit)}" if unit else ratio
    return [
        Cell(ratio if comparison.interval else "", "", comparison.interval),
        str(comparison.count),
        Cell(tooltip, word, comparison.interval),
    ]


def metrics_section(judgement: Judgement) -> Iterator[Section]:
    """Yield the effect of each setting on each metric: a row for each setting, a column for each metric."""
    shown = [verdict for verdict in judgement.verdicts if any(guard.interval for guard in verdict.guards)]
    names = dict.fromkeys(format_metric_name(guard) for verdict in shown for guard in verdict.guards if guard.interval)
    rows = [[verdict.knob, *metric_cells(names, verdict.guards, bool(judgement.faults))] for verdict in shown]
    if rows:
        columns = [Column("setting"), *map(Column, names)]
        legend = "+ and -: the interval proves a gain or a loss"
        yield Section("metrics", "By metric", Table(columns, rows), legend)


def _confirmation_section(judgement: Judgement) -> Iterator[Section]:
    race = judgement.confirmation
    if race.kept_over_stock is None:
        return
    names = dict.fromkeys(format_metric_name(comparison) for comparison in race.by_metric if comparison.interval)
    has_faults = bool(judgement.faults)
    rows: list[list[AnyCell]] = []
    for name, comparison in race.comparisons_by_name().items():
        by_metric = race.by_metric if comparison is race.kept_over_stock else []
        rows.append([name, ratio_cell(comparison, has_faults), *metric_cells(names, by_metric, has_faults)])
    columns = [Column("confirmation"), Column("decode"), *map(Column, names)]
    title = f"Confirmation in {count_with_noun(race.kept_over_stock.count, 'fresh round')}"
    yield Section("confirmation", title, Table(columns, rows))
