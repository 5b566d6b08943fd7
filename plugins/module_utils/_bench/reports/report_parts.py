# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts that all reports of runs share: lines of at most 100 columns on the host, the rounds and metrics."""

from __future__ import annotations

import math
import textwrap

from ..verdicts.comparison import HURTS, PAYS, format_metric_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ..rounds.measured_rounds import Round
    from ..verdicts.comparison import Comparison

WIDTH = 100
#: The mark after a ratio whose interval proves a gain or a loss, by verdict word.
MARKS = {PAYS: "+", HURTS: "-"}


def wrap_to_report_width(text: str, indent: str = "") -> list[str]:
    """Return a text as lines of at most 100 columns; lines after the first have a deeper indent."""
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")


def join_report_lines(lines: Iterable[str]) -> str:
    """Return lines as one text, without trailing spaces and with a newline at its end."""
    return "\n".join(line.rstrip() for line in lines) + "\n"


def host_and_sample_count_lines(document: Mapping[str, Any], rounds: Sequence[Round]) -> Iterator[str]:
    """Yield lines with the processor and kernel of the host, and with the numbers of rounds and samples."""
    fingerprint = document["fingerprint"]
    yield from wrap_to_report_width(
        f"{fingerprint['sku'] or 'unknown processor'}, Linux {fingerprint['kernel'] or 'unknown'}"
    )
    discarded = sum(bool(measured.discard_reason) for measured in rounds)
    yield f"{len(rounds)} rounds, {discarded} of them discarded; {len(document['samples'])} samples"


def discarded_round_lines(rounds: Sequence[Round]) -> Iterator[str]:
    """Yield a title, and each discarded round with its reason; nothing where no round was discarded."""
    discarded = [measured for measured in rounds if measured.discard_reason]
    reasons = (f"round {measured.number}: {measured.discard_reason}" for measured in discarded)
    yield from titled_list_lines("Discarded rounds:", reasons)


def titled_list_lines(title: str, items: Iterable[str]) -> Iterator[str]:
    """Yield an empty line, a title, and each item on wrapped, indented lines; nothing where there are no items."""
    for number, item in enumerate(items):
        if not number:
            yield ""
            yield title
        yield from wrap_to_report_width(item, "  ")


def format_metric_ratios(comparisons: Iterable[Comparison], is_sound: bool) -> str:
    """Return the ratio of each metric that has an interval; in a sound run, with a mark for a proven gain or loss."""
    return ", ".join(
        f"{format_metric_name(comparison)} {math.exp(comparison.interval.mean):.2f}"
        f"{MARKS.get(comparison.word, '') if is_sound else ''}"
        for comparison in comparisons
        if comparison.interval
    )
