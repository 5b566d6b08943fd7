# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cells of tables for comparisons: the ratio with its interval, and what it proves."""

from __future__ import annotations

from ..verdicts.comparison import format_metric_name
from .report_model import Cell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..verdicts.comparison import Comparison
    from .report_model import AnyCell


def metric_cells(names: Iterable[str], comparisons: Sequence[Comparison], has_faults: bool) -> list[AnyCell]:
    """Return a cell for each name of a metric, with the verdict word unless the run has faults."""
    by_name = {format_metric_name(comparison): comparison for comparison in comparisons if comparison.interval}
    return [ratio_cell(by_name.get(name), has_faults) for name in names]


def ratio_cell(comparison: Comparison | None, has_faults: bool) -> AnyCell:
    """Return the cell of a ratio with its interval; "" without an interval."""
    if comparison is None or comparison.interval is None:
        return ""
    return Cell(comparison.format_ratio(), "" if has_faults else comparison.word, comparison.interval)
