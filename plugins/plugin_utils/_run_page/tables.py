# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables of the page: verdicts, guards, confirmation, candidates, figures, discarded rounds, fingerprint.

Each table function yields a section of the page, or nothing where the document has no data for the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.tuning_report import format_arm_options
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.comparison import format_metric_name
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import drawing as draw
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import compute_sample_figures
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.style import SIGNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.comparison import Comparison
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import ShownRun

#: Figure -> its heading and its number of decimals.
FIGURES = {
    "output": ("output, tokens/s", 2),
    "decode": ("decode, tokens/s", 2),
    "prefill": ("prefill, tokens/s", 1),
    "ms_per_step": ("ms per step", 2),
    "tokens_per_step": ("tokens per step", 2),
    "acceptance": ("accepted of drafted", 3),
    "ttft_p50": ("first text, ms, p50", 1),
    "ttft_p95": ("p95", 1),
    "tpot_p50": ("per token, ms, p50", 2),
    "tpot_p95": ("p95", 2),
    "gap_p50": ("gap, ms, p50", 2),
    "gap_p95": ("p95", 2),
    "gap_p99": ("p99", 2),
}
#: Field of the fingerprint -> its label.
KNOWN = {
    "sku": "Processor",
    "microcode": "Microcode",
    "bios": "BIOS",
    "kernel": "Kernel",
    "cmdline": "Boot parameters",
    "topology": "Topology",
    "uptime_s": "Uptime, s",
    "engine_build": "llama.cpp",
    "engine_sha256": "SHA-256 of its program",
    "model_sha256": "SHA-256 of the model",
    "arguments": "Arguments",
    "prompts_sha256": "SHA-256 of the prompts",
}


def verdict_table(run: ShownRun) -> Iterator[Html]:
    """Yield the verdict on each setting with its reason, in the order of the plan."""
    if run.judgement is None or not run.judgement.verdicts:
        return
    rows = (
        [
            verdict.knob,
            _verdict_cell(verdict.word),
            _ratio_cell(verdict.primary),
            _round_count_cell(verdict.primary),
            verdict.reason,
        ]
        for verdict in run.judgement.verdicts
    )
    yield _table_section(
        "Verdicts", _render_table(["Setting", "Verdict", "With over without", "Rounds", "Reason"], rows, (3,))
    )


def guard_metric_table(run: ShownRun) -> Iterator[Html]:
    """Yield the effect of each setting on each metric that the setting must not worsen."""
    rows = [
        _comparison_row(run, verdict.knob, guard, True)
        for verdict in (run.judgement.verdicts if run.judgement else ())
        for guard in verdict.guards
        if guard.interval
    ]
    if rows:
        yield _table_section(
            "By metric", _render_table(["Setting", "Metric", "What it does", "Ratio", "Rounds"], rows, (4,))
        )


def ablation_confirmation_table(run: ShownRun) -> Iterator[Html]:
    """Yield the confirmation of an ablation; nothing before its first round."""
    race = run.judgement.confirmation if run.judgement else None
    if race is None or race.kept_over_stock is None:
        return
    rows = [_comparison_row(run, name, comparison) for name, comparison in race.comparisons_by_name().items()]
    kept = f"{race.winner} over stock"
    rows += [_comparison_row(run, kept, comparison, True) for comparison in race.by_metric if comparison.interval]
    table = _render_table(["What", "Metric", "What it does", "Ratio", "Rounds"], rows, (4,))
    yield _table_section("Confirmation on fresh rounds", table)


def tuning_candidate_table(run: ShownRun) -> Iterator[Html]:
    """Yield the candidates of a tuning, the best first, with predicted and measured ratio."""
    if not run.tuning:
        return
    rows = (
        [
            result.arm["name"],
            format_arm_options(result.arm),
            *map(_format_ratio_or_empty, (result.predicted, result.measured)),
            str(result.count),
            result.rejected,
        ]
        for result in run.tuning.candidate_results()
    )
    titles = ["Arm", "Options", "Predicted over the default", "Measured", "Rounds", "Rejected"]
    yield _table_section("Candidates", _render_table(titles, rows, (2, 3, 4)))


def tuning_confirmation_table(run: ShownRun) -> Iterator[Html]:
    """Yield the confirmation of a tuning: the best candidate over the default, and the default over its twin."""
    tuning = run.tuning
    if not tuning or not tuning.best or not tuning.gain:
        return
    over = "over the default"
    rows = [_comparison_row(run, over, tuning.gain)]
    rows += [_comparison_row(run, over, guard, True) for guard in tuning.guards if guard.interval]
    twins = tuning.twins.values()
    rows += [["the default over itself", "", "", _ratio_cell(twin), _round_count_cell(twin)] for twin in twins]
    titles = [format_arm_options(tuning.best), "Metric", "What it does", "Ratio", "Rounds"]
    yield _table_section("Confirmation on fresh rounds", _render_table(titles, rows, (4,)))


def _format_ratio_or_empty(ratio: float | None) -> str:
    return "" if ratio is None else draw.format_decimals(ratio, 3)


def arm_figure_table(run: ShownRun) -> Iterator[Html]:
    """Yield the figures of the arms that are shown side by side, by kind of prompts and number of streams."""
    arms, rounds = run.arms_and_rounds_side_by_side()
    found: list[tuple[list[str], dict[str, float | None]]] = []
    for streams in run.stream_counts():
        for kind in run.prompt_kinds_with_samples():
            for arm in arms:
                values = compute_sample_figures(run.select_samples(arm, rounds, streams, kind))
                if values:
                    found.append(([kind, str(streams), arm], values))
    used = [name for name in FIGURES if any(values.get(name) is not None for dummy, values in found)]
    if not found:
        return
    rows = [[*names, *(_figure_cell(values.get(name), FIGURES[name][1]) for name in used)] for names, values in found]
    titles = ["Kind", "Streams", "Arm", *(FIGURES[name][0] for name in used)]
    yield _table_section("Figures", _render_table(titles, rows, range(3, len(titles))))


def discarded_rounds_table(run: ShownRun) -> Iterator[Html]:
    """Yield the discarded rounds with their reasons."""
    if run.discarded_rounds:
        rows = ([str(number), reason] for number, reason in run.discarded_rounds.items())
        yield _table_section("Discarded rounds", _render_table(["Round", "Reason"], rows))


def fingerprint_table(run: ShownRun) -> Iterator[Html]:
    """Yield the known facts about the host, the engine and the model of the run."""
    known = run.data["fingerprint"]
    rows = {}
    for name, title in KNOWN.items():
        value = known.get(name)
        if value not in (None, []):
            rows[title] = " ".join(map(str, value)) if isinstance(value, list) else value
    settings = sorted((str(address), value) for address, value in known["settings"].items())
    if not rows and not settings:
        return
    pairs = [part for title, value in rows.items() for part in (element("dt", title), element("dd", value))]
    cells = [[element("code", address), _setting_value_cell(value)] for address, value in settings]
    summary = element("summary", f"{len(settings)} settings")
    yield element(
        "section",
        element("h2", "What it was measured on"),
        element("dl", *pairs),
        *([element("details", summary, _render_table(["Setting", "Value"], cells))] if settings else []),
    )


def _setting_value_cell(value: object) -> object:
    return "not there" if value is None else element("code", value)


def _verdict_cell(word: str) -> Html:
    kind, sign = SIGNS[word]
    return element("span", f"{sign} {word}", class_=kind)


def _verdict_cell_unless_faults(run: ShownRun, comparison: Comparison) -> Html | str:
    """Return the verdict of a comparison; "" for a run with faults, which proves nothing."""
    return "" if run.faults else _verdict_cell(comparison.word)


def _comparison_row(run: ShownRun, name: str, comparison: Comparison, with_metric: bool = False) -> list[Html | str]:
    metric = format_metric_name(comparison) if with_metric else ""
    return [
        name,
        metric,
        _verdict_cell_unless_faults(run, comparison),
        _ratio_cell(comparison),
        _round_count_cell(comparison),
    ]


def _ratio_cell(comparison: Comparison | None) -> str:
    return comparison.format_ratio() if comparison else ""


def _round_count_cell(comparison: Comparison | None) -> str:
    return str(comparison.count) if comparison else ""


def _figure_cell(value: float | None, digits: int) -> str:
    return "" if value is None else draw.format_decimals(value, digits)


def _table_section(title: str, table: Html) -> Html:
    return element("section", element("h2", title), table)


def _render_table(titles: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[int] = ()) -> Html:
    """Return a table; ``numbers`` has the positions of the columns that are numbers."""
    right = set(numbers)
    styles = ["number" if at in right else None for at in range(len(titles))]
    head = element("tr", *(element("th", title, class_=style) for style, title in zip(styles, titles)))
    body = []
    for row in rows:
        cells = [element("td", cell, class_=style) for style, cell in zip(styles[1:], row[1:])]
        body.append(element("tr", element("th", row[0]), *cells))
    table = element("table", element("thead", head), element("tbody", *body))
    return element("div", table, class_="wide")
