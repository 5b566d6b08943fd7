# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a benchmark for a terminal of 100 columns, from its document alone, the same bytes on any machine."""

from __future__ import annotations

import math
from statistics import median

from ..memory import instance_memory
from ..rounds import measured_rounds, schedule
from ..statistics.figures import figures_of_one_stream, figures_of_streams
from .report_parts import discarded_round_lines, host_lines, wrap_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..load.answer import Sample
    from ..memory.ceiling import Ceiling

#: Headings of the table, and the widths of their columns in characters.
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


class BenchmarkResult:
    """The result of a benchmark. ``counts`` is False where no round counts; then all rounds are shown."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Read a document of one arm that ``validate_document`` has returned."""
        self.document = document
        self.rounds = measured_rounds.rounds_of_document(document)
        self.counts = not all(measured.discard_reason for measured in self.rounds)
        self.shown = [measured for measured in self.rounds if not (self.counts and measured.discard_reason)]
        numbers = {measured.number for measured in self.shown}
        self.samples: list[Sample] = [sample for sample in document["samples"] if sample["round"] in numbers]
        self.ceilings: dict[str, Ceiling] = instance_memory.ceilings_by_kind(document, self.samples)

    def figure_rows(self) -> list[dict[str, Any]]:
        """Return the figures by kind and number of streams; rates are tokens per second, times milliseconds.

        ``low`` and ``high`` are the lowest and the highest decoding rate of a round, ``memory`` is the share of
        the step time that reading memory takes. None stands for an unknown figure.
        """
        cells: dict[tuple[int, str], list[Sample]] = {}
        for sample in self.samples:
            cells.setdefault((sample["streams"], sample["kind"]), []).append(sample)
        table = []
        for (streams, kind), those in sorted(cells.items()):
            found = figures_of_one_stream(those) if streams == 1 else figures_of_streams(those)
            rates = self._rates_by_round(kind, streams)
            low, high = min(rates, default=0.0), max(rates, default=0.0)
            held = self.ceilings.get(kind) if streams == 1 else None
            share = held.ratio if held else None
            table.append({"kind": kind, "streams": streams, **found, "low": low, "high": high, "memory": share})
        return table

    def rate_over_all_kinds(self, streams: int) -> tuple[float, float, float] | None:
        """Return the decoding rate over all kinds: of the median round, the lowest and the highest.

        The rate of a round is a geometric mean over kinds. None where no round has samples of so many streams.
        """
        rates = self._rates_by_round("", streams)
        return (median(rates), min(rates), max(rates)) if rates else None

    def _rates_by_round(self, kind: str, streams: int) -> list[float]:
        """Return tokens per second in each shown round; a level is the logarithm of tokens per millisecond."""
        levels = (
            measured.levels.get(schedule.RUNNING, {}).get((measured_rounds.DECODE, kind, streams))
            for measured in self.shown
        )
        return [1000 * math.exp(level) for level in levels if level is not None]

    def headline(self) -> str:
        """Return the result in one line."""
        name = self.document["instance"]
        found = self.rate_over_all_kinds(1)
        if found is None:
            return f"{name}: nothing was measured."
        text = f"{name}: {found[0]:.1f} tokens per second with one stream ({found[1]:.1f} to {found[2]:.1f})"
        for streams in sorted({sample["streams"] for sample in self.samples} - {1}):
            more = self.rate_over_all_kinds(streams)
            text += f", {more[0]:.1f} with {streams}" if more else ""
        if not self.counts:
            return f"No round counts, and this proves nothing. {text}."
        return f"{text}."


def render_benchmark_report(document: Mapping[str, Any]) -> str:
    """Return the report of a validated document, with a newline at its end."""
    return "\n".join(line.rstrip() for line in _report_lines(BenchmarkResult(document))) + "\n"


def _report_lines(found: BenchmarkResult) -> Iterator[str]:
    document = found.document
    yield from wrap_text(found.headline())
    yield ""
    yield from wrap_text(f"Run {document['id']} of {document['started']}")
    yield from host_lines(document, found.rounds)
    yield ""
    yield " ".join(f"{name:<{width}}" if at == 0 else f"{name:>{width}}" for at, (name, width) in enumerate(COLUMNS))
    for row in found.figure_rows():
        yield _format_row(row)
    yield from wrap_text(
        "lowest, highest: of a round; first ms: to the first text, median; ms/token: after it, of a stream; gap p95: "
        "between two pieces of text; memory: the part of a step that reading its bytes takes at least"
    )
    told = {ceiling.problem for ceiling in found.ceilings.values() if ceiling.problem}
    remarks = [*document["remarks"], *sorted(told), *_common_remarks(found.ceilings)]
    if document["restored"] is False:
        remarks.append("The settings at the end were not those of the start: run it again when nobody changes them.")
    if remarks:
        yield ""
    for sentence in remarks:
        yield from wrap_text(sentence)
    yield from discarded_round_lines(found.rounds, "Discarded rounds:")


def _format_row(row: Mapping[str, Any]) -> str:
    cells = (
        f"{row['kind']:<10}",
        f"{row['streams']:>7}",
        _format_cell(row["decode"], 10, 2),
        _format_cell(row["low"], 7, 2),
        _format_cell(row["high"], 7, 2),
        _format_cell(row.get("prefill"), 8, 1),
        _format_cell(row["ttft_p50"], 8, 1),
        _format_cell(row.get("tpot_p50", row.get("tpot")), 8, 1),
        _format_cell(row["gap_p95"], 8, 1),
        _format_cell(row.get("tokens_per_step"), 8, 2),
        _format_cell(row["memory"], 6, 2),
    )
    return " ".join(cells)


def _format_cell(value: float | None, width: int, digits: int) -> str:
    return f"{'-' if value is None else f'{value:.{digits}f}':>{width}}"


def _common_remarks(ceilings: Mapping[str, Ceiling]) -> list[str]:
    """Return the remarks on the memory share, each once, because all kinds have the same."""
    return list(dict.fromkeys(remark for ceiling in ceilings.values() for remark in ceiling.remarks))
