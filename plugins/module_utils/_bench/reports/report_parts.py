# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts that all reports of runs share: lines of 100 columns, the host, the rounds, and the discarded rounds."""

from __future__ import annotations

import math
import textwrap

from ..verdicts.comparison import HURTS, PAYS, format_metric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Round
    from ..verdicts.comparison import Comparison

WIDTH = 100
#: Marks behind a ratio whose interval proves a gain or a loss.
MARKS = {PAYS: "+", HURTS: "-"}


def wrap_text(text: str, indent: str = "") -> list[str]:
    """Return a text as lines of at most 100 columns; lines after the first have a deeper indent."""
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")


def host_lines(document: Mapping[str, Any], those: Sequence[Round]) -> Iterator[str]:
    """Yield the processor and kernel of the host, and the numbers of rounds and samples."""
    known = document["fingerprint"]
    yield from wrap_text(f"{known['sku'] or 'unknown processor'}, Linux {known['kernel'] or 'unknown'}")
    void = sum(bool(measured.discard_reason) for measured in those)
    yield f"{len(those)} rounds, {void} of them discarded; {len(document['samples'])} samples"


def discarded_round_lines(those: Sequence[Round], title: str) -> Iterator[str]:
    """Yield a title, and each discarded round with its reason; nothing where there is none."""
    void = [measured for measured in those if measured.discard_reason]
    if void:
        yield ""
        yield title
    for measured in void:
        yield from wrap_text(f"round {measured.number}: {measured.discard_reason}", "  ")


def format_marked_metric(one: Comparison, proves: bool) -> str:
    """Return a metric with its ratio, and a mark for a proven gain or loss where the run ``proves`` anything."""
    ratio = math.exp(one.interval.mean) if one.interval else 1.0
    return f"{format_metric(one)} {ratio:.2f}{MARKS.get(one.word, '') if proves else ''}"
