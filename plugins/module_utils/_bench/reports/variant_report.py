# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of a report about variants: another build, engine or model compared with the instance as it runs."""

from __future__ import annotations

import math

from ..verdicts.comparison import PAYS, format_metric_name
from .inventory_change import render_options_diff
from .report_model import NOTE, NUMBER, PLOT, Cell, Change, Column, Section, Table
from .table_cells import metric_cells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..verdicts.setting_verdicts import Judgement
    from ..verdicts.variant_verdicts import VariantVerdict
    from .report_model import AnyCell
    from .shown_run import ShownRun


def variant_headlines(judgement: Judgement) -> list[str]:
    """Return the verdict on each variant in a line; none for a run with faults, which proves nothing."""
    variants = [] if judgement.faults else judgement.variants
    return [variant.headline(judgement.running_name) for variant in variants]


def variants_section(run: ShownRun, judgement: Judgement) -> Iterator[Section]:
    """Yield the section of the variants: a row for each, a column for each metric; nothing without variants."""
    if not judgement.variants:
        return
    metrics = dict.fromkeys(
        format_metric_name(comparison) for variant in judgement.variants for comparison in variant.comparisons
    )
    zone = math.log1p(run.data["plan"]["zone"])
    rows = [_variant_row(variant, metrics, bool(judgement.faults)) for variant in judgement.variants]
    columns = [Column(f"over {judgement.running_name}"), Column("verdict"), Column("n", NUMBER)]
    columns += [Column("interval", PLOT), *map(Column, metrics), Column("reason", NOTE)]
    shown = next(iter(metrics), "decode")
    legend = f"above 1 the variant is better than what runs; the plot has the interval of {shown}"
    yield Section("variants", "Other programs and models", Table(columns, rows, zone), legend)


def propose_rollout(run: ShownRun, judgement: Judgement) -> Change | None:
    """Return the options of the best variant as a change of the inventory; None where no variant pays."""
    paying = [
        variant
        for variant in judgement.variants
        if variant.word == PAYS and variant.comparisons and variant.comparisons[0].interval
    ]
    if judgement.faults:
        return None
    if not paying:
        return Change("Change nothing: no variant was proven to be better without a loss.")
    best = max(paying, key=lambda variant: variant.comparisons[0].interval.mean)  # type: ignore[union-attr]
    options = next(arm["options"] for arm in run.data["plan"]["arms"] if arm["name"] == best.arm)
    return Change(
        f"Roll out {best.name}: change these lines in host_vars or group_vars, and run site.yml.",
        render_options_diff(run.data["instance"], options, {}),
    )


def _variant_row(variant: VariantVerdict, metrics: dict[str, None], has_faults: bool) -> list[AnyCell]:
    first = variant.comparisons[0] if variant.comparisons else None
    plot = Cell(first.format_ratio(), variant.word, first.interval) if first else Cell("")
    count = str(first.count) if first else ""
    ratios = metric_cells(metrics, variant.comparisons, has_faults)
    return [variant.name, Cell(variant.word, variant.word), count, plot, *ratios, variant.reason]
