# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a tuning for a terminal of 100 columns, from its document alone, the same bytes on any machine."""

from __future__ import annotations

from ..rounds import schedule
from ..verdicts.tuning_result import TuningResult
from .report_parts import discarded_round_lines, format_marked_metric, host_lines, wrap_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..verdicts.tuning_result import CandidateResult


def render_tuning_report(document: Mapping[str, Any]) -> str:
    """Return the report of a validated document, with a newline at its end."""
    return "\n".join(line.rstrip() for line in _report_lines(TuningResult(document))) + "\n"


def _report_lines(found: TuningResult) -> Iterator[str]:
    document = found.document
    yield from wrap_text(found.headline())
    for sentence in [*found.faults, *document["remarks"]]:
        yield from wrap_text(sentence)
    yield ""
    yield from wrap_text(f"Run {document['id']} of {document['started']}, seed {document['seed']}")
    yield from host_lines(document, found.rounds)
    yield ""
    yield f"{'predicted':>9} {'measured':>8} {'n':>3}  against the default"
    standings = found.candidate_results()
    for result in standings:
        if not result.rejected:
            yield from _candidate_lines(result)
    error = found.median_prediction_error()
    if error is not None:
        yield f"Predictions of combinations were off by {error:.1%} (median)."
    yield from _rejected_lines(standings)
    yield from _confirmation_lines(found)
    yield from discarded_round_lines(found.rounds, "Discarded rounds:")


def _candidate_lines(one: CandidateResult) -> Iterator[str]:
    predicted, measured = (f"{value:.3f}" if value else "-" for value in (one.predicted, one.measured))
    yield from wrap_text(f"{predicted:>9} {measured:>8} {one.count:>3}  {format_options(one.arm)}")


def _rejected_lines(standings: list[CandidateResult]) -> Iterator[str]:
    rejected = [result for result in standings if result.rejected]
    if rejected:
        yield ""
        yield "Rejected:"
    for one in rejected:
        yield from wrap_text(f"{format_options(one.arm)}: {one.rejected}", "  ")


def _confirmation_lines(found: TuningResult) -> Iterator[str]:
    if not found.best or not found.gain:
        return
    yield ""
    yield f"Confirmation, {found.gain.count} fresh rounds: {format_options(found.best)}"
    yield f"  {'over the default':<24} {found.gain.format_ratio()}"
    yield f"  {'the default over itself':<24} {found.twins[schedule.RESTART].format_ratio()}"
    yield from wrap_text(
        ", ".join(format_marked_metric(guard, not found.faults) for guard in found.guards if guard.interval), "  "
    )


def format_options(arm: Mapping[str, Any]) -> str:
    """Return as text the options that a candidate changes."""
    return ", ".join(f"{name} {value}" for name, value in arm["options"].items())
