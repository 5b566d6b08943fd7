# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands that measure, as a person on the host gives them: what they print, and their exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._bench import cli
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured, measured

QUICK = ["--rounds", "1", "--tokens", "4", "--kinds", "prose", "--streams", "1"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measured]:
    with measured(tmp_path, monkeypatch) as host:
        monkeypatch.setattr(cli, "Host", lambda fs, intent, stored: host.host())
        yield host


def test_a_run_and_its_report_again(here: Measured, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "run.json")
    assert _cli.main(["bench", "chat", *QUICK, "--output", file]) == 0
    said, told = capsys.readouterr()
    report, dummy, last = said.rstrip("\n").rpartition("\n\n")
    assert report.startswith("chat: 100.0 tokens per second") and last == file
    assert told.splitlines()[0] == "... it measures the bandwidth of the memory"
    assert _cli.main(["analyse", file]) == 0
    assert capsys.readouterr().out == f"{report}\n"


def test_a_run_of_which_no_round_counts(here: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    def busy(number: int) -> None:
        here.others += 1_000

    here.before_answer = busy
    assert _cli.main(["bench", *QUICK]) == 2
    assert capsys.readouterr().out.startswith("No round counts, and this proves nothing.")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["bench", "--round"], "argument --rounds: expected one argument. 'sovereign-epyc bench --help' lists the"),
        (["bench", "chat", "--rounds", "no"], "rounds is no; say a whole number from 1 to 1000."),
        (["bench", "other"], "There is no instance other on this host, which has chat."),
        (["analyse"], "the following arguments are required: file. 'sovereign-epyc analyse --help' lists the"),
        (["analyse", "/absent.json"], "There is no /absent.json; name the JSON file of a run."),
    ],
)
def test_what_is_refused(here: Measured, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli.main(words) == 1
    assert capsys.readouterr().err.startswith(sentence)
    assert here.asked == []
