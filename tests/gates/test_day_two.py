# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pages of day two have each step of the procedures that `make day-two` runs, and none that it does not run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tools.day_two import recording

ROOT = Path(__file__).parents[2]
PROCEDURES = recording.read_procedures(ROOT / "tools/day_two/procedures.yml")


class Hosts:
    """A stage whose commands print the same, and which notes what is written."""

    def __init__(self, *outputs: tuple[int, str]) -> None:
        self.outputs = list(outputs)

    def run(self, command: str, host: str) -> tuple[int, str]:
        return self.outputs.pop(0)

    def write_inventory_file(self, path: str, text: str) -> None:
        raise AssertionError(path)


def test_the_pages_have_each_step_that_is_run() -> None:
    assert recording.list_missing_parts(ROOT / "docs", PROCEDURES.values()) == []
    name, procedure = next(iter(PROCEDURES.items()))
    changed = replace(procedure, steps=[*procedure.steps, recording.Step(run="make tea")])
    assert recording.list_missing_parts(ROOT / "docs", [changed]) == [f"{name}: 'make tea'"]


def test_each_output_on_the_pages_is_of_a_run() -> None:
    for page in sorted((ROOT / "docs").glob("day-two*.md")):
        text = page.read_text(encoding="utf-8")
        for name in PROCEDURES:
            text = text.replace(text.partition(recording.BEGIN.format(name))[2].partition("<!-- to here")[0], "")
        assert "```" not in text, page.name


def test_a_command_that_does_not_do_what_the_page_says_ends_the_run() -> None:
    step = recording.Step(run="look", show=["served"])
    assert recording.run_step(step, Hosts((0, "it is served\nmore"))) == "it is served\nmore"
    with pytest.raises(recording.RecordingError, match="'look' has no line like 'served'"):
        recording.run_step(step, Hosts((0, "it is not")))
    with pytest.raises(recording.RecordingError, match="has the exit code 2 instead of 0"):
        recording.run_step(step, Hosts((2, "it is served")))


def test_only_the_lines_that_one_looks_for_are_shown() -> None:
    step = recording.Step(run="look", show=["^changed"])
    assert recording.trim_output(step, "ok: a\nchanged: b\nok: c\nok: d\nchanged: e\nok: f\n") == (
        "changed: b\n[...]\nchanged: e"
    )
