# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The figures of a benchmark, and the parts of its report: headline and next steps."""

from __future__ import annotations

from ..memory import instance_memory
from ..rounds import measured_rounds, schedule
from ..statistics.figures import figures_of_samples
from .report_model import Step
from .shown_run import mean_tokens_per_second
from .wording import count_with_noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ..load.answer import Sample
    from .shown_run import ShownRun


class BenchmarkResult:
    """The figures of a benchmark; where no round counts, ``counts`` is False and discarded rounds have figures too."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Read the document of a benchmark that ``validate_document`` has returned."""
        self.document = document
        self.rounds = measured_rounds.rounds_of_document(document)
        plain = [measured for measured in self.rounds if measured.phase != schedule.DEPTH]
        self.counts = not all(measured.discard_reason for measured in plain)
        self.shown = [measured for measured in self.rounds if not (self.counts and measured.discard_reason)]
        numbers = {measured.number for measured in self.shown}
        self.samples: list[Sample] = [sample for sample in document["samples"] if sample["round"] in numbers]
        self.ceilings = instance_memory.memory_ceilings(document, self.samples)

    def figure_rows(self) -> list[dict[str, Any]]:
        """Return a row of figures for each kind, number of streams, depth, turn and rate.

        Rates are tokens per second, times milliseconds; statistics/figures.py describes the figures. ``low`` and
        ``high`` are the lowest and the highest output of a round. ``memory`` is the share of the step time that reading
        memory takes. An unknown figure is None. The streams of requests at a rate are the most that were pending, and
        the depth of a second turn is the mean number of tokens from the prefix cache.
        """
        cells: dict[tuple[Any, ...], list[Sample]] = {}
        for sample in self.samples:
            turn, rate = sample["turn"], sample["rate"]
            depth = sample["depth"] if turn == 1 else 0
            streams = sample["streams"] if rate is None else 0
            cells.setdefault((rate or 0, turn, streams, depth, sample["kind"]), []).append(sample)
        table = []
        for (rate, turn, dummy, depth, kind), samples in sorted(cells.items()):
            streams = max(sample["streams"] for sample in samples)
            outputs = _output_rates_by_round(samples)
            ceiling = self.ceilings.get((kind, streams, depth)) if turn == 1 and not rate else None
            table.append(
                {
                    "kind": kind,
                    "streams": streams,
                    "depth": round(sum(sample["depth"] for sample in samples) / len(samples)),
                    "turn": turn,
                    "rate": rate or None,
                    **figures_of_samples(samples),
                    "low": min(outputs),
                    "high": max(outputs),
                    "memory": ceiling.memory_time_share if ceiling else None,
                }
            )
        return table


def _output_rates_by_round(samples: Sequence[Sample]) -> list[float]:
    """Return the end-to-end tokens per second of each round of at least one sample."""
    totals: dict[int, tuple[int, float]] = {}
    for sample in samples:
        tokens, milliseconds = totals.get(sample["round"], (0, 0.0))
        totals[sample["round"]] = (tokens + sample["output_n"], milliseconds + sample["output_ms"])
    return [1000 * tokens / milliseconds for tokens, milliseconds in totals.values()]


def benchmark_headline(run: ShownRun) -> str:
    """Return the result of a benchmark in one line: decoding of one stream, and the output of any number of streams."""
    arms, rounds = run.arms_and_rounds_side_by_side()
    rate = mean_tokens_per_second(rounds, arms[-1])
    if rate is None:
        return "nothing was measured."
    outputs = [
        (streams, mean_tokens_per_second(rounds, arms[-1], streams, measured_rounds.OUTPUT))
        for streams in run.stream_counts()
    ]
    shown = [f"{output:.1f} with {count_with_noun(streams, 'stream')}" for streams, output in outputs if output]
    return f"decodes {rate:.1f} tokens per second; end to end {', '.join(shown)}."


def list_next_steps_of_benchmark(run: ShownRun) -> Iterator[Step]:
    """Yield what to do after a benchmark."""
    if run.data["restored"] is False:
        yield Step("The settings at the end were not those of the start: run it again when nobody changes them.")
    elif not run.counts:
        yield Step("Stop what the discarded rounds name, and measure again.")
    else:
        yield Step(
            "Find the options that are faster, and the settings that pay.",
            "ansible-playbook playbooks/tune.yml; ansible-playbook playbooks/ablation.yml",
        )
