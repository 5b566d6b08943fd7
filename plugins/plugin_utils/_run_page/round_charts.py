# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Charts of a run's course: every sample in order, and the rounds that each arm lived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import format_count
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import drawing as draw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import Run

    #: The place of a sample in the document, its tokens per second, and the sample.
    Spot = tuple[int, float, dict[str, Any]]

LEFT, RIGHT = 200, 1185
PANEL, GAP = 84, 16
#: A cell of a round is no wider than this.
CELL = 14


def course(run: Run) -> Iterator[Html]:
    """Yield the run chart: a panel for each kind and number of streams, all with the same samples below each other."""
    cells: dict[tuple[int, str], list[Spot]] = {}
    for at, sample in enumerate(run.data["samples"]):
        speed = 1000 * sample["predicted_n"] / sample["predicted_ms"]
        cells.setdefault((sample["streams"], sample["kind"]), []).append((at, speed, sample))
    if not cells:
        return
    across = draw.Axis(0, max(len(run.data["samples"]) - 1, 1), LEFT + 8, RIGHT - 8)
    parts: list[Html] = []
    bottom = float(len(cells) * (PANEL + GAP))
    for at, key in enumerate(sorted(cells)):
        parts += _panel(run, key, cells[key], across, at * (PANEL + GAP) + GAP / 2)
    first = next((at for at, one in enumerate(run.data["samples"]) if _fresh(run, one)), None)
    if first is not None:
        x = across.at(first - 0.5)
        parts.append(draw.line(x, 0, x, bottom, "one"))
        parts.append(draw.text(x, bottom + 10, "confirmation from here", "end small" if x > RIGHT / 2 else "small"))
    yield element(
        "section",
        element("h2", "Every sample in order"),
        element(
            "p",
            "Tokens per second of each sample, the first one left. A hollow mark is void, and its title says why. The "
            "scale of a panel goes from its lowest to its highest sample.",
            class_="faint",
        ),
        draw.key(run.arms, run.alone),
        draw.svg(bottom + 16, "Every sample of the run in order", parts),
    )


def _fresh(run: Run, sample: dict[str, Any]) -> bool:
    return bool(run.data["plan"]["order"][sample["round"] - 1]["phase"] == schedule.CONFIRMATION)


def _panel(run: Run, key: tuple[int, str], spots: Sequence[Spot], across: draw.Axis, top: float) -> list[Html]:
    streams, kind = key
    speeds = [speed for dummy, speed, dummy2 in spots]
    up = draw.Axis(min(speeds), max(speeds), top + PANEL - 6, top + 6)
    parts = [
        draw.text(0, top + PANEL / 2 - 2, draw.shorten(kind, 20)),
        draw.text(0, top + PANEL / 2 + 13, format_count(streams, "stream"), "small"),
        draw.text(LEFT - 6, up.at(max(speeds)) + 4, draw.number(max(speeds)), "end"),
        draw.line(LEFT, top, RIGHT, top, "axis"),
        draw.line(LEFT, top + PANEL, RIGHT, top + PANEL, "axis"),
    ]
    if max(speeds) > min(speeds):
        parts.append(draw.text(LEFT - 6, up.at(min(speeds)) + 4, draw.number(min(speeds)), "end"))
    for at, speed, sample in spots:
        look, shape = draw.look(sample["arm"], run.alone)
        why = run.why(sample)
        title = f"round {sample['round']}, {sample['arm']}: {draw.number(speed, 2)}{f'; void: {why}' if why else ''}"
        parts.append(element("g", draw.mark(shape, across.at(at), up.at(speed), title, bool(why)), class_=look))
    return parts


def lived(run: Run) -> Iterator[Html]:
    """Yield the rounds of each arm; nothing where there is only one, or no round yet."""
    if run.alone or not run.rounds:
        return
    last = run.rounds[-1].number
    step = min(CELL, (RIGHT - 60 - LEFT) / last)
    parts = []
    for at, arm in enumerate(run.arms):
        y = at * draw.ROW + 4
        those = [one for one in run.rounds if arm in one.planned]
        cells = [_cell(one.number, one.void, step, y) for one in those]
        count = sum(not one.void for one in those)
        parts.append(draw.text(0, y + 12, draw.shorten(arm, 28)))
        parts.append(element("g", *cells, class_=draw.look(arm)[0]))
        parts.append(draw.text(LEFT + last * step + 10, y + 12, str(count)))
    bottom = len(run.arms) * draw.ROW + 4
    shown = [(at, label) for at, label in draw.ticks(0, last, 10) if at == int(at)]
    parts += [draw.text(LEFT + (at - 0.5) * step, bottom + 12, label, "middle small") for at, label in shown if at >= 1]
    yield element(
        "section",
        element("h2", "The rounds that each arm lived"),
        element(
            "p",
            "A filled cell is a round that counts, a hollow one is void. The number is that of those that count.",
            class_="faint",
        ),
        draw.svg(bottom + 18, "The rounds that each arm lived", parts),
    )


def _cell(nth: int, void: str, step: float, y: float) -> Html:
    return element(
        "rect",
        element("title", f"round {nth}{f', void: {void}' if void else ''}"),
        class_="mark hollow" if void else "mark",
        x=draw.place(LEFT + (nth - 1) * step),
        y=y,
        width=draw.place(max(step - 2.5, 1)),
        height=draw.ROW - 8,
    )
