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
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.benchmark_report import BenchmarkResult
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import run_page
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import ShownRun, parse_run_document
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.speed_charts import memory_time_chart
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import scale_time
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents as documents
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils.bench_pages import (
    Reader,
    groups,
    line_at_one,
    marks,
    rows,
)

#: The folder that holds ansible_collections.
ROOT = Path(run_page.__file__).parents[6]
CODE = """
import sys
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run_page import render_run_page
sys.stdout.buffer.write(render_run_page(sys.stdin.read()).encode())
"""
FOREST, CEILING, LATENCY = "What each setting does", "Measured over ceiling", "Throughput against latency"
COURSE, PREDICTED, LIVED = "Every sample in order", "Predicted against measured", "The rounds of each arm"
VERDICTS, METRICS, CONFIRMED = "Verdicts", "By metric", "Confirmation on fresh rounds"
FIGURES, VOID, MADE_ON = "Figures", "Discarded rounds", "What it was measured on"
WHOLE = [FOREST, LATENCY, COURSE, PREDICTED, LIVED, VERDICTS, METRICS, CONFIRMED, FIGURES, VOID, MADE_ON]
#: All elements of a page.
ELEMENTS = {"html", "head", "meta", "title", "style", "script", "body", "h1", "h2", "p", "time", "section", "article"}
ELEMENTS |= {"svg", "g", "rect", "path", "text", "div", "span", "table", "thead", "tbody", "tr", "th", "td"}
ELEMENTS |= {"dl", "dt", "dd", "details", "summary", "code"}


def titles(data: dict[str, Any]) -> list[str]:
    return Reader(run_page.render_run_page(data)).titles


def test_the_page_has_the_results_of_the_engine() -> None:
    data = documents.ablation()
    page = run_page.render_run_page(data)
    assert "<title>Benchmark: On this host 1 of 3 settings pays; together 1.30 (1.29 to 1.31)</title>" in page
    assert Reader(page).titles == WHOLE
    judgement = Judgement(data)
    by_knob = {one.knob: one for one in judgement.verdicts}
    table = rows(page, VERDICTS)
    assert [row[0] for row in table] == list(by_knob)
    for knob, word, ratio, count, reason in table:
        one = by_knob[knob]
        found = (one.primary.format_ratio(), str(one.primary.count)) if one.primary else ("", "")
        assert (word.split(" ", 1)[1], ratio, count, reason) == (one.word, *found, one.reason)
    assert len(rows(page, METRICS)) == sum(len(one.guards) for one in judgement.verdicts) == 15
    race = rows(page, CONFIRMED)
    assert [row[0] for row in race[:3]] == ["kept over stock", "tuned over stock", "kept over tuned"]
    assert race[0][3] == judgement.confirmation.kept_over_stock.format_ratio()
    assert rows(page, VOID) == [["3", "The hypervisor took 2.0% of the CPU time, above 0.5%."]]
    assert "<dt>Arguments</dt><dd>--threads 32</dd>" in page and "<td>not there</td>" in page


def test_the_forest_has_the_best_on_top_and_each_mark_on_its_side() -> None:
    plot = groups(run_page.render_run_page(documents.ablation()), FOREST)
    names = [re.findall(">([^<]+)</text>", group)[0] for group in plot]
    assert names == ["threads", "governor", "boost", "isolation", "tuned over stock", "tuned over itself, live"]
    words = [re.findall(">([^<]+)</text>", group)[1] for group in plot[:4]]
    assert words == ["\u25b2 pays", "\u25cf nothing", "\u25bc hurts", "\u25c7 not tested"]
    (threads,), (governor,), (boost,), none = (marks(group) for group in plot[:4])
    page = run_page.render_run_page(documents.ablation())
    one = line_at_one(page)
    assert boost < one - 20 < one + 20 < threads and abs(governor - one) < 3 and none == []
    band = re.findall(r'class="zone" x="([\d.]+)" y="\d+" width="([\d.]+)"', page)[0]
    assert float(band[0]) < governor < float(band[0]) + float(band[1]) < threads


def test_an_interval_of_few_rounds_does_not_squeeze_the_others() -> None:
    """It is cut with an arrow at both ends, and the scale stays that of the estimates."""
    data = documents.ablation()
    for sample in data["samples"]:
        if sample["arm"] == "without governor":
            sample["predicted_ms"] *= 4 if sample["round"] % 2 else 0.25
    page = run_page.render_run_page(data)
    by_name = {re.findall(">([^<]+)</text>", group)[0]: group for group in groups(page, FOREST)}
    assert marks(by_name["threads"])[0] - line_at_one(page) > 90
    ends = re.findall(r'class="range" d="(M[^"]+)"', by_name["governor"])[1:]
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
    assert "chat: threads 96 instead of 124: 1.11 (1.11 to 1.12) over the default" in page
    found = {row[1]: row for row in rows(page, "Candidates")}
    assert list(found) == ["threads 96", "ubatch 128", "hugepages pool"]
    assert found["threads 96"][3:5] == ["1.111", "4"] and found["hugepages pool"][5].startswith("No pool")
    confirmed = rows(page, CONFIRMED)
    assert confirmed[0][0] == "over the default" and "pays" in confirmed[0][2]
    assert confirmed[-1][0] == "the default over itself"
    assert "predicted 14.0, measured 14.4" in page
    for sample in data["samples"]:
        if sample["arm"] == "candidate 1":
            sample["predicted_ms"] *= 1.2
    assert "the default stays; threads 96 instead of 124 did not beat it" in run_page.render_run_page(data)


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
    verdicts = {row[0]: row[1] for row in rows(run_page.render_run_page(data), VERDICTS)}
    assert verdicts["threads"] == "\u25bc hurts"


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
        ([LATENCY], lambda data: [one.update(gaps_ms=[]) for one in data["samples"]]),
        ([PREDICTED], lambda data: data["plan"].update(predicted={"nobody": 3.0})),
        ([VOID], lambda data: [one["witness"].update(steal=0.0) for one in data["samples"]]),
        ([MADE_ON], lambda data: data.update(fingerprint=documents.begun()["fingerprint"])),
        ([CONFIRMED], lambda data: data.update(documents.unconfirmed())),
        (WHOLE, lambda data: data.update(documents.begun())),
    ],
)
def test_a_part_without_data_is_not_there(gone: list[str], change: Callable[[dict[str, Any]], None]) -> None:
    data = documents.ablation()
    change(data)
    found = titles(data)
    # A run that has just begun knows the settings that it will test, and nothing of them.
    assert found == ([VERDICTS] if gone is WHOLE else [title for title in WHOLE if title not in gone])


def test_a_benchmark_of_one_arm_compares_nothing() -> None:
    data = documents.benchmark()
    page = run_page.render_run_page(data)
    assert Reader(page).titles == [LATENCY, COURSE, FIGURES]
    assert (
        f'<p class="headline">{BenchmarkResult(data).headline()}</p>' in page
        and "chat: " in BenchmarkResult(data).headline()
    )
    table = rows(page, FIGURES)
    assert [row[:3] for row in table[:4]] == [[kind, "1", "running"] for kind in ("code", "prose", "summary")] + [
        ["code", "2", "running"]
    ]
    assert all(row[3] and row[4] and row[5] for row in table), "output, decode and prefill for any number of streams"
    assert len(marks(page.partition(LATENCY)[2].partition("</section>")[0])) == 3, "1, 2 and 4 streams"


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
    part = run_page.render_run_page(data).partition(LIVED)[2].partition("</section>")[0]
    planned = [arm for one in data["plan"]["order"] for arm in one["arms"]]
    assert part.count("<rect") == len(planned)
    assert part.count("mark hollow") == len(data["plan"]["order"][documents.STEAL_ROUND - 1]["arms"])
    assert part.count(">without threads<") == 1


def held(gbps: float | None, source: str = "reader") -> str:
    """Return the bars of the ablation with steps of 1 GB that took about 40 ms, and a cache of 1 MB."""
    data = documents.ablation()
    data["bandwidth"] = [{"scope": "instance", "cpus": "0-31", "nodes": "0", "gbps": gbps, "source": source}]
    data["steps"] = [
        {"kind": kind, "context": context, "guessed": 0.0, "parts": {"layers": 9e8, "kv": 1e8}}
        for kind, context in (("prose", 4096), ("code", 512), ("nobody", 1))
    ]
    data["cache"] = 1_000_000
    return "".join(memory_time_chart(ShownRun(data)))


def test_bars_are_measured_over_ceiling() -> None:
    part = held(40.0)
    labels = re.findall(">([^<]+)</text>", part)
    assert [label for label in labels if "context" in label] == [
        "code, 512 tokens of context",
        "prose, 4096 tokens of context",
    ]
    told = [label for label in labels if "memory" in label]
    (ratio, memory_ms, rest_ms), dummy = (list(map(float, re.findall(r"[\d.]+", label))) for label in told)
    assert memory_ms == 25.0 and ratio == pytest.approx(25 / (25 + rest_ms), abs=0.01) and 0.5 < ratio < 1
    bars = [float(width) for width in re.findall(r'class="bar" [^>]*width="([\d.]+)"', part)]
    # Prose is slower than code, and so it is farther from the ceiling.
    assert bars[1] < bars[0] < 640 and bars[0] == pytest.approx(640 * ratio, abs=4)
    assert "paper figure" not in part and "wrong" not in part


def test_what_cannot_be_right_is_said_beside_the_bars() -> None:
    assert "The bandwidth was not measured: 40 GB/s is the paper figure." in held(40.0, "paper")
    assert "the bytes or the bandwidth are wrong" in held(10.0)
    assert held(None, "nothing") == ""


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
        ({"schema": 3}, "reads 1 to 2 only"),
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
