# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Figures of the benchmarks and the bars that they are held against."""

from __future__ import annotations

import pytest

from vepyc.figures import Bar, Figures


@pytest.mark.parametrize(
    ("value", "bar", "missed", "line"),
    [
        (44.9, Bar("<", 45), False, "figure start 44.90 s (bar < 45)"),
        (45, Bar("<", 45), True, "figure start 45.00 s (bar < 45)"),
        (1.5, Bar("<=", 1.5), False, "figure start 1.50 s (bar <= 1.5)"),
        (9.99, Bar(">=", 10), True, "figure start 9.99 s (bar >= 10)"),
        (1e9, None, False, "figure start 1000000000.00 s"),
    ],
)
def test_a_figure_that_misses_its_bar_is_remembered(
    value: float, bar: Bar | None, missed: bool, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = Figures()
    figures.print_figure("start", value, "s", bar)
    figures.print_figure("other", 1, "s", Bar("<", 2))
    assert (figures.missed, capsys.readouterr().out.splitlines()[0]) == (missed, line)
