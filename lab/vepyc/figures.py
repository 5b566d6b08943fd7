# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measured figures, and the bars that some of them must keep."""

from __future__ import annotations

import operator
from dataclasses import dataclass

_OPERATORS = {"<": operator.lt, "<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True)
class Bar:
    """What a figure must be, as `< 45`."""

    operator: str
    limit: float

    def __str__(self) -> str:
        return f"{self.operator} {self.limit:g}"


def format_figure(name: str, value: float, unit: str, bar: Bar | None = None) -> str:
    """Return `figure NAME VALUE UNIT (bar OP LIMIT)`; without the bar where there is none."""
    return f"figure {name} {value:.2f} {unit}{f' (bar {bar})' if bar else ''}"


class Figures:
    """Prints a line for each figure, and remembers whether one missed its bar."""

    def __init__(self) -> None:
        self.missed = False

    def print_figure(self, name: str, value: float, unit: str, bar: Bar | None = None) -> None:
        """Print the line of a figure."""
        self.missed |= bar is not None and not _OPERATORS[bar.operator](value, bar.limit)
        print(format_figure(name, value, unit, bar), flush=True)
