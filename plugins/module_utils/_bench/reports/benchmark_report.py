# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The figures of a benchmark, and the parts of its report: headline and next steps."""

from __future__ import annotations

import math

from ..memory import instance_memory
from ..rounds import measured_rounds, schedule
from ..statistics.figures import figures_of_samples
from .report_model import Step
from .shown_run import mean_tokens_per_second
from .wording import count_with_noun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..load.answer import Sample
    from ..memory.ceiling import Ceiling
    from .shown_run import ShownRun


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

    def _decode_rates_by_round(self, kind: str, streams: int) -> list[float]:
        """Return the decoded tokens per second of each round; an empty kind means all kinds."""
        levels = (
            measured.levels.get(schedule.RUNNING, {}).get((measured_rounds.DECODE, kind, streams))
            for measured in self.shown
        )
        return [1000 * math.exp(level) for level in levels if level is not None]


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


def benchmark_steps(run: ShownRun) -> Iterator[Step]:
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
