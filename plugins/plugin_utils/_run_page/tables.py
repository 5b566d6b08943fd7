# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables of the page: verdicts with reasons, guards, confirmation, figures, void rounds, and the fingerprint.

Each yields its part of the page, and nothing where the document has not what it shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.tuning_report import options_text
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.comparison import key_text
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import drawing as draw
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import told
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.style import SIGNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.comparison import Comparison
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import Run

#: Figure -> its heading and its decimals.
FIGURES = {
    "decode": ("decode, tokens/s", 2),
    "prefill": ("prefill, tokens/s", 1),
    "ms_per_step": ("ms per step", 2),
    "tokens_per_step": ("tokens per step", 2),
    "acceptance": ("accepted of drafted", 3),
    "ttft_p50": ("first text, ms, p50", 1),
    "ttft_p95": ("p95", 1),
    "tpot_p50": ("per token, ms, p50", 2),
    "tpot_p95": ("p95", 2),
    "tpot": ("mean", 2),
    "gap_p50": ("gap, ms, p50", 2),
    "gap_p95": ("p95", 2),
    "gap_p99": ("p99", 2),
}
#: Field of the fingerprint -> its words.
KNOWN = {
    "sku": "Processor",
    "microcode": "Microcode",
    "bios": "BIOS",
    "kernel": "Kernel",
    "cmdline": "Boot parameters",
    "topology": "Topology",
    "uptime_s": "Uptime, s",
    "engine_build": "llama.cpp",
    "engine_sha256": "SHA-256 of its program",
    "model_sha256": "SHA-256 of the model",
    "arguments": "Arguments",
    "prompts_sha256": "SHA-256 of the prompts",
}


def verdicts(run: Run) -> Iterator[Html]:
    """Yield the verdict on each setting with its reason, in the order of the plan."""
    if run.judgement is None or not run.judgement.verdicts:
        return
    rows = (
        [one.knob, _word(one.word), _ratio(one.primary), _count(one.primary), one.reason]
        for one in run.judgement.verdicts
    )
    yield _part("Verdicts", _table(["Setting", "Verdict", "With over without", "Rounds", "Reason"], rows, (3,)))


def guards(run: Run) -> Iterator[Html]:
    """Yield what each setting does to each metric that it must not cost."""
    rows = [
        [one.knob, key_text(guard), _claim(run, guard), _ratio(guard), _count(guard)]
        for one in (run.judgement.verdicts if run.judgement else ())
        for guard in one.guards
        if guard.found
    ]
    if rows:
        yield _part("By metric", _table(["Setting", "Metric", "What it does", "Ratio", "Rounds"], rows, (4,)))


def confirmation(run: Run) -> Iterator[Html]:
    """Yield the race on fresh rounds; nothing before its first."""
    race = run.judgement.confirmation if run.judgement else None
    if race is None or race.together is None:
        return
    pairs = {f"{race.winner} over stock": race.together, **race.others}
    rows = [[name, "", _claim(run, one), _ratio(one), _count(one)] for name, one in pairs.items()]
    rows += [
        [f"{race.winner} over stock", key_text(one), _claim(run, one), _ratio(one), _count(one)]
        for one in race.parts
        if one.found
    ]
    table = _table(["What", "Metric", "What it does", "Ratio", "Rounds"], rows, (4,))
    yield _part("Confirmation on fresh rounds", table)


def candidates(run: Run) -> Iterator[Html]:
    """Yield the candidates of a tuning, the best first, with what was predicted and what came of it."""
    if not run.tuning:
        return
    rows = (
        [
            one.arm["name"],
            options_text(one.arm),
            *map(_times, (one.predicted, one.measured)),
            str(one.count),
            one.rejected,
        ]
        for one in run.tuning.standings()
    )
    titles = ["Arm", "Options", "Predicted over the default", "Measured", "Rounds", "Rejected"]
    yield _part("Candidates", _table(titles, rows, (2, 3, 4)))


def gain(run: Run) -> Iterator[Html]:
    """Yield the best candidate of a tuning against the default on fresh rounds, and the default against itself."""
    found = run.tuning
    if not found or not found.best or not found.gain:
        return
    over = "over the default"
    rows = [[over, "", _claim(run, found.gain), _ratio(found.gain), _count(found.gain)]]
    rows += [[over, key_text(one), _claim(run, one), _ratio(one), _count(one)] for one in found.guards if one.found]
    rows += [["the default over itself", "", "", _ratio(one), _count(one)] for one in found.twins.values()]
    titles = [options_text(found.best), "Metric", "What it does", "Ratio", "Rounds"]
    yield _part("Confirmation on fresh rounds", _table(titles, rows, (4,)))


def _times(ratio: float | None) -> str:
    return "" if ratio is None else draw.number(ratio, 3)


def figures(run: Run) -> Iterator[Html]:
    """Yield the figures by kind and number of streams, of the arms that are shown side by side."""
    arms, those = run.shown()
    found = []
    for streams in run.streams():
        for kind in run.kinds():
            for arm in arms:
                values = told(run.samples(arm, those, streams, kind), streams)
                if values:
                    found.append(([kind, str(streams), arm], values))
    used = [name for name in FIGURES if any(values.get(name) is not None for dummy, values in found)]
    if not found:
        return
    rows = [[*names, *(_value(values.get(name), FIGURES[name][1]) for name in used)] for names, values in found]
    titles = ["Kind", "Streams", "Arm", *(FIGURES[name][0] for name in used)]
    yield _part("Figures", _table(titles, rows, range(3, len(titles))))


def void(run: Run) -> Iterator[Html]:
    """Yield the void rounds, which are dropped whole."""
    if run.void:
        rows = ([str(number), why] for number, why in run.void.items())
        yield _part("Void rounds, dropped whole", _table(["Round", "Reason"], rows))


def fingerprint(run: Run) -> Iterator[Html]:
    """Yield what the run was made on, as far as it is known."""
    known = run.data["fingerprint"]
    rows = {}
    for name, title in KNOWN.items():
        value = known.get(name)
        if value not in (None, []):
            rows[title] = " ".join(map(str, value)) if isinstance(value, list) else value
    settings = sorted((str(address), value) for address, value in known["settings"].items())
    if not rows and not settings:
        return
    pairs = [part for title, value in rows.items() for part in (element("dt", title), element("dd", value))]
    cells = [[element("code", address), _setting(value)] for address, value in settings]
    summary = element("summary", f"{len(settings)} settings")
    yield element(
        "section",
        element("h2", "What it was measured on"),
        element("dl", *pairs),
        *([element("details", summary, _table(["Setting", "Value"], cells))] if settings else []),
    )


def _setting(value: object) -> object:
    return "not there" if value is None else element("code", value)


def _word(word: str) -> Html:
    kind, sign = SIGNS[word]
    return element("span", f"{sign} {word}", class_=kind)


def _claim(run: Run, one: Comparison) -> Html | str:
    """Return the word for a comparison; a run that is void makes no claim, whatever its intervals say."""
    return "" if run.faults else _word(one.word)


def _ratio(one: Comparison | None) -> str:
    return one.text() if one else ""


def _count(one: Comparison | None) -> str:
    return str(one.count) if one else ""


def _value(value: float | None, digits: int) -> str:
    return "" if value is None else draw.number(value, digits)


def _part(title: str, table: Html) -> Html:
    return element("section", element("h2", title), table)


def _table(titles: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[int] = ()) -> Html:
    """Return a table; the columns in ``numbers`` are numbers."""
    right = set(numbers)
    styles = ["number" if at in right else None for at in range(len(titles))]
    head = element("tr", *(element("th", title, class_=style) for style, title in zip(styles, titles)))
    body = []
    for row in rows:
        cells = [element("td", cell, class_=style) for style, cell in zip(styles[1:], row[1:])]
        body.append(element("tr", element("th", row[0]), *cells))
    table = element("table", element("thead", head), element("tbody", *body))
    return element("div", table, class_="wide")
