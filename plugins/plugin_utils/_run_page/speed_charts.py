# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Charts of speed: memory time over step time, throughput against latency, and prediction against measurement.

Each chart function yields a section of the page, or nothing where the document has no data for the chart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.memory import instance_memory as memories
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import measured_rounds
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.figures import percentile
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import drawing as draw
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import mean_tokens_per_second

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.memory.ceiling import Ceiling
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import Document, ShownRun

    #: Streams, 95th percentile of the gap in milliseconds, tokens per second.
    Point = tuple[int, float, float]

LEFT, RIGHT, TOP, BOTTOM = 60, 1180, 20, 320
#: Pixels where bars begin and end; the rest is for the number behind a bar.
BARS, BEHIND = 260, 900


def steps_with_ceilings(run: ShownRun) -> list[tuple[Document, Ceiling]]:
    """Return each recorded step with its ceiling, the time that reading its bytes takes at the bandwidth."""
    rounds = [measured for measured in run.rounds if not measured.discard_reason]
    ceilings = memories.memory_ceilings_by_prompt_kind(run.data, run.select_samples(run.arm, rounds, 1))
    steps = [(step, ceilings[step["kind"]]) for step in run.data["steps"] if step["kind"] in ceilings]
    return sorted(steps, key=lambda pair: (pair[0]["context"], pair[0]["kind"]))


def memory_time_chart(run: ShownRun) -> Iterator[Html]:
    """Yield the chart of memory time over step time, with the remarks on its ceilings."""
    shown = [
        (step, ceiling, ceiling.memory_time_share)
        for step, ceiling in steps_with_ceilings(run)
        if ceiling.memory_time_share is not None
    ]
    if not shown:
        return
    axis = draw.Axis(0.0, max(1.0, *(ratio for dummy, dummy2, ratio in shown)), BARS, BEHIND)
    bottom = len(shown) * draw.ROW + 6
    parts = []
    for at, (step, measured, ratio) in enumerate(shown):
        y = at * draw.ROW + 4
        name = f"{draw.escape_and_shorten_text(step['kind'], 20)}, {step['context']} tokens of context"
        length = draw.format_coordinate(axis.value_to_pixel(ratio) - BARS)
        parts.append(draw.svg_text(0, y + 13, name))
        parts.append(element("rect", class_="bar", x=BARS, y=y, width=length, height=draw.ROW - 6))
        rest = measured.step_ms - (measured.memory_ms or 0.0)
        parts.append(
            draw.svg_text(
                axis.value_to_pixel(ratio) + 8,
                y + 13,
                f"{draw.format_decimals(ratio, 2)}: {draw.format_decimals(measured.memory_ms or 0.0, 2)} ms memory, "
                f"{draw.format_decimals(rest, 2)} ms rest",
            )
        )
    parts.append(draw.svg_line(axis.value_to_pixel(1.0), 0, axis.value_to_pixel(1.0), bottom, "one"))
    sentences = dict.fromkeys(
        text for dummy, measured, dummy2 in shown for text in (measured.problem, *measured.remarks) if text
    )
    yield element(
        "section",
        element("h2", "Measured over ceiling"),
        element(
            "p",
            "The least share of a step that reading its bytes takes; the line is the ceiling.",
            class_="faint",
        ),
        element("div", draw.svg_chart(bottom, "Measured over ceiling by kind and context", parts), class_="tuned"),
        *(element("p", sentence) for sentence in sentences),
    )


def latency_points_by_arm(run: ShownRun) -> dict[str, list[Point]]:
    """Return the points of each shown arm by number of streams; no point for streams without gaps."""
    arms, rounds = run.arms_and_rounds_side_by_side()
    points: dict[str, list[Point]] = {}
    for arm in arms:
        for streams in run.stream_counts():
            gaps = [gap for sample in run.select_samples(arm, rounds, streams) for gap in sample["gaps_ms"]]
            speed = mean_tokens_per_second(rounds, arm, streams, measured_rounds.OUTPUT)
            gap = percentile(gaps, 95)
            if gap is not None and speed is not None:
                points.setdefault(arm, []).append((streams, gap, speed))
    return points


def throughput_latency_chart(run: ShownRun) -> Iterator[Html]:
    """Yield the chart of throughput against latency; nothing for a single point."""
    shown = latency_points_by_arm(run)
    all_points = [point for points in shown.values() for point in points]
    if len(all_points) < 2:
        return
    across = draw.Axis(0.0, max(gap for dummy, gap, dummy2 in all_points), LEFT, RIGHT - 60)
    up = draw.Axis(0.0, max(speed for dummy, dummy2, speed in all_points), BOTTOM, TOP)
    parts = []
    for value, label in across.round_values_with_labels():
        parts.append(draw.svg_line(across.value_to_pixel(value), TOP, across.value_to_pixel(value), BOTTOM, "axis"))
        parts.append(draw.svg_text(across.value_to_pixel(value), BOTTOM + 16, label, "middle"))
    for value, label in up.round_values_with_labels():
        parts.append(draw.svg_line(LEFT, up.value_to_pixel(value), RIGHT, up.value_to_pixel(value), "axis"))
        parts.append(draw.svg_text(LEFT - 8, up.value_to_pixel(value) + 4, label, "end"))
    for arm, points in shown.items():
        kind, shape = draw.css_class_and_shape_of_arm(arm, run.has_one_arm)
        spots = [(across.value_to_pixel(gap), up.value_to_pixel(speed)) for dummy, gap, speed in points]
        path = "L".join(f"{draw.format_coordinate(x)} {draw.format_coordinate(y)}" for x, y in spots)
        marks = [element("path", class_="range", d=f"M{path}")]
        for (streams, gap, speed), (x, y) in zip(points, spots):
            title = f"{arm}, {streams}: {draw.format_decimals(speed)} tokens per second, {draw.format_decimals(gap)} ms"
            marks += [draw.svg_mark(shape, x, y, title), draw.svg_text(x + 9, y - 6, str(streams))]
        parts.append(element("g", *marks, class_=kind))
    yield element(
        "section",
        element("h2", "Throughput against latency"),
        element(
            "p",
            "Up: tokens per second end to end of all streams together. Right: the 95th percentile of the gap between "
            "two pieces of text, in milliseconds. The number at a point is the number of streams.",
            class_="faint",
        ),
        draw.svg_legend(shown, run.has_one_arm),
        draw.svg_chart(BOTTOM + 24, "Throughput against latency by the number of streams", parts),
    )


def prediction_chart(run: ShownRun) -> Iterator[Html]:
    """Yield the chart of predictions and measurements of arms that have both.

    A prediction is in tokens per second of whole requests with one stream, as geometric mean over all kinds.
    """
    rounds = [measured for measured in run.rounds if not measured.discard_reason]
    shown = []
    for arm in run.arms:
        measured = mean_tokens_per_second(rounds, arm, metric=measured_rounds.REQUEST)
        predicted = run.data["plan"]["predicted"].get(arm)
        if measured is not None and predicted is not None:
            shown.append((arm, predicted, measured))
    if not shown:
        return
    values = [value for dummy, *pair in shown for value in pair]
    axis = draw.Axis(min(0.0, *values), max(values), BARS, BEHIND)
    bottom = len(shown) * draw.ROW + 24
    parts = []
    for value, label in axis.round_values_with_labels():
        parts.append(draw.svg_line(axis.value_to_pixel(value), 0, axis.value_to_pixel(value), bottom - 20, "axis"))
        parts.append(draw.svg_text(axis.value_to_pixel(value), bottom - 6, label, "middle"))
    for at, (arm, predicted, measured) in enumerate(shown):
        y = at * draw.ROW + draw.ROW / 2
        numbers = f"predicted {draw.format_decimals(predicted)}, measured {draw.format_decimals(measured)}"
        parts += [
            draw.svg_text(0, y + 4, arm),
            draw.svg_line(axis.value_to_pixel(predicted), y, axis.value_to_pixel(measured), y, "range"),
            draw.svg_mark("circle", axis.value_to_pixel(predicted), y, "predicted", hollow=True),
            draw.svg_mark("circle", axis.value_to_pixel(measured), y, "measured"),
            draw.svg_text(BEHIND + 20, y + 4, numbers),
        ]
    yield element(
        "section",
        element("h2", "Predicted against measured"),
        element(
            "p",
            "Tokens per second of whole requests with one stream. The hollow mark is the prediction before the arm was "
            "measured, the filled mark is the measurement.",
            class_="faint",
        ),
        element("div", draw.svg_chart(bottom, "Predicted against measured by arm", parts), class_="tuned"),
    )
