# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run as metrics for the textfile collector: the figures of the arms shown side by side, and each verdict.

No label has a value that differs from run to run, because each value makes a new series. The label of the instance is
``service``, because Prometheus uses the label ``instance`` for its targets.
"""

from __future__ import annotations

import calendar
import math
import time
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.shown_run import ShownRun
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.speed_sections import figure_rows
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._drift import metrics
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_unprintable
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import parse_run_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.sovereign.epyc.plugins.module_utils._drift.metrics import Sample

BEGIN = "sovereign_epyc_benchmark"
STARTED, SOUND, ROUNDS = f"{BEGIN}_started_seconds", f"{BEGIN}_sound", f"{BEGIN}_rounds"
RATIO, WATTS, TOKENS_PER_JOULE = f"{BEGIN}_setting_ratio", f"{BEGIN}_watts", f"{BEGIN}_tokens_per_joule"
#: Figure of a run -> its metric, its description, and the factor to its unit.
FIGURES = {
    "output": (
        f"{BEGIN}_output_tokens_per_second",
        "Tokens generated per second end to end, of all streams together.",
        1.0,
    ),
    "decode": (
        f"{BEGIN}_decode_tokens_per_second",
        "Tokens decoded per second by the time of the server, of all streams together.",
        1.0,
    ),
    "prefill": (f"{BEGIN}_prefill_tokens_per_second", "Tokens of prompts read per second.", 1.0),
    "ttft_p50": (f"{BEGIN}_first_text_seconds", "Seconds to the first text, the median.", 0.001),
    "gap_p95": (f"{BEGIN}_gap_seconds", "Seconds between two pieces of text, the 95th percentile.", 0.001),
}
HELP = {
    STARTED: "When the run started, in seconds since 1970.",
    SOUND: "Whether the run proves anything: the run is valid, and at least one of its rounds counts.",
    ROUNDS: "Rounds of the run that count, and discarded rounds.",
    **{name: text for name, text, dummy in FIGURES.values()},
    WATTS: "Mean power while all prompts were sent, with one stream and with several.",
    TOKENS_PER_JOULE: "Generated tokens per joule while all prompts were sent, with one stream and with several.",
    RATIO: "The speed with a setting, or with the options that a tuning found, over that without.",
}


def render_run_metrics(data: object, host: str = "") -> str:
    """Return the text of the metrics file for a document or its JSON text; ``host`` becomes a label."""
    run = ShownRun(parse_run_document(data))
    common = {**({"host": escape_unprintable(host)} if host else {}), "service": str(run.data["instance"])}
    counting = len(run.rounds) - len(run.discarded_rounds)
    try:
        started = calendar.timegm(time.strptime(run.data["started"], "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        raise BadRequest(f"started is {run.data['started']!r} and should be a time as 2026-11-25T00:00:00Z") from None
    families: dict[str, list[Sample]] = {
        STARTED: [(common, started)],
        SOUND: [(common, int(counting > 0 and not run.faults))],
        ROUNDS: [({**common, "counts": "yes"}, counting), ({**common, "counts": "no"}, len(run.discarded_rounds))],
    }
    for name, labels, value in (*_figure_metrics(run), *_energy_metrics(run)):
        families.setdefault(name, []).append(({**common, **labels}, value))
    ratios = [({**common, **labels}, value) for labels, value in _ratios_over_stock_or_default(run)]
    return metrics.render_metrics({**families, **({RATIO: ratios} if ratios else {})}, HELP)


def _figure_metrics(run: ShownRun) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield metric, labels and value for the figures of the arms that are shown side by side."""
    for kind, streams, arm, figures in figure_rows(run) if run.counts else ():
        for figure, (name, dummy, unit) in FIGURES.items():
            value = figures.get(figure)
            if value is not None:
                yield (
                    name,
                    {"kind": kind, "streams": str(streams), **_arm_label(arm)},
                    _round_to_six_digits(value * unit),
                )


def _energy_metrics(run: ShownRun) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield metric, label and value for the energy of the arms that are shown side by side, where it is known."""
    arms, rounds = run.arms_and_rounds_side_by_side()
    for arm in arms if run.counts else ():
        for name, value in zip((WATTS, TOKENS_PER_JOULE), run.power_and_tokens_per_joule(arm, rounds)):
            if value is not None:
                yield name, _arm_label(arm), _round_to_six_digits(value)


def _arm_label(arm: str) -> dict[str, str]:
    """Return the label of an arm; candidates share one, because they have other numbers in each run."""
    return {"arm": "best" if arm.startswith(schedule.CANDIDATE) else arm}


def _ratios_over_stock_or_default(run: ShownRun) -> Iterator[tuple[dict[str, str], float]]:
    for verdict in run.judgement.verdicts if run.judgement else ():
        if verdict.deciding_comparison and verdict.deciding_comparison.interval:
            yield (
                {"setting": verdict.knob, "verdict": verdict.word},
                _round_to_six_digits(math.exp(verdict.deciding_comparison.interval.mean)),
            )
    gain = run.tuning.gain if run.tuning else None
    if run.tuning and gain and gain.interval:
        yield (
            {"setting": "options", "verdict": "pays" if run.tuning.is_gain_proven else ""},
            _round_to_six_digits(math.exp(gain.interval.mean)),
        )


def _round_to_six_digits(value: float) -> float:
    """Return a value with six significant digits, which are the same on every machine."""
    return float(f"{value:.6g}")
