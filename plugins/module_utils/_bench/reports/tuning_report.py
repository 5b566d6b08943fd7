# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a tuning for a terminal of 100 columns; a document gives the same bytes on any machine."""

from __future__ import annotations

from ..rounds import schedule
from ..verdicts.tuning_result import TuningResult
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
    from typing import Any

    from ..verdicts.tuning_result import CandidateResult


def render_tuning_report(document: Mapping[str, Any]) -> str:
    """Return the report of a validated document of a tuning."""
    return join_report_lines(_tuning_report_lines(TuningResult(document)))


def _tuning_report_lines(result: TuningResult) -> Iterator[str]:
    document = result.document
    yield from wrap_to_report_width(result.headline())
    for sentence in [*result.faults, *document["remarks"]]:
        yield from wrap_to_report_width(sentence)
    yield ""
    yield from wrap_to_report_width(f"Run {document['id']} of {document['started']}, seed {document['seed']}")
    yield from host_and_sample_count_lines(document, result.rounds)
    yield ""
    yield f"{'predicted':>9} {'measured':>8} {'n':>3}  against the default"
    candidates = result.candidate_results()
    for candidate in candidates:
        if not candidate.rejected:
            yield from _candidate_lines(candidate)
    error = result.median_prediction_error()
    if error is not None:
        yield f"Predictions of combinations were off by {error:.1%} (median)."
    yield from _rejected_lines(candidates)
    yield from _confirmation_lines(result)
    yield from discarded_round_lines(result.rounds)


def _candidate_lines(candidate: CandidateResult) -> Iterator[str]:
    predicted, measured = (f"{value:.3f}" if value else "-" for value in (candidate.predicted, candidate.measured))
    yield from wrap_to_report_width(
        f"{predicted:>9} {measured:>8} {candidate.count:>3}  {format_arm_options(candidate.arm)}"
    )


def _rejected_lines(candidates: list[CandidateResult]) -> Iterator[str]:
    rejected = [candidate for candidate in candidates if candidate.rejected]
    messages = (f"{format_arm_options(candidate.arm)}: {candidate.rejected}" for candidate in rejected)
    yield from titled_list_lines("Rejected:", messages)


def _confirmation_lines(result: TuningResult) -> Iterator[str]:
    if not result.best or not result.gain:
        return
    yield ""
    yield f"Confirmation, {result.gain.count} fresh rounds: {format_arm_options(result.best)}"
    yield f"  {'over the default':<24} {result.gain.format_ratio()}"
    yield f"  {'the default over itself':<24} {result.twins[schedule.RESTART].format_ratio()}"
    yield from wrap_to_report_width(format_metric_ratios(result.guards, not result.faults), "  ")


def format_arm_options(arm: Mapping[str, Any]) -> str:
    """Return the options of a candidate as text."""
    return ", ".join(f"{name} {value}" for name, value in arm["options"].items())
