# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sections of a report with the figures of its arms: by kind of prompts, by memory, by prediction, and energy."""

from __future__ import annotations

from ..memory import instance_memory
from ..memory.compared_predictions import compare_predictions
from ..rounds import measured_rounds, schedule
from ..statistics.figures import figures_of_samples
from .first_screen import remove_remarks_equal_except_numbers
from .load_sections import load_sections
from .report_model import NUMBER, TEXT, Column, Section, Table
from .shown_run import mean_tokens_per_second

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ..memory.ceiling import Ceiling
    from ..memory.compared_predictions import ComparedPrediction
    from ..memory.instance_memory import StepKey
    from .report_model import AnyCell
    from .shown_run import ShownRun

#: The columns of the table of figures: the heading, the key of the figure, and the number of decimals.
COLUMNS = (
    ("output t/s", "output", 2),
    ("decode t/s", "decode", 2),
    ("prefill t/s", "prefill", 1),
    ("first ms", "ttft_p50", 1),
    ("ms/token", "tpot_p50", 1),
    ("gap p95", "gap_p95", 1),
    ("in limits", "within_slo", 2),
    ("tok/step", "tokens_per_step", 2),
    ("accepted", "acceptance", 2),
)
#: Figures that say nothing where no token is drafted.
OF_SPECULATION = ("tokens_per_step", "acceptance")
#: What the table of streams has beside the output of each arm.
STREAM_HEADINGS = ("decode t/s", "ceiling t/s")
LEGEND = (
    "output t/s: end to end, of all streams together; decode t/s: by the server's time for generating alone; first ms: "
    "to the first text, median; ms/token: after it, of a stream; gap p95: between two pieces of text"
)
#: The columns of the table of predictions after the name of the instance: the heading, and what the column shows.
PREDICTION_COLUMNS = (
    *(("streams", NUMBER), ("predicted", NUMBER), ("range", NUMBER), ("bandwidth", TEXT)),
    *(("measured", NUMBER), ("steps", NUMBER), ("ratio", NUMBER)),
)
PREDICTION_LEGEND = (
    "predicted, measured: tokens per second of a stream; bandwidth: what the prediction stands on, measured on the "
    "host or of its data sheet; steps: decoding steps of a stream per second, fewer than tokens where the instance "
    "speculates; ratio: measured steps over the prediction"
)


def speed_sections(run: ShownRun) -> Iterator[Section]:
    """Yield the sections of figures; a section without data is left out."""
    mark = "" if run.counts else ", discarded: they prove nothing"
    yield from _figures_section(run, mark)
    yield from _streams_section(run, mark)
    yield from load_sections(run, mark)
    yield from _ceiling_section(run, mark)
    compared = compare_predictions([run.data])
    if compared:
        yield build_prediction_section(compared)
    yield from _energy_section(run, mark)


def discarded_rounds_section(run: ShownRun) -> Iterator[Section]:
    """Yield the section of the discarded rounds with their reasons."""
    if run.discarded_rounds:
        rows = [[f"round {number}", reason] for number, reason in run.discarded_rounds.items()]
        yield Section("discarded", "Discarded rounds", Table([Column("round"), Column("reason")], rows))


def figure_rows(run: ShownRun) -> Iterator[tuple[str, int, str, dict[str, Any]]]:
    """Yield kind, streams, arm and figures of the arms that are shown side by side."""
    arms, rounds = run.arms_and_rounds_side_by_side()
    for streams in run.stream_counts():
        for kind in run.prompt_kinds_with_samples():
            for arm in arms:
                samples = run.select_samples(arm, rounds, streams, kind)
                if samples:
                    yield kind, streams, arm, figures_of_samples(samples)


def ceilings_of_shown_arm(run: ShownRun) -> dict[StepKey, Ceiling]:
    """Return the ceilings of the arm that the run recommends, by kind, number of streams and depth."""
    arms, rounds = run.arms_and_rounds_side_by_side()
    samples = [sample for streams in run.stream_counts() for sample in run.select_samples(arms[-1], rounds, streams)]
    deep = {measured.number for measured in run.shown_rounds() if measured.phase == schedule.DEPTH}
    samples += [sample for sample in run.data["samples"] if sample["round"] in deep]
    return instance_memory.memory_ceilings(run.data, samples)


def _figures_section(run: ShownRun, mark: str) -> Iterator[Section]:
    rows: list[list[AnyCell]] = []
    all_figures = list(figure_rows(run))
    has_arms = len(run.arms_and_rounds_side_by_side()[0]) > 1
    speculates = any((figures["tokens_per_step"] or 1) > 1 for *dummy, figures in all_figures)
    columns = [column for column in COLUMNS if speculates or column[1] not in OF_SPECULATION]
    for kind, streams, arm, figures in all_figures:
        cells = [_figure_text(figures.get(key), digits) for dummy, key, digits in columns]
        rows.append([kind, str(streams), *([arm] if has_arms else []), *cells])
    if rows:
        names = [Column("kind"), Column("streams", NUMBER), *([Column("arm")] if has_arms else [])]
        headings = [Column(heading, NUMBER) for heading, dummy, dummy2 in columns]
        yield Section("figures", f"Figures{mark}", Table([*names, *headings], rows, names=len(names)), LEGEND)


def _streams_section(run: ShownRun, mark: str) -> Iterator[Section]:
    """Yield the tokens per second of all streams together: a row for each number of streams, a column for each arm."""
    arms, rounds = run.arms_and_rounds_side_by_side()
    rows: list[list[AnyCell]] = []
    for streams in run.stream_counts():
        rates = [mean_tokens_per_second(rounds, arm, streams, measured_rounds.OUTPUT) for arm in arms]
        if any(rates):
            rows.append([str(streams), *("" if rate is None else f"{rate:.1f}" for rate in rates)])
    if len(rows) < 2:
        return
    headings = [*arms, *STREAM_HEADINGS] if len(arms) > 1 else ["output t/s", *STREAM_HEADINGS]
    for row in rows:
        samples = run.select_samples(arms[-1], rounds, int(str(row[0])))
        row += [
            _figure_text(value, 1) for value in (figures_of_samples(samples)["decode"], run.decode_ceiling(samples))
        ]
    legend = "end to end, of all streams together"
    legend += f"; decode t/s and its ceiling: of {arms[-1]}, by the server's time for generating alone"
    table = Table([Column("streams", NUMBER), *(Column(heading, NUMBER) for heading in headings)], rows)
    yield Section("streams", f"Several streams{mark}", table, legend)


def _figure_text(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _ceiling_section(run: ShownRun, mark: str) -> Iterator[Section]:
    ceilings = ceilings_of_shown_arm(run)
    contexts = {(step["kind"], step["streams"], step["depth"]): step["context"] for step in run.data["steps"]}
    rows: list[list[AnyCell]] = [
        [key[0], str(key[1]), str(contexts[key]), *_ceiling_cells(ceiling)]
        for key, ceiling in sorted(ceilings.items(), key=lambda pair: (pair[0][1], contexts[pair[0]], pair[0]))
        if ceiling.memory_time_share is not None
    ]
    problems = [ceiling.problem for ceiling in ceilings.values() if ceiling.problem]
    remarks = [remark for ceiling in ceilings.values() for remark in ceiling.remarks]
    if rows or problems or remarks:
        headings = ("streams", "context", "ms per step", "ms of memory", "share")
        table = Table([Column("kind"), *(Column(heading, NUMBER) for heading in headings)], rows) if rows else None
        legend = "share: the part of a step that reading its bytes takes at least; 1.00 is the ceiling" if rows else ""
        yield Section(
            "ceiling",
            f"Measured over ceiling{mark}",
            table,
            legend,
            remove_remarks_equal_except_numbers([*problems, *remarks]),
        )


def _ceiling_cells(ceiling: Ceiling) -> list[AnyCell]:
    return [f"{ceiling.step_ms:.2f}", f"{ceiling.memory_ms or 0.0:.2f}", f"{ceiling.memory_time_share or 0.0:.2f}"]


def build_prediction_section(compared: Sequence[ComparedPrediction]) -> Section:
    """Return the table of predicted and measured rates: a row for each instance and number of streams."""
    columns = [Column("instance"), *(Column(heading, kind) for heading, kind in PREDICTION_COLUMNS)]
    rows = [[f"{row.host} {row.instance}".strip(), *_prediction_cells(row)] for row in compared]
    return Section("predictions", "Predicted against measured", Table(columns, rows), PREDICTION_LEGEND)


def _prediction_cells(row: ComparedPrediction) -> list[AnyCell]:
    predicted = row.predicted
    return [
        str(predicted["streams"]),
        f"{predicted['tokens_per_second']:.1f}",
        f"{predicted['low']:.1f} to {predicted['high']:.1f}",
        f"{predicted['gbps']:.0f} GB/s, {predicted['source']}",
        f"{row.tokens:.1f}",
        f"{row.steps:.1f}",
        f"{row.ratio:.2f}",
    ]


def _energy_section(run: ShownRun, mark: str) -> Iterator[Section]:
    arms, rounds = run.arms_and_rounds_side_by_side()
    rows: list[list[AnyCell]] = []
    for arm in arms:
        watts, tokens_per_joule = run.power_and_tokens_per_joule(arm, rounds)
        if watts is not None:
            rows.append([arm, f"{watts:.0f}", f"{tokens_per_joule:.3g}" if tokens_per_joule else ""])
    # A single arm has its energy on the first screen already.
    if len(rows) > 1:
        columns = [Column("arm"), Column("watts", NUMBER), Column("tokens per joule", NUMBER)]
        yield Section("energy", f"Energy{mark}", Table(columns, rows))
