# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a benchmark for a terminal of 100 columns, from its document alone, the same bytes on any machine."""

from __future__ import annotations

import math
from statistics import median

from ..memory import instance_memory
from ..rounds import measured_rounds, schedule
from ..statistics.figures import figures, of_streams
from .report_parts import made_on, void_rounds, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..load.answer import Sample
    from ..memory.ceiling import Ceiling

#: Headings of the table, and how many characters their columns have.
COLUMNS = (
    ("kind", 10),
    ("streams", 7),
    ("decode t/s", 10),
    ("lowest", 7),
    ("highest", 7),
    ("prefill", 8),
    ("first ms", 8),
    ("ms/token", 8),
    ("gap p95", 8),
    ("tok/step", 8),
    ("memory", 6),
)


class Benchmark:
    """What a benchmark found out. ``counts`` is False where no round does, and then all of them are shown."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Read a document of one arm that document.check has passed."""
        self.document = document
        self.rounds = measured_rounds.of(document)
        self.counts = not all(one.void for one in self.rounds)
        self.shown = [one for one in self.rounds if not (self.counts and one.void)]
        numbers = {one.number for one in self.shown}
        self.samples: list[Sample] = [one for one in document["samples"] if one["round"] in numbers]
        self.ceilings: dict[str, Ceiling] = instance_memory.ceilings(document, self.samples)

    def rows(self) -> list[dict[str, Any]]:
        """Return the figures by kind and number of streams; rates are tokens per second, times milliseconds.

        ``low`` and ``high`` are the lowest and the highest decoding rate of a round, ``memory`` is measured over
        ceiling. None stands for what there is not.
        """
        cells: dict[tuple[int, str], list[Sample]] = {}
        for one in self.samples:
            cells.setdefault((one["streams"], one["kind"]), []).append(one)
        table = []
        for (streams, kind), those in sorted(cells.items()):
            found = figures(those) if streams == 1 else of_streams(those)
            rates = self._rates(kind, streams)
            low, high = min(rates, default=0.0), max(rates, default=0.0)
            held = self.ceilings.get(kind) if streams == 1 else None
            share = held.ratio if held else None
            table.append({"kind": kind, "streams": streams, **found, "low": low, "high": high, "memory": share})
        return table

    def all_kinds(self, streams: int) -> tuple[float, float, float] | None:
        """Return the decoding rate over all kinds, a geometric mean: that of the middle round, the lowest, the highest.

        None where no round has it.
        """
        rates = self._rates("", streams)
        return (median(rates), min(rates), max(rates)) if rates else None

    def _rates(self, kind: str, streams: int) -> list[float]:
        """Return tokens per second in each round shown; a level is the logarithm of tokens per millisecond."""
        levels = (
            one.levels.get(schedule.RUNNING, {}).get((measured_rounds.DECODE, kind, streams)) for one in self.shown
        )
        return [1000 * math.exp(level) for level in levels if level is not None]

    def headline(self) -> str:
        """Return the first line in words."""
        name = self.document["instance"]
        found = self.all_kinds(1)
        if found is None:
            return f"{name}: nothing was measured."
        text = f"{name}: {found[0]:.1f} tokens per second with one stream ({found[1]:.1f} to {found[2]:.1f})"
        for streams in sorted({one["streams"] for one in self.samples} - {1}):
            more = self.all_kinds(streams)
            text += f", {more[0]:.1f} with {streams}" if more else ""
        if not self.counts:
            return f"No round counts, and this proves nothing. {text}."
        return f"{text}."


def report(document: Mapping[str, Any]) -> str:
    """Return the report of a checked document, with a newline at its end."""
    return "\n".join(line.rstrip() for line in _lines(Benchmark(document))) + "\n"


def _lines(found: Benchmark) -> Iterator[str]:
    document = found.document
    yield from wrapped(found.headline())
    yield ""
    yield from wrapped(f"Run {document['id']} of {document['started']}")
    yield from made_on(document, found.rounds)
    yield ""
    yield " ".join(f"{name:<{width}}" if at == 0 else f"{name:>{width}}" for at, (name, width) in enumerate(COLUMNS))
    for row in found.rows():
        yield _row(row)
    yield from wrapped(
        "lowest, highest: of a round; first ms: to the first text, median; ms/token: after it, of a stream; gap p95: "
        "between two pieces of text; memory: the part of a step that reading its bytes takes at least"
    )
    told = {one.problem for one in found.ceilings.values() if one.problem}
    remarks = [*document["remarks"], *sorted(told), *_common(found.ceilings)]
    if document["restored"] is False:
        remarks.append("The settings at the end were not those of the start: run it again when nobody changes them.")
    if remarks:
        yield ""
    for sentence in remarks:
        yield from wrapped(sentence)
    yield from void_rounds(found.rounds, "Void rounds:")


def _row(row: Mapping[str, Any]) -> str:
    cells = (
        f"{row['kind']:<10}",
        f"{row['streams']:>7}",
        _cell(row["decode"], 10, 2),
        _cell(row["low"], 7, 2),
        _cell(row["high"], 7, 2),
        _cell(row.get("prefill"), 8, 1),
        _cell(row["ttft_p50"], 8, 1),
        _cell(row.get("tpot_p50", row.get("tpot")), 8, 1),
        _cell(row["gap_p95"], 8, 1),
        _cell(row.get("tokens_per_step"), 8, 2),
        _cell(row["memory"], 6, 2),
    )
    return " ".join(cells)


def _cell(value: float | None, width: int, digits: int) -> str:
    return f"{'-' if value is None else f'{value:.{digits}f}':>{width}}"


def _common(ceilings: Mapping[str, Ceiling]) -> list[str]:
    """Return the remarks on how to read the share of memory, each once: they say the same of each kind."""
    return list(dict.fromkeys(remark for one in ceilings.values() for remark in one.remarks))
