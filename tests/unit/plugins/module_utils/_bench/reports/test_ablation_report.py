# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports import ablation_report
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import KINDS, Bench


@pytest.fixture(scope="module")
def run() -> Bench:
    """A run with something of each: a gain, a loss, nothing, a void round, a rejected and an untested setting."""
    bench = Bench(11, {"threads": 0.3, "boost": -0.06, "governor": 0.0}, noise=0.004, kinds=KINDS, streams=(1, 4))
    bench.spoil = lambda sample: sample["witness"].update(steal=0.02 if sample["round"] == 3 else 0.0)
    bench.ablate(14)
    bench.data["plan"]["untested"]["isolation"] = "it needs a reboot, and reboots are not allowed"
    bench.confirm(["boost"])
    return bench


def test_the_report(run: Bench, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    run_document.save_document(str(path), run.data)
    text = ablation_report.render_report_of_any_run(run_document.load_document(str(path)))
    lines = text.splitlines()
    assert lines[0] == "On this host 1 of 3 settings pays; together 1.30 (1.29 to 1.31)"
    assert max(map(len, lines)) <= 100 and text.isascii() and text.endswith("\n")
    rows = {
        line.split()[0]: line for line in lines if line.startswith(("threads ", "boost ", "governor ", "isolation "))
    }
    assert list(rows) == ["threads", "governor", "boost", "isolation"], "the best first, then what has no interval"
    words = {name: line[23:33].strip() for name, line in rows.items()}
    assert words == {"threads": "pays", "governor": "nothing", "boost": "hurts", "isolation": "not tested"}
    assert "  round 3: The hypervisor took 2.0% of the CPU time, above 0.5%." in lines
    assert any(line.startswith("  threads: decode of code 1.30+, decode of prose") for line in lines)
    assert any(line.startswith("isolation: not tested, it needs a reboot") for line in lines)
    assert any(line.startswith("  kept over tuned      1.07") for line in lines)


def test_the_plot_shows_the_interval_where_it_is(run: Bench) -> None:
    rows = [
        line
        for line in ablation_report.render_report_of_any_run(run.data).splitlines()
        if line.startswith(("threads ", "boost "))
    ]
    plots = [row[62:] for row in rows]
    assert plots[0].index("|") < plots[0].index("o") and plots[1].index("o") < plots[1].index("|")


def test_it_takes_nothing_but_the_samples(run: Bench) -> None:
    """Neither the order in which samples stand in the file nor the seed or the clock changes a byte of the verdicts."""
    turned = copy.deepcopy(run.data)
    turned["samples"].reverse()
    assert ablation_report.render_report_of_any_run(turned) == ablation_report.render_report_of_any_run(run.data)


def test_altered_samples_change_the_verdicts(run: Bench) -> None:
    altered = copy.deepcopy(run.data)
    for sample in altered["samples"]:
        if sample["arm"] == "without threads" and sample["streams"] == 1:
            sample["predicted_ms"] /= 1.3 * 1.3
    words = {one.knob: one.word for one in ablation_report.Judgement(altered).verdicts}
    assert words["threads"] == "hurts" and words["boost"] == "hurts"
    for sample in altered["samples"]:
        if sample["arm"] == "stock":
            sample["predicted_ms"] /= 1.3 * 1.1
    assert ablation_report.render_report_of_any_run(altered).startswith(
        "On this host 0 of 3 settings pay; together 0.91 (0.90 to 0.91), a loss\n"
    )


def test_a_machine_with_steal_has_no_verdict(run: Bench) -> None:
    assert "pays" in ablation_report.render_report_of_any_run(run.data)
    stolen = copy.deepcopy(run.data)
    for sample in stolen["samples"]:
        sample["witness"]["steal"] = 0.02
    text = ablation_report.render_report_of_any_run(stolen)
    assert text.startswith("This run is not sound and proves nothing.\nThe hypervisor took 2.0% of the CPU time")
    assert "pay" not in text and "hurts" not in text


def test_before_the_confirmation_there_is_no_headline() -> None:
    bench = Bench(11, {"threads": 0.3})
    assert ablation_report.render_report_of_any_run(bench.data).startswith("Not confirmed: 0 of 10 fresh rounds")
    bench.ablate(10)
    assert ablation_report.render_report_of_any_run(bench.data).startswith(
        "Not confirmed: 0 of 10 fresh rounds of what is kept against stock.\n"
    )


def test_a_gain_that_fresh_rounds_do_not_show_is_said_to_be_none() -> None:
    bench = Bench(11, {"threads": 0.0})
    bench.confirm([])
    assert ablation_report.render_report_of_any_run(bench.data).splitlines()[0].endswith("), no proven gain")


def test_a_file_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="name the JSON file of a run"):
        ablation_report.render_report_of_any_run(run_document.load_document(str(tmp_path / "absent.json")))
