# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a run for a terminal of 100 columns: document in, text out, the same bytes on any machine."""

from __future__ import annotations

import math

from ..rounds import schedule
from ..verdicts.comparison import PAYS, ratio_text
from ..verdicts.setting_verdicts import RACED, Judgement
from . import benchmark_report, tuning_report
from .forest_plot import Axis
from .report_parts import made_on, marked, void_rounds, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Optional

    from ..verdicts.comparison import Comparison

    #: A name, the word of its verdict, and the comparison behind it.
    Row = tuple[str, str, Optional[Comparison]]

NAMES = 22


def report(document: Mapping[str, Any]) -> str:
    """Return the report of a checked document, with a newline at its end."""
    anchor = schedule.anchor(document["plan"]["arms"])
    if anchor == schedule.RUNNING:
        return benchmark_report.report(document)
    if anchor == schedule.DEFAULT:
        return tuning_report.report(document)
    return "\n".join(line.rstrip() for line in _lines(document, Judgement(document))) + "\n"


def headline(judgement: Judgement) -> str:
    """Return the first line in words. Only a sound run with a whole confirmation says what settings do together."""
    if judgement.faults:
        return "This run is void and proves nothing."
    race = judgement.confirmation
    if race.together is None or not race.confirmed or race.together.found is None:
        count = race.together.count if race.together else 0
        return f"Not confirmed: {count} of {schedule.CONFIRMING} fresh rounds of what is kept against stock."
    good = sum(one.word == PAYS for one in judgement.verdicts)
    raced = sum(one.word in RACED for one in judgement.verdicts)
    found = race.together.found
    proof = ", a loss" if found.high < 0 else ", no proven gain" if found.low <= 0 else ""
    verb = "pays" if good == 1 else "pay"
    return f"On this host {good} of {raced} settings {verb}; together {ratio_text(found)}{proof}"


def _lines(document: Mapping[str, Any], judgement: Judgement) -> Iterator[str]:
    yield headline(judgement)
    for sentence in judgement.faults:
        yield from wrapped(sentence)
    yield ""
    yield from wrapped(f"Run {document['id']} of {document['started']}, seed {document['seed']}")
    yield from made_on(document, judgement.rounds)
    yield ""
    yield from _forest(document, judgement)
    yield from _reasons(judgement)
    yield from _guards(judgement)
    yield from _confirmation(judgement)
    yield from void_rounds(judgement.rounds, "Void rounds, dropped whole:")


def _forest(document: Mapping[str, Any], judgement: Judgement) -> Iterator[str]:
    """A row for each setting, the best first, then stock and the twin of each class."""
    rows: list[Row] = [(one.knob, one.word, one.primary) for one in judgement.verdicts]
    rows.sort(key=lambda row: (-row[2].found.mean if row[2] and row[2].found else math.inf, row[0]))
    rows.append(("tuned over stock", "", judgement.stock))
    rows += [(f"tuned, {unit}", "itself", twin) for unit, twin in judgement.twins.items()]
    found = [row[2].found for row in rows if row[2] and row[2].found]
    axis = Axis(found, math.log1p(document["plan"]["zone"]))
    yield f"{'setting':<{NAMES}} {'verdict':<10} {'with over without':<24} {'n':>2}  {axis.scale()}"
    for name, word, one in rows:
        ratio = one.text() if one else "-"
        count = one.count if one else 0
        yield f"{_cut(name)} {word:<10} {ratio:<24} {count:>2}  {axis.line(one.found if one else None)}"
    yield f"n: rounds, starts or boots; [o]: interval and estimate; : is below {document['plan']['zone']:.1%}"


def _reasons(judgement: Judgement) -> Iterator[str]:
    told = [one for one in judgement.verdicts if one.reason]
    if told:
        yield ""
    for one in told:
        yield from wrapped(f"{one.knob}: {one.word}, {one.reason}")


def _guards(judgement: Judgement) -> Iterator[str]:
    shown = [one for one in judgement.verdicts if any(guard.found for guard in one.guards)]
    if shown:
        yield ""
        yield "By metric, + and - where the interval proves it:"
    for one in shown:
        told = ", ".join(marked(guard, not judgement.faults) for guard in one.guards if guard.found)
        yield from wrapped(f"{one.knob}: {told}", "  ")


def _confirmation(judgement: Judgement) -> Iterator[str]:
    race = judgement.confirmation
    if race.together is None:
        return
    yield ""
    yield f"Confirmation, {race.together.count} fresh rounds:"
    for name, one in {f"{race.winner} over stock": race.together, **race.others}.items():
        yield f"  {name:<20} {one.text()}"
    yield from wrapped(", ".join(marked(part, not judgement.faults) for part in race.parts if part.found), "  ")


def _cut(name: str) -> str:
    return f"{name:<{NAMES}}" if len(name) <= NAMES else f"{name[: NAMES - 3]}..."
