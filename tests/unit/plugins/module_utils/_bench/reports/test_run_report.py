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
    known = {"sku": "AMD EPYC 9354", "nps": "NPS4", "kernel": "6.12", "arguments": ["server", "--model", "/m/7B.gguf"]}
    bench.data["fingerprint"].update(known)
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
    assert re.fullmatch(
        r"Ablation of chat: 30 % faster than stock \(\d\d to \d\d %\); 1 of 3 settings pays\.", lines[0]
    )
    assert max(map(len, lines)) <= 100 and text.isascii() and text.endswith("\n")
    rows = {line.split()[0]: line for line in section_lines(text, "What each setting does")[1:5]}
    assert list(rows) == ["threads", "governor", "boost", "isolation"], "the best first, then what has no interval"
    words = {name: re.split("  +", line)[2] for name, line in rows.items()}
    assert words == {"threads": "pays", "governor": "nothing", "boost": "hurts", "isolation": "not tested"}
    assert (
        section_lines(text, "Discarded rounds")[1] == "  round 3 The hypervisor took 2.0% of the CPU time, above 0.5%."
    )
    by_metric = section_lines(text, "By metric")
    assert "output with 4 streams" in by_metric[0] and re.match(
        r"  threads  1\.30 \(1\.2\d to 1\.3\d\)\+", by_metric[1]
    )
    assert "  isolation: it needs a reboot, and reboots are not allowed" in lines
    assert any(line.startswith("  kept over tuned  1.0") for line in lines)


def test_what_is_seen_first(run: Bench) -> None:
    """Host, model, speed and the change stand before the first table, and each is said once."""
    text = render_run_report(run.data)
    first = text.partition("What each setting does")[0].splitlines()
    assert first[2:5] == [
        "host        AMD EPYC 9354, NPS4, Linux 6.12",
        "model       7B.gguf",
        "objective   latency: decoding of one stream",
    ]
    assert re.fullmatch(r"speed       32\.\d tokens/s \(decode of 1 stream; kept; stock 24\.\d\)", first[5])
    assert re.fullmatch(r"throughput  6\d\.\d tokens/s \(output of 4 streams; kept; stock 4\d\.\d\)", first[6])
    at = first.index("boost does not pay: remove these lines from host_vars or group_vars, and run site.yml.")
    assert first[at + 1] == "  -# sysfs:boost"
    assert text.count("does not pay") == 1
    assert text.splitlines()[-2:] == [
        "- After the change, measure what the instance does now.",
        "    ansible-playbook playbooks/benchmark.yml",
    ]


@pytest.fixture(scope="module")
def by_objective() -> Bench:
    """A run in which a setting gains prefill only, and another one gains with four streams and costs with one."""
    effects = {"ubatch": 0.0, "partition": -0.04}
    by_metric = {("ubatch", "prefill"): 0.4, ("partition", "4"): 0.3, ("partition", "prefill"): 0.0}
    bench = Bench(7, effects, noise=0.003, streams=(1, 4), by_metric=by_metric)
    bench.data["plan"].update(objectives=["latency", "throughput", "prompt"])
    for dummy in range(14):
        bench.round([arm["name"] for arm in bench.data["plan"]["arms"]])
    bench.confirm([])
    return bench


def test_each_objective_has_its_column_and_a_mixed_setting_is_not_taken_out(by_objective: Bench) -> None:
    text = render_run_report(by_objective.data)
    lines = section_lines(text, "What each setting does")
    assert any(line.split() == ["setting", "throughput", "prompt"] for line in lines), lines
    words = {line.split()[0]: line.split()[1] for line in lines[1:3]}
    assert words == {"ubatch": "pays", "partition": "mixed"}
    beside = {line.split()[0]: line for line in lines[5:8]}
    assert re.search(r"1\.40 \(1\.\d+ to 1\.\d+\)\+", beside["ubatch"]), beside
    assert re.search(r"1\.30 \(1\.\d+ to 1\.\d+\)\+", beside["partition"]), beside
    flat = " ".join(text.split())
    assert "Change nothing: no setting was proven to hurt without a gain. Decide on partition by what you serve" in flat
    assert "partition: latency" not in flat, "the ratios stand in the table"


def test_what_is_kept_is_said_to_be_worse_than_tuned_before_all_else(by_objective: Bench) -> None:
    worse = copy.deepcopy(by_objective)
    worse.data["plan"]["order"] = [row for row in worse.data["plan"]["order"] if row["phase"] != "confirmation"]
    last = len(worse.data["plan"]["order"])
    worse.data["samples"] = [sample for sample in worse.data["samples"] if sample["round"] <= last]
    worse.data["plan"]["arms"] = [arm for arm in worse.data["plan"]["arms"] if arm["name"] != "kept"]
    worse.confirm(["partition"])
    first = render_run_report(worse.data).splitlines()[0]
    assert first.startswith("What is kept is worse than what is tuned in output with 4 streams: 23 % fewer tokens"), (
        first
    )


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
    assert words["threads"] == "mixed" and words["boost"] == "hurts", "threads still pay with 4 streams"
    for sample in altered["samples"]:
        if sample["arm"] == "stock":
            sample["predicted_ms"] /= 1.3 * 1.1
    first = render_run_report(altered).splitlines()[0]
    assert first.startswith("Ablation of chat: a loss, 9.") and first.endswith("0 of 3 settings pay.")


def test_a_machine_with_steal_has_no_verdict(run: Bench) -> None:
    assert "pays" in render_run_report(run.data)
    stolen = copy.deepcopy(run.data)
    for sample in stolen["samples"]:
        sample["witness"]["steal"] = 0.02
    text = render_run_report(stolen)
    assert "Ablation of chat: this run is not sound and proves nothing.\nThe hypervisor took 2.0% of the CPU" in text
    assert "pay" not in text and "hurts" not in text and "remove these" not in text


def test_a_run_of_which_no_round_counts_shows_its_figures_as_discarded(run: Bench) -> None:
    void = copy.deepcopy(run.data)
    for sample in void["samples"]:
        sample["void"] = "somebody compiled"
        sample["witness"]["busiest"] = [{"unit": "cc.service", "share": 0.25}, {"unit": "cron.service", "share": 0.01}]
    text = render_run_report(void)
    assert " ".join(text.split()).startswith(
        "No round counts, and this proves nothing. Every figure below is of discarded rounds. The busiest other "
        "programs were cc.service (25.0%) and cron.service (1.0%). "
    )
    assert re.search(r"\nspeed +32\.\d tokens/s \(.*; discarded, and proves nothing\)\n", text)
    assert "\nFigures, discarded: they prove nothing:\n" in text


def test_a_run_without_enough_time_says_so_first(run: Bench) -> None:
    short = copy.deepcopy(run.data)
    shortage = "Not enough time for governor: about 30 more minutes probably settle it."
    short["remarks"].append("The server was warm.")
    short["shortages"].append(shortage)
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
