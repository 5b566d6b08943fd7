# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tables as plain text: each column as wide as its widest cell, two spaces between columns."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def format_aligned_columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows with equally many cells as lines of aligned columns, without trailing spaces and last newline."""
    widths = [max(map(len, cells)) for cells in zip(*rows)]
    return "\n".join("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths)).rstrip() for line in rows)
