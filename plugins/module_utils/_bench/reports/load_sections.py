# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sections of a report on other loads than plain requests: long contexts, second turns, and arrivals at a rate."""

from __future__ import annotations

from ..statistics.figures import figures_of_samples
from .report_model import NUMBER, Column, Section, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..load.answer import Sample
    from .report_model import AnyCell
    from .shown_run import ShownRun


def load_sections(run: ShownRun, mark: str) -> Iterator[Section]:
    """Yield the sections of the arm that the run recommends; a section without data is left out."""
    yield from _depth_section(run, mark)
    yield from _second_turn_section(run, mark)
    yield from _arrivals_section(run, mark)


def samples_by_depth(run: ShownRun) -> dict[int, list[Sample]]:
    """Return the samples of one stream by the tokens of context before their prompt; empty without a long context."""
    found = _group_samples(run, lambda s: s["depth"], lambda s: s["streams"] == s["turn"] == 1 and s["rate"] is None)
    return found if len(found) > 1 else {}


def _depth_section(run: ShownRun, mark: str) -> Iterator[Section]:
    rows: list[list[AnyCell]] = []
    for depth, samples in samples_by_depth(run).items():
        figures = figures_of_samples(samples)
        ceiling = run.decode_ceiling(samples)
        values = (figures["decode"], ceiling, figures["prefill"], figures["ttft_p50"])
        rows.append([str(depth), *(_format_figure(value) for value in values)])
    if rows:
        headings = ("decode t/s", "ceiling t/s", "prefill t/s", "first ms")
        columns = [Column("context", NUMBER), *(Column(heading, NUMBER) for heading in headings)]
        legend = (
            "context: tokens before the prompt, from the prefix cache; ceiling t/s: decoding if it only read memory; "
            "first ms: to the first text, median"
        )
        yield Section("depth", f"Speed by depth of the context{mark}", Table(columns, rows), legend)


def _second_turn_section(run: ShownRun, mark: str) -> Iterator[Section]:
    found = _group_samples(run, lambda s: (s["kind"], s["turn"]), lambda s: s["streams"] == 1 and s["rate"] is None)
    kinds = [kind for kind, turn in found if turn > 1]
    rows: list[list[AnyCell]] = []
    for kind in kinds:
        first = [s for s in found.get((kind, 1), []) if s["depth"] == 0]
        second = found[kind, 2]
        times = [figures_of_samples(samples)["ttft_p50"] if samples else None for samples in (first, second)]
        cached = sum(sample["depth"] for sample in second) / len(second)
        rows.append([kind, f"{cached:.0f}", *(_format_figure(value) for value in times)])
    if rows:
        headings = ("cached tokens", "first turn, first ms", "second turn, first ms")
        columns = [Column("kind"), *(Column(heading, NUMBER) for heading in headings)]
        legend = "the second turn of a chat finds the first in the prefix cache; first ms: to the first text, median"
        yield Section("turns", f"The second turn of a chat{mark}", Table(columns, rows), legend)


def _arrivals_section(run: ShownRun, mark: str) -> Iterator[Section]:
    rows: list[list[AnyCell]] = []
    for rate, samples in _group_samples(run, lambda s: s["rate"], lambda s: s["rate"] is not None).items():
        figures = figures_of_samples(samples)
        share = figures["within_slo"]
        pending = max(sample["streams"] for sample in samples)
        values = (figures["output"], figures["ttft_p50"], figures["ttft_p95"], figures["tpot_p50"])
        goodput = "" if share is None else f"{100 * share:.0f} %"
        rows.append([f"{rate:g}/s", str(pending), *(_format_figure(value) for value in values), goodput])
    if rows:
        headings = ("pending", "output t/s", "first ms", "first p95", "ms/token", "within limits")
        columns = [Column("arrivals"), *(Column(heading, NUMBER) for heading in headings)]
        slo = run.data["plan"]["slo"]
        legend = "requests arrive at random at this mean rate; pending: the most requests at one time"
        if slo:
            legend += (
                f"; limits: {slo['first_ms']:g} ms to the first text, {slo['per_token_ms']:g} ms per token after it"
            )
        yield Section("arrivals", f"Requests that arrive at a rate{mark}", Table(columns, rows), legend)


def _group_samples(
    run: ShownRun, key: Callable[[Sample], Any], is_wanted: Callable[[Sample], bool]
) -> dict[Any, list[Sample]]:
    """Return the wanted samples of the recommended arm in the shown rounds, by a key and sorted by it."""
    arms, dummy = run.arms_and_rounds_side_by_side()
    numbers = {measured.number for measured in run.shown_rounds()}
    found: dict[Any, list[Sample]] = {}
    for sample in run.data["samples"]:
        if sample["arm"] == arms[-1] and sample["round"] in numbers and is_wanted(sample):
            found.setdefault(key(sample), []).append(sample)
    return dict(sorted(found.items()))


def _format_figure(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
