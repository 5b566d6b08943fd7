# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""All samples of a run as a table of comma-separated values, for a spreadsheet or a program of one's own.

A row is a sample, in the order of the run. ``discarded`` is the reason why its round does not count. Other columns are
fields of the sample, of its round and of its witness; document_shape.py describes them.
"""

from __future__ import annotations

from ..rounds.measured_rounds import rounds_of_document
from ..statistics.figures import percentile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

OF_ROUND = ("phase", "class")
OF_SAMPLE = (
    *("arm", "start", "time", "kind", "prompt", "streams", "depth", "turn", "rate"),
    *("prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "output_n", "output_ms", "drafted", "accepted"),
    *("ttft_ms", "within_slo", "text_sha256"),
)
OF_WITNESS = ("others", "steal", "freq_mhz", "joules", "seconds", "power_source")
COLUMNS = ("round", *OF_ROUND, *OF_SAMPLE, "gap_p95_ms", *OF_WITNESS, "discarded")
#: A spreadsheet takes a text that begins with one of these for a formula.
FORMULA_BEGINNINGS = ("=", "+", "-", "@")


def render_samples_csv(document: Mapping[str, Any]) -> str:
    """Return the table of all samples of a validated document, with a line of headings; unknown values are empty."""
    import csv
    import io

    discarded = {measured.number: measured.discard_reason for measured in rounds_of_document(document)}
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for sample in document["samples"]:
        planned = document["plan"]["order"][sample["round"] - 1]
        writer.writerow(
            [
                sample["round"],
                *(_format_cell(planned[name]) for name in OF_ROUND),
                *(_format_cell(sample[name]) for name in OF_SAMPLE),
                _format_cell(percentile(sample["gaps_ms"], 95)),
                *(_format_cell(sample["witness"][name]) for name in OF_WITNESS),
                _format_cell(discarded[sample["round"]]),
            ]
        )
    return file.getvalue()


def _format_cell(value: object) -> object:
    """Return a value for a cell; a text that a spreadsheet would compute gets an apostrophe before it."""
    if isinstance(value, str) and value.startswith(FORMULA_BEGINNINGS):
        return f"'{value}"
    return "" if value is None else value
