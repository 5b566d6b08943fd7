# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the reports of all runs share: lines of 100 columns, what a run was made on, and its void rounds."""

from __future__ import annotations

import math
import textwrap

from ..verdicts.comparison import HURTS, PAYS, key_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Round
    from ..verdicts.comparison import Comparison

WIDTH = 100
#: What stands behind a ratio of which the interval proves a gain or a loss.
MARKS = {PAYS: "+", HURTS: "-"}


def wrapped(text: str, indent: str = "") -> list[str]:
    """Return a text as lines; those after the first one stand further in."""
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")


def made_on(document: Mapping[str, Any], those: Sequence[Round]) -> Iterator[str]:
    """Yield the host, and how many rounds and samples there are."""
    known = document["fingerprint"]
    yield from wrapped(f"{known['sku'] or 'unknown processor'}, Linux {known['kernel'] or 'unknown'}")
    void = sum(bool(one.void) for one in those)
    yield f"{len(those)} rounds, {void} of them void; {len(document['samples'])} samples"


def void_rounds(those: Sequence[Round], title: str) -> Iterator[str]:
    """Yield each void round with its reason below a title; nothing where there is none."""
    void = [one for one in those if one.void]
    if void:
        yield ""
        yield title
    for one in void:
        yield from wrapped(f"round {one.number}: {one.void}", "  ")


def marked(one: Comparison, proves: bool) -> str:
    """Return a metric with its ratio, and whether the interval proves it, where the run ``proves`` anything."""
    ratio = math.exp(one.found.mean) if one.found else 1.0
    return f"{key_text(one)} {ratio:.2f}{MARKS.get(one.word, '') if proves else ''}"
