# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Charts of speed: tokens per second by the number of streams, and by the depth of the context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.load_sections import samples_by_depth
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.shown_run import mean_tokens_per_second
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import measured_rounds
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.figures import figures_of_samples
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import drawing as draw

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.shown_run import ShownRun

    #: A value on the horizontal axis, and tokens per second.
    Point = tuple[float, float]

TOP, BOTTOM = 12, 240
#: The curves of the charts by depth.
DECODE, CEILING, PREFILL = "decoding", "ceiling of memory", "reading prompts"


def streams_charts(run: ShownRun) -> Iterator[Html]:
    """Yield the legend and the chart of tokens per second by the number of streams."""
    arms, rounds = run.arms_and_rounds_side_by_side()
    curves: dict[str, list[Point]] = {}
    for arm in arms:
        rates = [
            (streams, mean_tokens_per_second(rounds, arm, streams, measured_rounds.OUTPUT))
            for streams in run.stream_counts()
        ]
        curves[arm] = [(streams, rate) for streams, rate in rates if rate is not None]
    labels = [(float(streams), str(streams)) for streams in run.stream_counts()]
    yield draw.svg_legend(run.describe_configuration_of_arms(arms))
    yield curve_chart("Tokens per second by the number of streams", curves, labels, "streams")


def depth_charts(run: ShownRun) -> Iterator[Html]:
    """Yield the charts of decoding, beside its ceiling, and of prefill by the depth of the context."""
    decode: dict[str, list[Point]] = {DECODE: [], CEILING: []}
    prefill: dict[str, list[Point]] = {PREFILL: []}
    for depth, samples in samples_by_depth(run).items():
        figures = figures_of_samples(samples)
        values = ((decode, DECODE, figures["decode"]), (decode, CEILING, run.decode_ceiling(samples)))
        for curves, name, value in (*values, (prefill, PREFILL, figures["prefill"])):
            if value is not None:
                curves[name].append((depth, value))
    for curves in (decode, prefill):
        shown = {name: curve for name, curve in curves.items() if curve}
        if shown:
            ticks = [(x, f"{x / 1024:g}k" if x else "0") for x, dummy in max(shown.values(), key=len)]
            yield draw.svg_legend(dict.fromkeys(shown, ""))
            yield curve_chart(f"{next(iter(shown))} by the depth of the context", shown, ticks, "tokens of context")


def curve_chart(
    label: str, curves: Mapping[str, Sequence[Point]], ticks: Sequence[tuple[float, str]], unit: str
) -> Html:
    """Return a chart of tokens per second with a curve for each arm; ``unit`` is what the horizontal axis counts."""
    points = [point for curve in curves.values() for point in curve]
    across = draw.Axis(0.0, max(x for x, dummy in points), 0.0, 0.96)
    up = draw.Axis(0.0, max(y for dummy, y in points), BOTTOM, TOP)
    parts = draw.svg_axes(across, up, ticks)
    parts.append(draw.svg_text(0.96, BOTTOM + 34, unit, "end"))
    for arm, curve in curves.items():
        kind, shape = draw.css_class_and_shape_of_curve(arm)
        spots = [(across.value_to_place(x), up.value_to_place(y)) for x, y in curve]
        marks = draw.svg_curve(spots, "range")
        for (x, y), spot in zip(curve, spots):
            title = f"{arm}, {draw.format_pixels(x)} {unit}: {draw.format_decimals(y)} tokens per second"
            marks.append(draw.svg_mark(shape, *spot, title))
        parts.append(element("g", *marks, class_=kind))
    return draw.svg_chart(BOTTOM + 40, label, parts, "scaled curves")
