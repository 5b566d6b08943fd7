# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a tuning for a terminal of 100 columns, from its document alone, the same bytes on any machine."""

from __future__ import annotations

from ..rounds import schedule
from ..verdicts.tuning_result import Tuning
from .report_parts import made_on, marked, void_rounds, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..verdicts.tuning_result import Standing


def report(document: Mapping[str, Any]) -> str:
    """Return the report of a checked document, with a newline at its end."""
    return "\n".join(line.rstrip() for line in _lines(Tuning(document))) + "\n"


def _lines(found: Tuning) -> Iterator[str]:
    document = found.document
    yield from wrapped(found.headline())
    for sentence in [*found.faults, *document["remarks"]]:
        yield from wrapped(sentence)
    yield ""
    yield from wrapped(f"Run {document['id']} of {document['started']}, seed {document['seed']}")
    yield from made_on(document, found.rounds)
    yield ""
    yield f"{'predicted':>9} {'measured':>8} {'n':>3}  against the default"
    standings = found.standings()
    for one in standings:
        if not one.rejected:
            yield from _standing(one)
    error = found.error()
    if error is not None:
        yield f"Predictions of combinations were off by {error:.1%} (median)."
    yield from _rejected(standings)
    yield from _confirmation(found)
    yield from void_rounds(found.rounds, "Void rounds, dropped whole:")


def _standing(one: Standing) -> Iterator[str]:
    predicted, measured = (f"{value:.3f}" if value else "-" for value in (one.predicted, one.measured))
    yield from wrapped(f"{predicted:>9} {measured:>8} {one.count:>3}  {options_text(one.arm)}")


def _rejected(standings: list[Standing]) -> Iterator[str]:
    rejected = [one for one in standings if one.rejected]
    if rejected:
        yield ""
        yield "Rejected:"
    for one in rejected:
        yield from wrapped(f"{options_text(one.arm)}: {one.rejected}", "  ")


def _confirmation(found: Tuning) -> Iterator[str]:
    if not found.best or not found.gain:
        return
    yield ""
    yield f"Confirmation, {found.gain.count} fresh rounds: {options_text(found.best)}"
    yield f"  {'over the default':<24} {found.gain.text()}"
    yield f"  {'the default over itself':<24} {found.twins[schedule.RESTART].text()}"
    yield from wrapped(", ".join(marked(one, not found.faults) for one in found.guards if one.found), "  ")


def options_text(arm: Mapping[str, Any]) -> str:
    """Return the options that a candidate has otherwise."""
    return ", ".join(f"{name} {value}" for name, value in arm["options"].items())
