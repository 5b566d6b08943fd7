# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of a run says what the library says, the same on every machine, and shows no part that has no data."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.run_report import (
    build_run_report,
    render_run_report,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.shown_run import ShownRun
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import run_page
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import parse_run_document
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import scale_time
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents as documents
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils.bench_pages import (
    Reader,
    groups,
    marks,
    rows,
    section,
)

#: The folder that holds ansible_collections.
ROOT = Path(run_page.__file__).parents[6]
CODE = """
import sys
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run_page import render_run_page
sys.stdout.buffer.write(render_run_page(sys.stdin.read()).encode())
"""
SETTINGS, CONFIRMED, FIGURES = "What each setting does", "Confirmation in 10 fresh rounds", "Figures"
STREAMS, METRICS, VOID = "Several streams", "By metric", "Discarded rounds"
MEASURED, NEXT = "How it was measured", "Next"
COURSE, LIVED = "Every sample in order", "The rounds of each arm"
WHOLE = [SETTINGS, CONFIRMED, FIGURES, STREAMS, METRICS, VOID, MEASURED, NEXT]
#: All elements of a page.
ELEMENTS = {"html", "head", "meta", "title", "style", "script", "body", "main", "h1", "h2", "p", "time", "section"}
ELEMENTS |= {"svg", "g", "rect", "path", "text", "div", "span", "table", "thead", "tbody", "tr", "th", "td"}
ELEMENTS |= {"dl", "dt", "dd", "details", "summary", "code", "pre", "b", "small", "ul", "li", "line", "article"}


def interval_plots(page: str) -> list[str]:
    """Return the plot of each row of the table of settings."""
    body = section(page, SETTINGS).partition("<tbody>")[2]
    return re.findall(r'<td class="interval">(.*?)</td>', body)


def line_at_one(plot: str) -> float:
    """Return where the ratio 1 is in the plot of an interval, in percent of its width."""
    return float(re.findall(r'class="one" x1="([\d.]+)%"', plot)[0])


def titles(data: dict[str, Any]) -> list[str]:
    return Reader(run_page.render_run_page(data)).titles


def test_the_page_has_the_results_of_the_engine() -> None:
    data = documents.ablation()
    page = run_page.render_run_page(data)
    headline = build_run_report(ShownRun(data)).headline
    assert headline.startswith("30 % faster than stock (")
    assert f"<title>Ablation of chat: {headline}</title>" in page and "<h1>Ablation of chat</h1>" in page
    assert f'<p class="headline">{headline}</p>' in page
    assert Reader(page).titles == WHOLE
    judgement = Judgement(data)
    by_knob = {one.knob: one for one in judgement.verdicts}
    table = rows(page, SETTINGS)
    names = [row[0] for row in table]
    assert names == ["threads", "governor", "boost", "isolation", "tuned over itself, live"]
    for knob, word, ratio, count, dummy, reason in table[:4]:
        one = by_knob[knob]
        found = (
            (one.deciding_comparison.format_ratio(), str(one.deciding_comparison.count))
            if one.deciding_comparison
            else ("", "")
        )
        assert (word.split(" ", 1)[1], ratio, count, reason) == (one.word, *found, one.reason)
    assert sum(bool(cell) for row in rows(page, METRICS) for cell in row[1:]) == 18
    race = rows(page, CONFIRMED)
    assert [row[0] for row in race] == ["kept over stock", "tuned over stock", "kept over tuned"]
    assert race[0][1] == f"\u25b2 {judgement.confirmation.kept_over_stock.format_ratio()}"
    assert rows(page, VOID) == [["round 3", "The hypervisor took 2.0% of the CPU time, above 0.5%."]]
    assert "<dt>Arguments</dt><dd>--threads 32</dd>" in page and "<dd>not there</dd>" in page


def test_text_and_page_have_the_same_tables() -> None:
    """Both are made of one report: each cell of the page is in the text."""
    for make in (documents.ablation, documents.tuning, documents.benchmark, documents.loads):
        data = make()
        page, text = run_page.render_run_page(data), render_run_report(data)
        for title in Reader(page).titles:
            for row in rows(page, title):
                for cell in row:
                    assert cell.lstrip("\u25b2\u25bc\u25cf\u25c7? ") in text, (title, cell)


def test_what_is_seen_first_stands_before_the_first_table() -> None:
    first = run_page.render_run_page(documents.ablation()).partition("<section")[0]
    words = Reader(first).words
    figures = build_run_report(ShownRun(documents.ablation())).figures
    assert [figure.label for figure in figures] == ["speed", "throughput", "first token"]
    assert {"AMD EPYC 9354, Linux 6.12", "-# sysfs:boost", *(figure.value for figure in figures)} <= set(words)
    assert sum(word.startswith("boost does not pay: remove these lines") for word in words) == 1


def test_the_forest_has_the_best_on_top_and_each_mark_on_its_side() -> None:
    plots = interval_plots(run_page.render_run_page(documents.ablation()))
    (threads,), (governor,), (boost,), none = (marks(plot) for plot in plots[:4])
    one = line_at_one(plots[0])
    assert boost < one - 5 < one + 5 < threads and abs(governor - one) < 2 and none == []
    begin, width = map(float, re.findall(r'class="zone" x="([\d.]+)%" y="0" width="([\d.]+)%"', plots[0])[0])
    assert begin < governor < begin + width < threads


def test_an_interval_of_few_rounds_does_not_squeeze_the_others() -> None:
    """It is cut with an arrow at both ends, and the scale stays that of the estimates."""
    data = documents.ablation()
    for sample in data["samples"]:
        if sample["arm"] == "without governor":
            sample["predicted_ms"] *= 4 if sample["round"] % 2 else 0.25
    page = run_page.render_run_page(data)
    by_name = dict(zip((row[0] for row in rows(page, SETTINGS)), interval_plots(page)))
    assert marks(by_name["threads"])[0] - line_at_one(by_name["threads"]) > 10
    ends = re.findall(r'<path class="range" d="(M[^"]+)"', by_name["governor"])
    assert [end.count("L") for end in ends] == [2, 2], "two arrows, each of two lines"


@pytest.mark.parametrize("make", [documents.ablation, documents.benchmark, documents.tuning])
def test_the_same_bytes_from_any_process(make: Callable[[], dict[str, Any]]) -> None:
    data = make()
    pages = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", CODE],
            input=json.dumps(data).encode(),
            env=environment,
            capture_output=True,
            check=True,
        )
        pages.add(done.stdout)
    assert pages == {run_page.render_run_page(data).encode()}


def test_neither_the_order_of_keys_nor_the_last_digit_of_a_logarithm_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(one) for one in value] if isinstance(value, list) else value

    data = documents.ablation()
    page = run_page.render_run_page(data)
    assert run_page.render_run_page(turned(data)) == page
    for name in ("log", "exp"):
        real: Callable[[float], float] = getattr(math, name)
        monkeypatch.setattr(math, name, lambda value, real=real: real(value) * (1 + 4e-16))
    assert run_page.render_run_page(data) == page


def test_a_tuning_shows_its_candidates_and_what_was_proven() -> None:
    data = documents.tuning()
    page = run_page.render_run_page(data)
    assert " % faster than the default (" in page
    found = {row[0]: row for row in rows(page, "Candidates")}
    assert list(found) == ["threads 96", "ubatch 128", "hugepages pool"]
    assert found["threads 96"][2:4] == ["1.111", "4"] and found["hugepages pool"][4].startswith("No pool")
    confirmed = rows(page, CONFIRMED)
    assert confirmed[0][0] == "threads 96 over the default" and confirmed[0][1].startswith("\u25b2 1.11 (")
    assert confirmed[-1][0] == "the default over itself"
    assert '<span class="cut">-    threads: 124</span><span class="added">+    threads: 96</span>' in page
    for sample in data["samples"]:
        if sample["arm"] == "candidate 1":
            sample["predicted_ms"] *= 1.2
    assert "the default stays: in 10 rounds threads 96 instead of 124 was" in run_page.render_run_page(data)


def test_altered_samples_alter_the_page() -> None:
    """Each of them is on it, and verdicts follow from them alone."""
    data = documents.ablation()
    page = run_page.render_run_page(data)
    for at in range(0, len(data["samples"]), 40):
        altered = documents.ablation()
        scale_time(altered["samples"][at], 1.01)
        assert run_page.render_run_page(altered) != page, at
    for sample in data["samples"]:
        if sample["arm"] == "without threads":
            sample["predicted_ms"] /= 1.3 * 1.3
    verdicts = {row[0]: row[1] for row in rows(run_page.render_run_page(data), SETTINGS)}
    assert verdicts["threads"] == "\u25e8 mixed"


def test_a_void_run_claims_nothing() -> None:
    data = documents.ablation()
    assert any("pays" in words for words in Reader(run_page.render_run_page(data)).words)
    for sample in data["samples"]:
        sample["witness"]["steal"] = 0.02
    seen = Reader(run_page.render_run_page(data))
    assert "This run is not sound and proves nothing." in seen.words and "article" in seen.elements
    # One of rounds that do not count is no claim, but the words are not there either.
    data = documents.ablation()
    data["restored"] = False
    page = run_page.render_run_page(data)
    assert "The settings at the end were not those of the start" in page and METRICS in page and CONFIRMED in page
    for words in (*seen.words, *Reader(page).words):
        assert "pays" not in words and "hurts" not in words


@pytest.mark.parametrize(
    ("gone", "change"),
    [
        ([VOID], lambda data: [one["witness"].update(steal=0.0) for one in data["samples"]]),
        ([STREAMS], lambda data: data.update(samples=[one for one in data["samples"] if one["streams"] == 1])),
        ([CONFIRMED], lambda data: data.update(documents.unconfirmed())),
    ],
)
def test_a_part_without_data_is_not_there(gone: list[str], change: Callable[[dict[str, Any]], None]) -> None:
    data = documents.ablation()
    change(data)
    assert titles(data) == [title for title in WHOLE if title not in gone]


def test_a_run_that_has_just_begun_knows_only_its_settings() -> None:
    assert titles(documents.begun()) == [SETTINGS, NEXT]


def test_a_benchmark_of_one_arm_compares_nothing() -> None:
    data = documents.benchmark()
    page = run_page.render_run_page(data)
    assert "<h1>Benchmark of chat</h1>" in page and Reader(page).titles == [FIGURES, STREAMS, MEASURED, NEXT]
    ends = "end to end 19.4 with 1 stream, 42.2 with 2 streams, 59.6 with 4 streams."
    assert f'<p class="headline">Decodes 29.8 tokens per second; {ends}</p>' in page
    table = rows(page, FIGURES)
    assert [row[:2] for row in table[:4]] == [[kind, "1"] for kind in ("code", "prose", "summary")] + [["code", "2"]]
    assert all(row[2] and row[3] and row[4] for row in table), "output, decode and prefill for any number of streams"
    assert len(marks(section(page, STREAMS))) == 3, "1, 2 and 4 streams"


def test_the_curves_of_streams_say_what_each_arm_is() -> None:
    page = run_page.render_run_page(documents.ablation())
    part = section(page, STREAMS)
    for words in ("stock: the originals of all settings", "tuned: all settings", "kept: without boost"):
        assert f" {words}</span>" in part, words
    assert [row[0] for row in rows(page, STREAMS)] == ["1", "4"] and len(marks(part)) == 6


def test_a_run_of_which_no_round_counts_shows_its_figures_as_discarded() -> None:
    data = documents.benchmark()
    for sample in data["samples"]:
        sample["void"] = "somebody compiled"
    page = run_page.render_run_page(data)
    assert Reader(page).titles[0] == "Figures, discarded: they prove nothing"
    assert "No round counts, and this proves nothing." in page and "29.8 tokens/s" in page


def test_other_loads_than_plain_requests_have_their_own_sections() -> None:
    """Plain figures do not change by them; each depth has a point on both curves, and the ceiling only where known."""
    page = run_page.render_run_page(documents.loads())
    depth, turns, arrivals = (
        "Speed by depth of the context",
        "The second turn of a chat",
        "Requests that arrive at a rate",
    )
    assert Reader(page).titles == [FIGURES, STREAMS, depth, turns, arrivals, MEASURED, NEXT]
    assert rows(page, FIGURES) == rows(run_page.render_run_page(documents.benchmark(2)), FIGURES)
    table = rows(page, depth)
    assert [row[0] for row in table] == ["0", "4096", "16384"]
    decode, prefill = ([float(row[at]) for row in table] for at in (1, 2))
    assert decode[2] == pytest.approx(decode[0] / 2, abs=0.1) and prefill == sorted(prefill, reverse=True)
    assert len(marks(section(page, depth))) == 6 and "ceiling of memory</span>" not in page
    for kind, cached, first, second in rows(page, turns):
        assert cached == "600" and float(second) == pytest.approx(float(first) / 10, abs=0.1), kind
    (arrival,) = rows(page, arrivals)
    assert arrival[:2] == ["0.5/s", "3"] and arrival[-1] == "75 %"
    assert "360 W" in page and "0.5 tokens per joule" in page


def test_every_sample_is_on_the_run_chart_and_void_ones_say_why() -> None:
    data = documents.ablation()
    spots = groups(run_page.render_run_page(data), COURSE)
    assert len(spots) == len(data["samples"])
    hollow = [spot for spot in spots if "hollow" in spot]
    assert len(hollow) == sum(one["round"] == documents.STEAL_ROUND for one in data["samples"])
    assert all("discarded: The hypervisor took 2.0% of the CPU time" in spot for spot in hollow)
    kinds = [one["kind"] for one in data["samples"] if one["streams"] == 1]
    places = [marks(spot)[0] for spot in spots if "round" in spot][: kinds.count("code")]
    assert places == sorted(places), "in a panel, the order is that of the document"


def test_the_rounds_of_an_arm_end_with_its_verdict() -> None:
    data = documents.ablation()
    part = section(run_page.render_run_page(data), LIVED)
    planned = [arm for one in data["plan"]["order"] for arm in one["arms"]]
    assert part.count("<rect") == len(planned)
    assert part.count("mark hollow") == len(data["plan"]["order"][documents.STEAL_ROUND - 1]["arms"])
    assert part.count(">without threads: ") == 1


def page_with_ceiling(gbps: float | None, source: str = "reader") -> str:
    """Return the page of the ablation with steps of 1 GB that took about 30 ms, and a cache of 1 MB."""
    data = documents.ablation()
    data["bandwidth"] = [{"scope": "instance", "cpus": "0-31", "nodes": "0", "gbps": gbps, "source": source}]
    data["steps"] = [
        {
            "kind": kind,
            "streams": 1,
            "depth": 0,
            "context": context,
            "guessed": 0.0,
            "parts": {"layers": 9e8, "kv": 1e8},
        }
        for kind, context in (("prose", 4096), ("code", 512), ("nobody", 1))
    ]
    data["cache"] = 1_000_000
    return run_page.render_run_page(data)


def test_a_step_is_compared_with_the_time_of_its_memory() -> None:
    page = page_with_ceiling(40.0)
    table = rows(page, "Measured over ceiling")
    assert [row[:3] for row in table] == [["code", "1", "512"], ["prose", "1", "4096"]]
    for *dummy, step_ms, memory_ms, share in table:
        assert memory_ms == "25.00" and float(share) == pytest.approx(25 / float(step_ms), abs=0.01)
    assert "of the speed that reading the memory allows" in page
    assert "paper figure" not in page and "wrong" not in page


def test_what_cannot_be_right_is_said_below_the_steps_once() -> None:
    assert page_with_ceiling(40.0, "paper").count("The bandwidth was not measured: 40 GB/s is the paper figure.") == 1
    assert page_with_ceiling(10.0).count("the bytes or the bandwidth are wrong") == 1
    assert "of the speed that reading" not in page_with_ceiling(None, "nothing")


def test_a_text_of_a_document_is_never_markup() -> None:
    page = run_page.render_run_page(documents.hostile())
    page.encode()
    seen = Reader(page)
    assert seen.elements <= ELEMENTS
    assert not {name for name in seen.attributes if name.startswith("on")} | seen.attributes & {"src", "href"}
    assert sum(documents.EVIL in words for words in seen.words) > 20
    assert "\\x1b[31m" in page and "\\u202e" in page and "\\ud800" in page
    assert all(char.isprintable() or char == "\n" for char in page)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "it is no JSON"),
        ("{", "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        ("[]", "should be a table"),
        (None, "should be a table"),
        ({"schema": 3}, "reads formats up to 2"),
    ],
)
def test_what_is_no_document_is_refused(data: object, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        run_page.render_run_page(data)


def test_the_text_of_the_file_will_do(tmp_path: Path) -> None:
    data = documents.benchmark(2)
    run_document.save_document(str(tmp_path / "run.json"), data)
    text = (tmp_path / "run.json").read_text()
    assert parse_run_document(text) == data and run_page.render_run_page(text) == run_page.render_run_page(data)
