# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a run as plain data, from which the text for a terminal and the HTML page are both rendered.

A report has a first screen (alerts, headline, facts, figures and the change that the run proposes), then sections with
tables, then the next steps.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Union

    from ..statistics.confidence_interval import Interval

    #: A cell of a table; a plain text stands for a cell without a verdict.
    AnyCell = Union[str, "Cell"]

#: What a column shows: text, right-aligned numbers, a plot of intervals on one axis, or a remark on its row.
TEXT, NUMBER, PLOT, NOTE = "text", "number", "plot", "note"


class Cell:
    """A cell of a table: its text, the verdict word that it carries ("" for none), and the interval that it shows."""

    __slots__ = ("interval", "text", "word")

    def __init__(self, text: str, word: str = "", interval: Interval | None = None) -> None:
        self.text = text
        self.word = word
        self.interval = interval


class Column:
    """A column of a table: its heading, and what it shows."""

    __slots__ = ("heading", "kind")

    def __init__(self, heading: str, kind: str = TEXT) -> None:
        self.heading = heading
        self.kind = kind


class Table:
    """A table whose rows have one cell for each column; the first ``names`` columns name the row.

    ``zone`` is the logarithm of the largest ratio that counts as no effect, for the columns of plots.
    """

    __slots__ = ("columns", "names", "rows", "zone")

    def __init__(
        self, columns: Sequence[Column], rows: Sequence[Sequence[AnyCell]], zone: float = 0.0, names: int = 1
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.zone = zone
        self.names = names


class Section:
    """A part of a report: a title, sentences on how to read it, a table (or None), and remarks below the table.

    ``key`` names the section, so that a page can place charts beside it.
    """

    __slots__ = ("key", "legend", "remarks", "table", "title")

    def __init__(
        self, key: str, title: str, table: Table | None = None, legend: str = "", remarks: Sequence[str] = ()
    ) -> None:
        self.key = key
        self.title = title
        self.table = table
        self.legend = legend
        self.remarks = remarks


class Change:
    """What a run proposes to change: a sentence, and the lines of a diff, each with its sign, that can be copied."""

    __slots__ = ("diff", "sentence")

    def __init__(self, sentence: str, diff: Sequence[str] = ()) -> None:
        self.sentence = sentence
        self.diff = diff


class Step:
    """A next step for the reader: a sentence, and the command for it ("" for none)."""

    __slots__ = ("command", "sentence")

    def __init__(self, sentence: str, command: str = "") -> None:
        self.sentence = sentence
        self.command = command


class Figure:
    """A figure of the first screen: its label, its value with the unit, and a note on it ("" for none)."""

    __slots__ = ("label", "note", "value")

    def __init__(self, label: str, value: str, note: str = "") -> None:
        self.label = label
        self.value = value
        self.note = note


class Report:
    """The report of a run.

    ``alerts`` are sentences that precede the headline, ``more_headlines`` results that follow it, and ``faults``
    sentences why the run proves nothing. ``facts`` say
    what was measured as label and value, and ``figures`` how fast it is. ``sections`` follow in the order of reading.
    """

    __slots__ = (
        "alerts",
        "change",
        "facts",
        "faults",
        "figures",
        "headline",
        "more_headlines",
        "provenance",
        "remarks",
        "sections",
        "steps",
        "title",
    )

    def __init__(self, title: str, headline: str) -> None:
        self.title = title
        self.headline = headline
        self.alerts: list[str] = []
        self.more_headlines: list[str] = []
        self.faults: list[str] = []
        self.facts: list[tuple[str, str]] = []
        self.figures: list[Figure] = []
        self.change: Change | None = None
        self.remarks: list[str] = []
        #: The run that the report is about, with its numbers of rounds and samples.
        self.provenance = ""
        self.sections: list[Section] = []
        self.steps: list[Step] = []
