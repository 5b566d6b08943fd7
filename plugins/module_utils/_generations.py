# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The generations of EPYC by CPU family and model, and rows of tables that are ordered by them.

A row of such a table begins with a CPU family and the first and last model. Where the next value is None, nobody has
published the fact for these models, and the table says so. Family 26 has two generations, so a table by family alone
would be wrong. A gate holds each table against each generation.
Source: AMD's lists of models in LIKWID (src/includes/topology.h) and in clang (compiler-rt, cpu_model/x86.c, llvm pull
request 179150); for EPYC 9006 dynolog pull request 569.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeVar

    Row = TypeVar("Row", bound=tuple[Any, ...])

#: CPU family, first and last model, and name.
GENERATIONS = (
    (23, 0x00, 0x0F, "EPYC 7001 (Naples, Zen)"),
    (23, 0x30, 0x3F, "EPYC 7002 (Rome, Zen 2)"),
    (25, 0x00, 0x0F, "EPYC 7003 (Milan, Zen 3)"),
    (25, 0x10, 0x1F, "EPYC 9004 (Genoa, Zen 4)"),
    (25, 0xA0, 0xAF, "EPYC 9004 and 8004 (Bergamo and Siena, Zen 4c)"),
    (26, 0x00, 0x0F, "EPYC 9005 (Turin, Zen 5)"),
    (26, 0x10, 0x1F, "EPYC 9005 (Turin dense, Zen 5c)"),
    (26, 0x50, 0x57, "EPYC 9006 (Venice, Zen 6 and Zen 6c)"),
)


def find_row(table: Iterable[Row], family: int | None, model_number: int) -> Row | None:
    """Return the first row of a table that is for a CPU family and model; None where the table has none."""
    return next((row for row in table if row[0] == family and row[1] <= model_number <= row[2]), None)
