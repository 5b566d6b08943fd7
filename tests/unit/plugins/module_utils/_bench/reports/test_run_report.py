# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a run says what its samples prove, and what to do about it, in lines of at most 100 columns."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.run_report import render_run_report
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import KINDS, Bench


@pytest.fixture(scope="module")
def run() -> Bench:
    """A run with something of each: a gain, a loss, nothing, a void round, a rejected and an untested setting."""
    bench = Bench(11, {"threads": 0.3, "boost": -0.06, "governor": 0.0}, noise=0.004, kinds=KINDS, streams=(1, 4))
    bench.spoil = lambda sample: sample["witness"].update(steal=0.02 if sample["round"] == 3 else 0.0)
    bench.ablate(14)
    bench.data["plan"]["untested"]["isolation"] = "it needs a reboot, and reboots are not allowed"
    bench.data["fingerprint"].update(sku="AMD EPYC 9354", kernel="6.12", arguments=["server", "--model", "/m/7B.gguf"])
    bench.confirm(["boost"])
    return bench


def section_lines(text: str, title: str) -> list[str]:
    """Return the lines of a section of a report, without its title."""
    return text.partition(f"\n{title}:\n")[2].partition("\n\n")[0].splitlines()


def test_the_report(run: Bench, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    run_document.save_document(str(path), run.data)
    text = render_run_report(run_document.load_document(str(path)))
    lines = text.splitlines()
    assert lines[0] == "Ablation of chat: 30 % faster than stock (29 to 31 %); 1 of 3 settings pays."
    assert max(map(len, lines)) <= 100 and text.isascii() and text.endswith("\n")
    rows = {line.split()[0]: line for line in section_lines(text, "What each setting does")[1:5]}
    assert list(rows) == ["threads", "governor", "boost", "isolation"], "the best first, then what has no interval"
    words = {name: re.split("  +", line)[2] for name, line in rows.items()}
    assert words == {"threads": "pays", "governor": "nothing", "boost": "hurts", "isolation": "not tested"}
    assert (
        section_lines(text, "Discarded rounds")[1] == "  round 3 The hypervisor took 2.0% of the CPU time, above 0.5%."
    )
    by_metric = section_lines(text, "By metric")
    assert "output with 4 streams" in by_metric[0] and by_metric[1].startswith("  threads  1.30 (1.21 to 1.39)+")
    assert "  isolation: it needs a reboot, and reboots are not allowed" in lines
    assert any(line.startswith("  kept over tuned  1.07") for line in lines)


def test_what_is_seen_first(run: Bench) -> None:
    """Host, model, speed and the change stand before the first table, and each is said once."""
    text = render_run_report(run.data)
    first = text.partition("What each setting does")[0].splitlines()
    assert first[2:7] == [
        "host        AMD EPYC 9354, Linux 6.12",
        "model       7B.gguf",
        "objective   latency: decoding of one stream",
        "speed       32.1 tokens/s (decode of 1 stream; kept; stock 24.7)",
        "throughput  64.3 tokens/s (output of 4 streams; kept; stock 49.5)",
    ]
    at = first.index("Take out boost, which hurts: remove these lines from host_vars or group_vars, and run site.yml.")
    assert first[at + 1] == "  -# sysfs:boost"
    assert text.count("Take out") == 1
    assert text.splitlines()[-2:] == [
        "- After the change, measure what the instance does now.",
        "    ansible-playbook playbooks/benchmark.yml",
    ]


def test_the_plot_shows_the_interval_where_it_is(run: Bench) -> None:
    rows = [
        line
        for line in section_lines(render_run_report(run.data), "What each setting does")
        if line.startswith(("  threads ", "  boost "))
    ]
    plots = [row.partition(")")[2] for row in rows]
    assert plots[0].index("|") < plots[0].index("o") and plots[1].index("o") < plots[1].index("|")


def test_it_takes_nothing_but_the_samples(run: Bench) -> None:
    """Neither the order in which samples stand in the file nor the seed or the clock changes a byte of the verdicts."""
    turned = copy.deepcopy(run.data)
    turned["samples"].reverse()
    assert render_run_report(turned) == render_run_report(run.data)


def test_altered_samples_change_the_verdicts(run: Bench) -> None:
    altered = copy.deepcopy(run.data)
    for sample in altered["samples"]:
        if sample["arm"] == "without threads" and sample["streams"] == 1:
            sample["predicted_ms"] /= 1.3 * 1.3
    words = {one.knob: one.word for one in Judgement(altered).verdicts}
    assert words["threads"] == "hurts" and words["boost"] == "hurts"
    for sample in altered["samples"]:
        if sample["arm"] == "stock":
            sample["predicted_ms"] /= 1.3 * 1.1
    first = render_run_report(altered).splitlines()[0]
    assert first.startswith("Ablation of chat: a loss, 9.2 % slower than stock (") and first.endswith(
        "0 of 3 settings pay."
    )


def test_a_machine_with_steal_has_no_verdict(run: Bench) -> None:
    assert "pays" in render_run_report(run.data)
    stolen = copy.deepcopy(run.data)
    for sample in stolen["samples"]:
        sample["witness"]["steal"] = 0.02
    text = render_run_report(stolen)
    assert "Ablation of chat: this run is not sound and proves nothing.\nThe hypervisor took 2.0% of the CPU" in text
    assert "pay" not in text and "hurts" not in text and "Take out" not in text


def test_a_run_of_which_no_round_counts_shows_its_figures_as_discarded(run: Bench) -> None:
    void = copy.deepcopy(run.data)
    for sample in void["samples"]:
        sample["void"] = "somebody compiled"
    text = render_run_report(void)
    assert text.startswith("No round counts, and this proves nothing. Every figure below is of discarded rounds.\n")
    assert "speed       32.1 tokens/s (decode of 1 stream; kept; stock 24.7; discarded, and proves nothing)" in text
    assert "\nFigures, discarded: they prove nothing:\n" in text


def test_a_run_without_enough_time_says_so_first(run: Bench) -> None:
    short = copy.deepcopy(run.data)
    shortage = "Not enough time for governor: about 30 more minutes probably settle it."
    short["remarks"] += ["The server was warm.", shortage]
    lines = render_run_report(short).splitlines()
    assert lines[0] == shortage
    assert lines[1].startswith("Ablation of chat: 30 % faster") and lines.count(lines[0]) == 1
    assert "The server was warm." in lines


def test_before_the_confirmation_there_is_no_headline() -> None:
    bench = Bench(11, {"threads": 0.3})
    start = "Ablation of chat: not confirmed: 0 of 10 fresh rounds of what is kept against stock.\n"
    assert render_run_report(bench.data).startswith(start)
    bench.ablate(10)
    assert render_run_report(bench.data).startswith(start)


def test_a_gain_that_fresh_rounds_do_not_show_is_said_to_be_none() -> None:
    bench = Bench(11, {"threads": 0.0})
    bench.confirm([])
    assert render_run_report(bench.data).startswith("Ablation of chat: no proven gain, ")


def test_a_file_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="name the JSON file of a run"):
        run_document.load_document(str(tmp_path / "absent.json"))
