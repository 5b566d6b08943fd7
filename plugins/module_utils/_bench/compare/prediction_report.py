# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report on predictions of a fleet: for the newest run of each instance, the predicted rate beside the measured."""

from __future__ import annotations

from statistics import median

from ..memory.compared_predictions import compare_predictions
from ..reports.report_model import Report
from ..reports.report_text import render_report_text
from ..reports.speed_sections import build_prediction_section
from ..reports.wording import count_with_noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..memory.compared_predictions import ComparedPrediction

#: A prediction is near if the measured rate differs from it by at most this share.
NEAR = 0.25
NO_LEARNING = (
    "No prediction is changed by these runs: constants change only with a new version of the collection. Where a run "
    "is stored, the measured rate is what counts."
)


def build_prediction_report(documents: Sequence[Mapping[str, Any]]) -> Report:
    """Return the report on the predictions of some validated documents."""
    compared = compare_predictions(documents)
    report = Report("Predicted against measured", _headline(compared))
    report.facts.append(("runs", count_with_noun(len(documents), "file")))
    report.remarks.append(NO_LEARNING)
    if compared:
        report.sections.append(build_prediction_section(compared))
    return report


def render_prediction_report(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the report on the predictions of some validated documents as text for a terminal."""
    return render_report_text(build_prediction_report(documents))


def _headline(compared: Sequence[ComparedPrediction]) -> str:
    if not compared:
        return "no run has both a prediction and a round that counts."
    near = sum(1 for row in compared if abs(row.ratio - 1) <= NEAR)
    middle = median(row.ratio for row in compared)
    return (
        f"{near} of {count_with_noun(len(compared), 'prediction')} within {NEAR:.0%}; the median of measured over "
        f"predicted is {middle:.2f}."
    )
