# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Charts of speed: measured over ceiling, throughput against latency, and predicted against measured.

Each yields its part of the page, and nothing where the document has not what it shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.memory import instance_memory as memories
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import measured_rounds
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.figures import percentile
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import drawing as draw
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.memory.ceiling import Ceiling
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import Document, Run

    #: Streams, 95th percentile of the gap in milliseconds, tokens per second.
    Point = tuple[int, float, float]

LEFT, RIGHT, TOP, BOTTOM = 60, 1180, 20, 320
#: Where bars begin, and the room that is left for a number behind them.
BARS, BEHIND = 260, 900


def ceilings(run: Run) -> list[tuple[Document, Ceiling]]:
    """Return each step that the document describes, held against the bandwidth of the instance."""
    good = [one for one in run.rounds if not one.void]
    held = memories.ceilings(run.data, run.samples(run.arm, good, 1))
    found = [(step, held[step["kind"]]) for step in run.data["steps"] if step["kind"] in held]
    return sorted(found, key=lambda pair: (pair[0]["context"], pair[0]["kind"]))


def memory(run: Run) -> Iterator[Html]:
    """Yield the bars of measured over ceiling, and what has to be said of them."""
    shown = [(step, one, one.ratio) for step, one in ceilings(run) if one.ratio is not None]
    if not shown:
        return
    axis = draw.Axis(0.0, max(1.0, *(ratio for dummy, dummy2, ratio in shown)), BARS, BEHIND)
    bottom = len(shown) * draw.ROW + 6
    parts = []
    for at, (step, one, ratio) in enumerate(shown):
        y = at * draw.ROW + 4
        name = f"{draw.shorten(step['kind'], 20)}, {step['context']} tokens of context"
        length = draw.place(axis.at(ratio) - BARS)
        parts.append(draw.text(0, y + 13, name))
        parts.append(element("rect", class_="bar", x=BARS, y=y, width=length, height=draw.ROW - 6))
        rest = one.step_ms - (one.memory_ms or 0.0)
        parts.append(
            draw.text(
                axis.at(ratio) + 8,
                y + 13,
                f"{draw.number(ratio, 2)}: {draw.number(one.memory_ms or 0.0, 2)} ms memory, "
                f"{draw.number(rest, 2)} ms rest",
            )
        )
    parts.append(draw.line(axis.at(1.0), 0, axis.at(1.0), bottom, "one"))
    sentences = dict.fromkeys(said for dummy, one, dummy2 in shown for said in (one.problem, *one.remarks) if said)
    yield element(
        "section",
        element("h2", "Measured over ceiling"),
        element(
            "p",
            "The part of a step that reading its bytes takes at least; the line is the ceiling.",
            class_="faint",
        ),
        element("div", draw.svg(bottom, "Measured over ceiling by kind and context", parts), class_="tuned"),
        *(element("p", sentence) for sentence in sentences),
    )


def points(run: Run) -> dict[str, list[Point]]:
    """Return where each arm shown is with each number of streams; those of which no gap is known are left out."""
    arms, those = run.shown()
    found: dict[str, list[Point]] = {}
    for arm in arms:
        for streams in run.streams():
            gaps = [gap for one in run.samples(arm, those, streams) for gap in one["gaps_ms"]]
            gap, speed = percentile(gaps, 95), rate(those, arm, streams)
            if gap is not None and speed is not None:
                found.setdefault(arm, []).append((streams, gap, speed))
    return found


def latency(run: Run) -> Iterator[Html]:
    """Yield throughput against latency; one point alone would say nothing."""
    shown = points(run)
    every = [one for those in shown.values() for one in those]
    if len(every) < 2:
        return
    across = draw.Axis(0.0, max(gap for dummy, gap, dummy2 in every), LEFT, RIGHT - 60)
    up = draw.Axis(0.0, max(speed for dummy, dummy2, speed in every), BOTTOM, TOP)
    alone = run.alone
    parts = []
    for value, label in across.ticks():
        parts.append(draw.line(across.at(value), TOP, across.at(value), BOTTOM, "axis"))
        parts.append(draw.text(across.at(value), BOTTOM + 16, label, "middle"))
    for value, label in up.ticks():
        parts.append(draw.line(LEFT, up.at(value), RIGHT, up.at(value), "axis"))
        parts.append(draw.text(LEFT - 8, up.at(value) + 4, label, "end"))
    for arm, those in shown.items():
        kind, shape = draw.look(arm, alone)
        spots = [(across.at(gap), up.at(speed)) for dummy, gap, speed in those]
        path = "L".join(f"{draw.place(x)} {draw.place(y)}" for x, y in spots)
        marks = [element("path", class_="range", d=f"M{path}")]
        for (streams, gap, speed), (x, y) in zip(those, spots):
            title = f"{arm}, {streams}: {draw.number(speed)} tokens per second, {draw.number(gap)} ms"
            marks += [draw.mark(shape, x, y, title), draw.text(x + 9, y - 6, str(streams))]
        parts.append(element("g", *marks, class_=kind))
    yield element(
        "section",
        element("h2", "Throughput against latency"),
        element(
            "p",
            "Tokens per second of all streams together (up), against the gap between two pieces of text that 95 % of "
            "the gaps do not exceed, in milliseconds (right). A number is that of the streams.",
            class_="faint",
        ),
        draw.key(shown, alone),
        draw.svg(BOTTOM + 24, "Throughput against latency by the number of streams", parts),
    )


def predicted(run: Run) -> Iterator[Html]:
    """Yield predicted against measured, where a prediction has the name of an arm that was measured.

    A prediction is tokens per second of whole requests with one stream, the geometric mean over all kinds.
    """
    good = [one for one in run.rounds if not one.void]
    shown = []
    for arm in run.arms:
        measured, before = rate(good, arm, metric=measured_rounds.REQUEST), run.data["plan"]["predicted"].get(arm)
        if measured is not None and before is not None:
            shown.append((arm, before, measured))
    if not shown:
        return
    every = [value for dummy, before, measured in shown for value in (before, measured)]
    axis = draw.Axis(min(0.0, *every), max(every), BARS, BEHIND)
    bottom = len(shown) * draw.ROW + 24
    parts = []
    for value, label in axis.ticks():
        parts.append(draw.line(axis.at(value), 0, axis.at(value), bottom - 20, "axis"))
        parts.append(draw.text(axis.at(value), bottom - 6, label, "middle"))
    for at, (arm, before, measured) in enumerate(shown):
        y = at * draw.ROW + draw.ROW / 2
        numbers = f"predicted {draw.number(before)}, measured {draw.number(measured)}"
        parts += [
            draw.text(0, y + 4, arm),
            draw.line(axis.at(before), y, axis.at(measured), y, "range"),
            draw.mark("circle", axis.at(before), y, "predicted", hollow=True),
            draw.mark("circle", axis.at(measured), y, "measured"),
            draw.text(BEHIND + 20, y + 4, numbers),
        ]
    yield element(
        "section",
        element("h2", "Predicted against measured"),
        element(
            "p",
            "Tokens per second of whole requests with one stream. The hollow mark was predicted before that arm was "
            "measured, the other one was measured.",
            class_="faint",
        ),
        element("div", draw.svg(bottom, "Predicted against measured by arm", parts), class_="tuned"),
    )
