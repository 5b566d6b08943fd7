# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two runs beside each other, and the arms of one: what differs, what is a loss, and what proves nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench import command_line
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.compare.comparison_report import (
    render_comparison_report,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.compare.run_comparison import RunComparison
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import Bench
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents

Change = Callable[[dict[str, Any]], None]


def changed(change: Change = lambda sample: None, rounds: int = 6, **fingerprint: Any) -> dict[str, Any]:
    """Return a benchmark of which each sample is changed."""
    document = bench_documents.benchmark(rounds)
    for sample in document["samples"]:
        change(sample)
    document["fingerprint"].update(fingerprint)
    return run_document.validate_document(document)


def slower(factor: float, field: str = "predicted_ms") -> Change:
    def change(sample: dict[str, Any]) -> None:
        if sample["streams"] == 1:
            sample[field] *= factor

    return change


def with_variants(steal: float = 0.0) -> dict[str, Any]:
    """Return an ablation whose arms are other builds: as fast as without settings that make it 1.3 and 0.94 faster."""
    bench = Bench(11, {"threads": 0.3, "boost": -0.06, "governor": 0.0}, unit=schedule.RESTART, noise=0.004)
    bench.spoil = lambda sample: sample["witness"].update(steal=steal)
    for dummy in range(12):
        bench.round([arm["name"] for arm in bench.data["plan"]["arms"]])
    text = json.dumps(bench.data)
    for setting in ("threads", "boost", "governor"):
        text = text.replace(f"without {setting}", f"variant {setting}")
    document = json.loads(text)
    for arm in document["plan"]["arms"]:
        if arm["without"]:
            arm.update(without=None, removed=[], settings={}, options={"binary": arm["name"]})
    document["fingerprint"]["engine_build"] = "b11434-abc"
    return run_document.validate_document(document)


def compare(*documents: dict[str, Any]) -> tuple[RunComparison, dict[str, str], str]:
    """Return the comparison, the word of each figure by its name, and the report without its line breaks."""
    compared = RunComparison(documents, ["old", "new", "newer"][: len(documents)])
    report = render_comparison_report(compared)
    assert all(len(line) <= 100 for line in report.splitlines())
    assert report.startswith("Comparison: ")
    report = report[len("Comparison: ") :]
    return compared, {figure.name: figure.word for figure in compared.figures}, " ".join(report.split())


def test_equal_runs_have_no_loss_and_are_not_paired() -> None:
    compared, words, report = compare(changed(), changed())
    assert compared.exit_code == 0 and set(words.values()) == {"no clear difference"}
    assert set(words) == {
        "decode",
        "prefill",
        "first token",
        "output, 1 stream",
        "output, 2 streams",
        "output, 4 streams",
    }
    assert "Nothing that is known differs" in report and "not paired" in report and "epyc_ablation_arms" in report
    assert not any(figure.is_paired for figure in compared.figures)


def test_a_run_that_is_far_slower_in_every_round_is_a_clear_loss() -> None:
    compared, words, report = compare(changed(), changed(slower(1.1)))
    assert compared.exit_code == 2 and words["decode"] == "clear loss" and words["prefill"] == "no clear difference"
    assert report.startswith("Worse: new: decode 0.91 (clear loss).")
    assert compare(changed(slower(1.1)), changed())[1]["decode"] == "clear gain"


def test_a_first_text_that_comes_later_is_a_loss_too() -> None:
    compared, words, dummy = compare(changed(), changed(slower(1.5, "ttft_ms")))
    assert words["first token"] == "clear loss" and compared.exit_code == 2
    (figure,) = (one for one in compared.figures if one.name == "first token")
    assert figure.old and figure.new and figure.new > figure.old and figure.ratio == pytest.approx(1 / 1.5)


def test_depths_second_turns_rates_and_energy_are_compared_too() -> None:
    def add(document: dict[str, Any], factor: float) -> dict[str, Any]:
        for sample in [one for one in document["samples"] if one["streams"] == 1 and one["kind"] == "prose"]:
            deep = {**sample, "depth": 4096, "predicted_ms": sample["predicted_ms"] * factor}
            second = {**sample, "turn": 2, "depth": 200, "ttft_ms": 50.0 * factor}
            arrivals = {**sample, "rate": 0.5, "streams": 4, "within_slo": 0.9 / factor}
            document["samples"] += [deep, second, arrivals]
        for sample in document["samples"]:
            sample["witness"].update(joules=5000.0 * factor, seconds=20.0, tokens=500)
        return run_document.validate_document(document)

    compared, words, dummy = compare(add(changed(), 1.0), add(changed(), 1.2))
    lost = {"decode, depth 4096", "first token, second turn", "within limits, 0.5/s", "tokens per joule"}
    assert {name for name, word in words.items() if word == "clear loss"} == lost and compared.exit_code == 2
    assert words["prefill, depth 4096"] == "no clear difference" == words["decode"]


def test_a_difference_that_another_start_may_make_is_not_clear() -> None:
    """The rounds of both runs lie wholly apart, but by less than starts differ."""
    quiet = changed(lambda sample: sample.update(predicted_ms=3000.0))
    compared, words, dummy = compare(quiet, changed(lambda sample: sample.update(predicted_ms=3000.0 * 1.04)))
    assert words["decode"] == "no clear difference" and compared.exit_code == 0


def test_rounds_that_overlap_are_no_clear_difference() -> None:
    def uneven(sample: dict[str, Any]) -> None:
        if sample["streams"] == 1:
            sample["predicted_ms"] = 3000.0 * (0.95 if sample["round"] == 1 else 1.09)

    words = compare(changed(lambda sample: sample.update(predicted_ms=3000.0)), changed(uneven))[1]
    assert words["decode"] == "no clear difference"


@pytest.mark.parametrize(
    ("new", "word"),
    [
        (changed(slower(1.5), rounds=2), "too few rounds"),
        (changed(slower(1.5), prompts_sha256="0" * 64), "other prompts"),
    ],
)
def test_what_cannot_be_compared_is_no_loss(new: dict[str, Any], word: str) -> None:
    compared, words, report = compare(changed(), new)
    assert set(words.values()) == {word} and compared.exit_code == 1
    assert report.startswith("Nothing could be compared.")


def test_a_run_of_which_no_round_counts_has_nothing_to_compare() -> None:
    compared, words, report = compare(changed(), changed(lambda sample: sample.update(void="somebody else asked")))
    assert words == {} and compared.exit_code == 1 and "in rounds that count" in report


def test_arms_of_one_run_are_paired_and_have_an_interval() -> None:
    compared, dummy, report = compare(with_variants())
    decode = {one.subject: one for one in compared.figures if one.name == "decode"}
    assert {subject: one.word for subject, one in decode.items()} == {
        "threads over b11434": "proven loss",
        "boost over b11434": "proven gain",
        "governor over b11434": "not proven",
    }
    loss = decode["threads over b11434"]
    assert loss.low and loss.high and loss.low < 1 / 1.3 < loss.high and loss.is_paired
    assert compared.exit_code == 2 and "not paired" not in report


def test_a_run_that_is_not_sound_proves_no_loss() -> None:
    compared, words, dummy = compare(with_variants(steal=0.0051))
    assert compared.exit_code == 1 and set(words.values()) <= {"run not sound"}


def test_a_confirmation_and_a_tuning_are_compared_too() -> None:
    subjects = {one.subject for one in compare(bench_documents.ablation())[0].figures}
    assert subjects == {"kept over stock", "tuned over stock", "kept over tuned"}
    assert {one.subject for one in compare(bench_documents.tuning())[0].figures} == {
        "the best candidate over the default"
    }


def test_what_differs_is_named_and_what_is_equal_is_not() -> None:
    old = changed(
        kernel="6.12",
        bios="1.0",
        engine_sha256="a" * 64,
        arguments=["/opt/a", "--threads", "8", "--port", "1", "--mlock"],
        settings={"sysfs:thp": "always", "sysfs:same": "1"},
    )
    new = changed(
        kernel="6.17",
        bios="1.0",
        engine_sha256="b" * 64,
        arguments=["/opt/a", "--threads", "-1", "--port", "2"],
        settings={"sysfs:thp": None, "sysfs:same": "1", "irq:1": ""},
    )
    differences = {one.name: one.values for one in RunComparison([old, new], ["old", "new"]).differences}
    assert differences == {
        "kernel": ["6.12", "6.17"],
        "program files": ["a" * 12, "b" * 12],
        "--threads": ["8", "-1"],
        "--mlock": ["given", "-"],
        "sysfs:thp": ["always", "not known"],
        "irq:1": ["-", "''"],
    }


def test_many_differences_are_counted_and_fit_into_the_report() -> None:
    new = changed(settings={f"sysfs:{'x' * 60}{number}": "y" * 80 for number in range(50)})
    assert "and 10 more" in compare(changed(), new, changed())[2]


def test_the_command_compares_files_of_the_folder_in_which_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, document in (("old.json", changed()), ("new.json", changed(slower(1.1)))):
        run_document.save_document(name, document)
    assert command_line.main(["--compare", "old.json", "new.json"]) == 2
    assert capsys.readouterr().out.startswith("Comparison: Worse: new: decode 0.91 (clear loss).")
    assert command_line.main(["--compare", "new.json", "old.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["headline"] == "No loss is proven or clear."
    assert command_line.main(["--compare", "old.json", "missing.json"]) == 1
    assert "There is no" in capsys.readouterr().err
