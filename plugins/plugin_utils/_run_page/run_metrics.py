# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run as metrics for the textfile collector: what the arms that are shown side by side reach, and each verdict.

No label holds what is another one in each run, which would make a new series each time. The instance is the label
``service``, because Prometheus calls what it scrapes ``instance``.
"""

from __future__ import annotations

import calendar
import math
import time
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._drift import metrics
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_unprintable
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import Run, given, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.sovereign.epyc.plugins.module_utils._drift.metrics import Sample

BEGIN = "sovereign_epyc_benchmark"
STARTED, SOUND, ROUNDS = f"{BEGIN}_started_seconds", f"{BEGIN}_sound", f"{BEGIN}_rounds"
RATIO = f"{BEGIN}_setting_ratio"
#: Figure of a run -> its metric, what it is, and what it is multiplied with.
FIGURES = {
    "decode": (f"{BEGIN}_decode_tokens_per_second", "Tokens decoded per second, of all streams together.", 1.0),
    "prefill": (f"{BEGIN}_prefill_tokens_per_second", "Tokens of prompts read per second.", 1.0),
    "ttft_p50": (f"{BEGIN}_first_text_seconds", "Seconds to the first text, the median.", 0.001),
    "gap_p95": (f"{BEGIN}_gap_seconds", "Seconds between two pieces of text, the 95th percentile.", 0.001),
}
HELP = {
    STARTED: "When the run started, in seconds since 1970.",
    SOUND: "Whether the run proves anything: it is not void as a whole, and at least one round counts.",
    ROUNDS: "Rounds of the run that count, and that are void.",
    **{name: text for name, text, dummy in FIGURES.values()},
    RATIO: "The speed with a setting, or with the options that a tuning found, over that without.",
}


def render(data: object, host: str = "") -> str:
    """Return the file of a document or of the text that holds it, with a label for its host where one is named."""
    run = Run(given(data))
    common = {**({"host": escape_unprintable(host)} if host else {}), "service": str(run.data["instance"])}
    good = len(run.rounds) - len(run.void)
    try:
        started = calendar.timegm(time.strptime(run.data["started"], "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        raise BadRequest(f"started is {run.data['started']!r} and should be a time as 2026-11-25T00:00:00Z") from None
    families: dict[str, list[Sample]] = {
        STARTED: [(common, started)],
        SOUND: [(common, int(good > 0 and not run.faults))],
        ROUNDS: [({**common, "counts": "yes"}, good), ({**common, "counts": "no"}, len(run.void))],
    }
    for name, labels, value in _figures(run):
        families.setdefault(name, []).append(({**common, **labels}, value))
    ratios = [({**common, **labels}, value) for labels, value in _ratios(run)]
    return metrics.render_metrics({**families, **({RATIO: ratios} if ratios else {})}, HELP)


def _figures(run: Run) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield the figures of the arms that are shown, metric by metric."""
    arms, those = run.shown()
    for figure, (name, dummy, unit) in FIGURES.items():
        for streams in run.streams():
            for kind in run.kinds():
                for arm in arms:
                    value = told(run.samples(arm, those, streams, kind), streams).get(figure)
                    if value is not None:
                        # The number of a candidate is another one in each run.
                        shown = "best" if arm.startswith(schedule.CANDIDATE) else arm
                        yield name, {"kind": kind, "streams": str(streams), "arm": shown}, _rounded(value * unit)


def _ratios(run: Run) -> Iterator[tuple[dict[str, str], float]]:
    for one in run.judgement.verdicts if run.judgement else ():
        if one.primary and one.primary.found:
            yield {"setting": one.knob, "verdict": one.word}, _rounded(math.exp(one.primary.found.mean))
    gain = run.tuning.gain if run.tuning else None
    if run.tuning and gain and gain.found:
        yield (
            {"setting": "options", "verdict": "pays" if run.tuning.proven else ""},
            _rounded(math.exp(gain.found.mean)),
        )


def _rounded(value: float) -> float:
    """Return six digits, which are the same on every machine."""
    return float(f"{value:.6g}")
