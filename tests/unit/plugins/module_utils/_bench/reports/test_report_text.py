# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A report as text fits a terminal of 100 columns, whatever its tables hold."""

from __future__ import annotations

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.report_model import (
    NOTE,
    NUMBER,
    PLOT,
    Cell,
    Change,
    Column,
    Figure,
    Report,
    Section,
    Step,
    Table,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.report_text import render_report_text
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.wording import format_gain
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.statistics.confidence_interval import Interval


def table_lines(table: Table) -> list[str]:
    """Return the lines of a table in a report."""
    report = Report("Ablation of chat", "nothing.")
    report.sections.append(Section("one", "One", table))
    return render_report_text(report).partition("One:\n")[2].splitlines()


def test_the_first_screen_has_its_order() -> None:
    report = Report("Ablation of chat", "faster.")
    report.more_headlines, report.faults = ["b2 over b1."], ["It swapped."]
    report.alerts, report.remarks = ["Not enough time."], ["It was warm."]
    report.facts, report.figures = [("host", "here")], [Figure("speed", "9 tokens/s", "kept")]
    report.provenance, report.change = "run-1", Change("Remove this.", ["-epyc_numa_thp: ..."])
    report.steps = [Step("Measure.", "ansible-playbook playbooks/benchmark.yml")]
    assert render_report_text(report).splitlines() == [
        "Not enough time.",
        "Ablation of chat: faster.",
        "b2 over b1.",
        "It swapped.",
        "",
        "host        here",
        "speed       9 tokens/s (kept)",
        "run         run-1",
        "It was warm.",
        "",
        "Remove this.",
        "  -epyc_numa_thp: ...",
        "",
        "Next:",
        "- Measure.",
        "    ansible-playbook playbooks/benchmark.yml",
    ]


def test_a_long_label_stands_apart_from_its_value() -> None:
    report = Report("Comparison", "Nothing could be compared.")
    report.facts = [("epyc-1-chat-20261130", "run 1")]
    assert "epyc-1-chat-20261130 run 1" in render_report_text(report).splitlines()


def test_columns_without_room_follow_below_with_the_names_of_their_rows() -> None:
    columns = [Column("kind"), Column("arm"), *(Column(f"a column of numbers {at}", NUMBER) for at in range(6))]
    lines = table_lines(Table(columns, [["prose", "kept", *"123456"]], names=2))
    assert max(map(len, lines)) <= 100
    assert [line.split()[:2] for line in lines] == [["kind", "arm"], ["prose", "kept"]] * 2
    assert [line.split()[2:] for line in lines[1::2]] == [["1", "2", "3", "4"], ["5", "6"]]


def test_empty_columns_are_left_out_and_an_unknown_number_is_a_dash() -> None:
    lines = table_lines(Table([Column("a"), Column("b", NUMBER), Column("c")], [["x", "1", ""], ["y", "", ""]]))
    assert lines == ["  a b", "  x 1", "  y -"]


def test_a_long_last_column_is_wrapped_and_a_note_stands_below() -> None:
    text = "word " * 30
    lines = table_lines(Table([Column("round"), Column("reason"), Column("note", NOTE)], [["1", text, "see there"]]))
    assert max(map(len, lines)) <= 100 and " ".join(lines).count("word") == 30
    assert lines[2].startswith("        word") and lines[-1] == "  1: see there"


def test_a_proven_ratio_has_a_mark_and_a_verdict_has_none() -> None:
    interval = Interval(0.1, 0.05, 9)
    row = ["boost", Cell("pays", "pays"), Cell("1.11 (1.05 to 1.16)", "pays", interval), Cell("", "pays", interval)]
    columns = [Column("setting"), Column("verdict"), Column("latency"), Column("interval", PLOT)]
    line = table_lines(Table(columns, [row], 0.02))[1]
    assert line.startswith("  boost   pays    1.11 (1.05 to 1.16)+ ") and line.index("|") < line.index("o", 45)


def test_a_gain_is_said_in_percent() -> None:
    assert format_gain(Interval(0.41, 0.05, 9), than="stock") == "51 % faster than stock (43 to 58 %)"
    assert format_gain(Interval(-0.03, 0.01, 9)) == "3.0 % slower (2.0 to 3.9 %)"
    assert format_gain(Interval(-0.2, 0.01, 9), "energy") == "18 % fewer tokens per joule (17 to 19 %)"
