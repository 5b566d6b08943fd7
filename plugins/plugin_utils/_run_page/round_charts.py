# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Charts of the course of a run: every sample in order, and the rounds of each arm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import count_with_noun
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import drawing as draw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import ShownRun

    #: The position of a sample in the document, its tokens per second, and the sample.
    Spot = tuple[int, float, dict[str, Any]]

LEFT, RIGHT = 200, 1185
PANEL, GAP = 84, 16
#: The largest width of the cell of a round in pixels.
CELL = 14


def render_sample_chart(run: ShownRun) -> Iterator[Html]:
    """Yield the chart of all samples, with a panel for each kind and number of streams, on one horizontal axis."""
    cells: dict[tuple[int, str], list[Spot]] = {}
    for at, sample in enumerate(run.data["samples"]):
        speed = 1000 * sample["output_n"] / sample["output_ms"]
        cells.setdefault((sample["streams"], sample["kind"]), []).append((at, speed, sample))
    if not cells:
        return
    across = draw.Axis(0, max(len(run.data["samples"]) - 1, 1), LEFT + 8, RIGHT - 8)
    parts: list[Html] = []
    bottom = float(len(cells) * (PANEL + GAP))
    for at, key in enumerate(sorted(cells)):
        parts += _draw_panel(run, key, cells[key], across, at * (PANEL + GAP) + GAP / 2)
    first = next((at for at, sample in enumerate(run.data["samples"]) if _is_confirmation_sample(run, sample)), None)
    if first is not None:
        x = across.value_to_pixel(first - 0.5)
        parts.append(draw.svg_line(x, 0, x, bottom, "one"))
        parts.append(draw.svg_text(x, bottom + 10, "confirmation from here", "end small" if x > RIGHT / 2 else "small"))
    yield element(
        "section",
        element("h2", "Every sample in order"),
        element(
            "p",
            "Tokens per second end to end of each sample, the first one left. A hollow mark is discarded, and its "
            "title says why. The scale of a panel goes from its lowest to its highest sample.",
            class_="faint",
        ),
        draw.svg_legend(run.arms, run.has_one_arm),
        draw.svg_chart(bottom + 16, "Every sample of the run in order", parts),
    )


def _is_confirmation_sample(run: ShownRun, sample: dict[str, Any]) -> bool:
    return bool(run.data["plan"]["order"][sample["round"] - 1]["phase"] == schedule.CONFIRMATION)


def _draw_panel(
    run: ShownRun, key: tuple[int, str], spots: Sequence[Spot], across: draw.Axis, top: float
) -> list[Html]:
    streams, kind = key
    speeds = [speed for dummy, speed, dummy2 in spots]
    up = draw.Axis(min(speeds), max(speeds), top + PANEL - 6, top + 6)
    parts = [
        draw.svg_text(0, top + PANEL / 2 - 2, draw.escape_and_shorten_text(kind, 20)),
        draw.svg_text(0, top + PANEL / 2 + 13, count_with_noun(streams, "stream"), "small"),
        draw.svg_text(LEFT - 6, up.value_to_pixel(max(speeds)) + 4, draw.format_decimals(max(speeds)), "end"),
        draw.svg_line(LEFT, top, RIGHT, top, "axis"),
        draw.svg_line(LEFT, top + PANEL, RIGHT, top + PANEL, "axis"),
    ]
    if max(speeds) > min(speeds):
        parts.append(
            draw.svg_text(LEFT - 6, up.value_to_pixel(min(speeds)) + 4, draw.format_decimals(min(speeds)), "end")
        )
    for at, speed, sample in spots:
        look, shape = draw.css_class_and_shape_of_arm(sample["arm"], run.has_one_arm)
        reason = run.discard_reason(sample)
        title = f"round {sample['round']}, {sample['arm']}: {draw.format_decimals(speed, 2)}"
        title += f"; discarded: {reason}" if reason else ""
        parts.append(
            element(
                "g",
                draw.svg_mark(shape, across.value_to_pixel(at), up.value_to_pixel(speed), title, bool(reason)),
                class_=look,
            )
        )
    return parts


def render_arm_rounds_chart(run: ShownRun) -> Iterator[Html]:
    """Yield the chart of the rounds of each arm; nothing for a run with one arm, or before the first round."""
    if run.has_one_arm or not run.rounds:
        return
    last = run.rounds[-1].number
    step = min(CELL, (RIGHT - 60 - LEFT) / last)
    parts = []
    for at, arm in enumerate(run.arms):
        y = at * draw.ROW + 4
        rounds = [measured for measured in run.rounds if arm in measured.planned_arms]
        cells = [_draw_round_cell(measured.number, measured.discard_reason, step, y) for measured in rounds]
        count = sum(not measured.discard_reason for measured in rounds)
        parts.append(draw.svg_text(0, y + 12, draw.escape_and_shorten_text(arm, 28)))
        parts.append(element("g", *cells, class_=draw.css_class_and_shape_of_arm(arm)[0]))
        parts.append(draw.svg_text(LEFT + last * step + 10, y + 12, str(count)))
    bottom = len(run.arms) * draw.ROW + 4
    ticks = [(at, label) for at, label in draw.round_values_with_labels(0, last, 10) if at == int(at)]
    parts += [
        draw.svg_text(LEFT + (at - 0.5) * step, bottom + 12, label, "middle small") for at, label in ticks if at >= 1
    ]
    yield element(
        "section",
        element("h2", "The rounds of each arm"),
        element(
            "p",
            "A filled cell is a round that counts, a hollow cell a discarded round. The number counts filled cells.",
            class_="faint",
        ),
        draw.svg_chart(bottom + 18, "The rounds of each arm", parts),
    )


def _draw_round_cell(number: int, discard_reason: str, step: float, y: float) -> Html:
    return element(
        "rect",
        element("title", f"round {number}{f', discarded: {discard_reason}' if discard_reason else ''}"),
        class_="mark hollow" if discard_reason else "mark",
        x=draw.format_coordinate(LEFT + (number - 1) * step),
        y=y,
        width=draw.format_coordinate(max(step - 2.5, 1)),
        height=draw.ROW - 8,
    )
