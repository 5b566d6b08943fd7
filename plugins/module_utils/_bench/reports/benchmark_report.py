# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a benchmark for a terminal of 100 columns; a document gives the same bytes on any machine."""

from __future__ import annotations

import math
from statistics import median

from ..memory import instance_memory
from ..rounds import measured_rounds, schedule
from ..statistics.figures import figures_of_samples
from .report_parts import discarded_round_lines, host_and_sample_count_lines, join_report_lines, wrap_to_report_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..load.answer import Sample
    from ..memory.ceiling import Ceiling

#: The columns of numbers in the table: the heading, the width in characters, the keys of the figure in a row (the first
#: key that the row has is shown), and the number of decimals.
COLUMNS = (
    ("streams", 7, ("streams",), 0),
    ("decode t/s", 10, ("decode",), 2),
    ("lowest", 7, ("low",), 2),
    ("highest", 7, ("high",), 2),
    ("prefill", 8, ("prefill",), 1),
    ("first ms", 8, ("ttft_p50",), 1),
    ("ms/token", 8, ("tpot_p50",), 1),
    ("gap p95", 8, ("gap_p95",), 1),
    ("tok/step", 8, ("tokens_per_step",), 2),
    ("memory", 6, ("memory",), 2),
)


class BenchmarkResult:
    """The figures of a benchmark; where no round counts, ``counts`` is False and discarded rounds have figures too."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Read the document of a benchmark that ``validate_document`` has returned."""
        self.document = document
        self.rounds = measured_rounds.rounds_of_document(document)
        self.counts = not all(measured.discard_reason for measured in self.rounds)
        self.shown = [measured for measured in self.rounds if not (self.counts and measured.discard_reason)]
        numbers = {measured.number for measured in self.shown}
        self.samples: list[Sample] = [sample for sample in document["samples"] if sample["round"] in numbers]
        self.ceilings: dict[str, Ceiling] = instance_memory.memory_ceilings_by_prompt_kind(document, self.samples)

    def figure_rows(self) -> list[dict[str, Any]]:
        """Return a row of figures for each kind and number of streams; rates are tokens per second, times milliseconds.

        ``low`` and ``high`` are the lowest and the highest decoding rate of a round. ``memory`` is the share of the
        step time that reading memory takes. An unknown figure is None.
        """
        cells: dict[tuple[int, str], list[Sample]] = {}
        for sample in self.samples:
            cells.setdefault((sample["streams"], sample["kind"]), []).append(sample)
        table = []
        for (streams, kind), samples in sorted(cells.items()):
            figures = figures_of_samples(samples)
            rates = self._decode_rates_by_round(kind, streams)
            low, high = min(rates, default=0.0), max(rates, default=0.0)
            ceiling = self.ceilings.get(kind) if streams == 1 else None
            share = ceiling.memory_time_share if ceiling else None
            table.append({"kind": kind, "streams": streams, **figures, "low": low, "high": high, "memory": share})
        return table

    def decode_rate_over_all_kinds(self, streams: int) -> tuple[float, float, float] | None:
        """Return the median, the lowest and the highest decoding rate of a round, over all kinds.

        The rate of a round is the geometric mean over the kinds. None where no round has samples with these streams.
        """
        rates = self._decode_rates_by_round("", streams)
        return (median(rates), min(rates), max(rates)) if rates else None

    def _decode_rates_by_round(self, kind: str, streams: int) -> list[float]:
        """Return the decoded tokens per second of each round; an empty kind means all kinds."""
        levels = (
            measured.levels.get(schedule.RUNNING, {}).get((measured_rounds.DECODE, kind, streams))
            for measured in self.shown
        )
        return [1000 * math.exp(level) for level in levels if level is not None]

    def headline(self) -> str:
        """Return the result in one line."""
        name = self.document["instance"]
        rates = self.decode_rate_over_all_kinds(1)
        if rates is None:
            return f"{name}: nothing was measured."
        text = f"{name}: {rates[0]:.1f} tokens per second with one stream ({rates[1]:.1f} to {rates[2]:.1f})"
        for streams in sorted({sample["streams"] for sample in self.samples} - {1}):
            rates = self.decode_rate_over_all_kinds(streams)
            text += f", {rates[0]:.1f} with {streams}" if rates else ""
        if not self.counts:
            return f"No round counts, and this proves nothing. {text}."
        return f"{text}."


def render_benchmark_report(document: Mapping[str, Any]) -> str:
    """Return the report of a validated document of a benchmark."""
    return join_report_lines(_benchmark_report_lines(BenchmarkResult(document)))


def _benchmark_report_lines(result: BenchmarkResult) -> Iterator[str]:
    document = result.document
    yield from wrap_to_report_width(result.headline())
    yield ""
    yield from wrap_to_report_width(f"Run {document['id']} of {document['started']}")
    yield from host_and_sample_count_lines(document, result.rounds)
    yield ""
    yield " ".join([f"{'kind':<10}", *(f"{heading:>{width}}" for heading, width, *dummy in COLUMNS)])
    for row in result.figure_rows():
        yield _format_figure_row(row)
    yield from wrap_to_report_width(
        "lowest, highest: of a round; first ms: to the first text, median; ms/token: after it, of a stream; gap p95: "
        "between two pieces of text; memory: the part of a step that reading its bytes takes at least"
    )
    problems = {ceiling.problem for ceiling in result.ceilings.values() if ceiling.problem}
    # All kinds have the same remarks, so each remark is shown once.
    on_memory = dict.fromkeys(remark for ceiling in result.ceilings.values() for remark in ceiling.remarks)
    remarks = [*document["remarks"], *sorted(problems), *on_memory]
    if document["restored"] is False:
        remarks.append("The settings at the end were not those of the start: run it again when nobody changes them.")
    if remarks:
        yield ""
    for sentence in remarks:
        yield from wrap_to_report_width(sentence)
    yield from discarded_round_lines(result.rounds)


def _format_figure_row(row: Mapping[str, Any]) -> str:
    cells = [f"{row['kind']:<10}"]
    for dummy, width, names, digits in COLUMNS:
        value = next((row[name] for name in names if row.get(name) is not None), None)
        cells.append(f"{'-' if value is None else f'{value:.{digits}f}':>{width}}")
    return " ".join(cells)
