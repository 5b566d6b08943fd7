# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Charts of the course of a run: every sample in order, and the rounds of each arm. Both are folded up at first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import count_with_noun
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import drawing as draw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.shown_run import ShownRun

    #: The position of a sample in the document, its tokens per second, and the sample.
    Spot = tuple[int, float, dict[str, Any]]

#: Height of a panel and of the title above it, in pixels.
PANEL, TITLE = 84, 22
#: The largest width of the cell of a round, as a share of the width of the chart.
CELL = 0.02


def sample_chart(run: ShownRun) -> Iterator[Html]:
    """Yield the chart of all samples, with a panel for each kind and number of streams, on one horizontal axis."""
    cells: dict[tuple[int, str], list[Spot]] = {}
    for at, sample in enumerate(run.data["samples"]):
        speed = 1000 * sample["output_n"] / sample["output_ms"]
        cells.setdefault((sample["streams"], sample["kind"]), []).append((at, speed, sample))
    if not cells:
        return
    across = draw.Axis(0, max(len(run.data["samples"]) - 1, 1), 0.01, 0.99)
    parts: list[Html] = []
    for at, key in enumerate(sorted(cells)):
        parts += _draw_panel(run, key, cells[key], across, at * (PANEL + TITLE))
    bottom = float(len(cells) * (PANEL + TITLE))
    first = next((at for at, sample in enumerate(run.data["samples"]) if _is_confirmation_sample(run, sample)), None)
    if first is not None:
        x = across.value_to_place(first - 0.5)
        parts.append(draw.svg_line(x, 0, x, bottom, "one"))
        parts.append(draw.svg_text(x, bottom + 14, "confirmation from here", "end small" if x > 0.5 else "small"))
    yield _folded_chart(
        "Every sample in order",
        "Tokens per second end to end of each sample, the first one left. A hollow mark is discarded, and its title "
        "says why. The scale of a panel goes from its lowest to its highest sample.",
        draw.svg_legend(dict.fromkeys(run.arms, "")),
        draw.svg_chart(bottom + 18, "Every sample of the run in order", parts, "scaled"),
    )


def arm_rounds_chart(run: ShownRun) -> Iterator[Html]:
    """Yield the chart of the rounds of each arm; nothing for a run with one arm, or before the first round."""
    if len(run.arms) < 2 or not run.rounds:
        return
    last = run.rounds[-1].number
    step = min(CELL, 1 / last)
    parts = []
    for at, arm in enumerate(run.arms):
        y = 2 * at * draw.ROW
        rounds = [measured for measured in run.rounds if arm in measured.planned_arms]
        cells = [_draw_round_cell(measured.number, measured.discard_reason, step, y + 18) for measured in rounds]
        count = count_with_noun(sum(not measured.discard_reason for measured in rounds), "round")
        parts.append(draw.svg_text(0.0, y + 14, f"{draw.escape_and_shorten_text(arm, 28)}: {count}"))
        parts.append(element("g", *cells, class_=draw.css_class_and_shape_of_arm(arm)[0]))
    yield _folded_chart(
        "The rounds of each arm",
        "A filled cell is a round that counts, a hollow cell a discarded round. The number counts filled cells.",
        draw.svg_chart(2 * len(run.arms) * draw.ROW, "The rounds of each arm", parts),
    )


def _folded_chart(title: str, legend: str, *parts: Html) -> Html:
    return element("details", element("summary", title), element("p", legend, class_="faint"), *parts)


def _is_confirmation_sample(run: ShownRun, sample: dict[str, Any]) -> bool:
    return bool(run.data["plan"]["order"][sample["round"] - 1]["phase"] == schedule.CONFIRMATION)


def _draw_panel(
    run: ShownRun, key: tuple[int, str], spots: Sequence[Spot], across: draw.Axis, top: float
) -> list[Html]:
    streams, kind = key
    speeds = [speed for dummy, speed, dummy2 in spots]
    top += TITLE
    up = draw.Axis(min(speeds), max(speeds), top + PANEL - 8, top + 8)
    title = f"{draw.escape_and_shorten_text(kind, 20)}, {count_with_noun(streams, 'stream')}"
    parts = [
        draw.svg_text(0.0, top - 6, title),
        draw.svg_line(0.0, top, 1.0, top, "axis"),
        draw.svg_line(0.0, top + PANEL, 1.0, top + PANEL, "axis"),
    ]
    for speed in dict.fromkeys((max(speeds), min(speeds))):
        parts.append(draw.svg_text("-8", up.value_to_place(speed) + 4, draw.format_decimals(speed), "end"))
    for at, speed, sample in spots:
        look, shape = draw.css_class_and_shape_of_arm(sample["arm"])
        reason = run.discarded_rounds.get(sample["round"], "")
        title = f"round {sample['round']}, {sample['arm']}: {draw.format_decimals(speed, 2)}"
        title += f"; discarded: {reason}" if reason else ""
        mark = draw.svg_mark(shape, across.value_to_place(at), up.value_to_place(speed), title, bool(reason))
        parts.append(element("g", mark, class_=look))
    return parts


def _draw_round_cell(number: int, discard_reason: str, step: float, y: float) -> Html:
    kind = "mark hollow" if discard_reason else "mark"
    title = f"round {number}{f', discarded: {discard_reason}' if discard_reason else ''}"
    return draw.svg_rectangle((number - 1) * step, y, 0.8 * step, draw.ROW - 8, kind, title)
