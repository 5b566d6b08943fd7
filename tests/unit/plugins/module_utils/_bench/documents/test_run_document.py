# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import Bench

Data = dict[str, Any]


def run(rounds: int = 2) -> Data:
    bench = Bench(1, {"boost": 0.05})
    for dummy in range(rounds):
        bench.round(["stock", "tuned", "again", "without boost"])
    return bench.data


def put(*path: Any) -> Callable[[Data], None]:
    """Return what puts the last of a path at the place that the others name."""

    def change(data: Data) -> None:
        place: Any = data
        for key in path[:-2]:
            place = place[key]
        place[path[-2]] = path[-1]

    return change


def more(*path: Any) -> Callable[[Data], None]:
    """Return what adds the last of a path to the list that the others name."""

    def change(data: Data) -> None:
        place: Any = data
        for key in path[:-1]:
            place = place[key]
        place.append(path[-1])

    return change


def test_a_run_goes_to_its_file_and_back(tmp_path: Path) -> None:
    path, data = str(tmp_path / "run.json"), run()
    run_document.save_document(path, data)
    assert run_document.load_document(path) == data
    assert "\n" not in Path(path).read_text()[:-1]


BROKEN = [
    (put("schema", 2), "the schema is 2, and this version of the collection reads 1 only"),
    (lambda data: data.pop("seed"), "seed is missing"),
    (put("seed", -1), "seed is -1 and should be a whole number from 0 up"),
    (put("seed", True), "seed is True and should be a whole number"),
    (put("extra", 1), "extra is nothing that this version of the collection knows"),
    (put("samples", {}), r"samples is {} and should be a list"),
    (put("fingerprint", []), r"fingerprint is \[\] and should be a table"),
    (put("samples", 3, "predicted_ms", 0), r"samples\[3\].predicted_ms is 0 and should be milliseconds above 0"),
    (put("samples", 3, "predicted_ms", float("nan")), r"samples\[3\].predicted_ms is nan"),
    (put("samples", 3, "predicted_ms", 1e300), r"samples\[3\].predicted_ms is 1e\+300"),
    (put("samples", 0, "predicted_n", 1), "should be a whole number from 2 up"),
    (put("samples", 0, "arm", "tuned\x1b[2J"), r"is 'tuned\\x1b\[2J' and should be a name"),
    (put("samples", 0, "void", "a\nb"), "should be a text in one line"),
    (put("samples", 0, "gaps_ms", [1, "2"]), r"samples\[0\].gaps_ms\[1\] is '2' and should be a number from 0 up"),
    (put("samples", 0, "witness", "steal", -0.1), r"witness.steal is -0.1"),
    (put("samples", 0, "accepted", 96), r"samples\[0\].accepted is 96, more than were drafted"),
    (put("samples", 0, "round", 9), r"in round 9, and plan.order has no such arm there"),
    (put("samples", 0, "arm", "kept"), r"samples\[0\] is of kept in round 1, and plan.order has no such arm"),
    (put("plan", "alpha", 1), "plan.alpha is 1 and should be a number between 0 and 1"),
    (put("plan", "order", 0, "class", "now"), r"should be one of live, restart, reboot"),
    (put("plan", "order", 1, "round", 1), r"plan.order\[1\].round is 1 and should be 2"),
    (more("plan", "order", 0, "arms", "tuned"), r"plan.order\[0\].arms names an arm twice"),
    (put("plan", "arms", 2, "name", "tuned"), "plan.arms has no again"),
    (lambda data: data["plan"]["arms"].append(data["plan"]["arms"][3]), "has the arm without boost twice"),
    (put("plan", "arms", 0, "without", "boost"), "has the setting boost twice"),
    (put("plan", "arms", 3, "class", None), "gives without boost the class None"),
    (put("plan", "arms", 3, "without", None), "says that the arm without boost leaves out None"),
    (put("plan", "arms", 1, "without", "smt"), "says that the arm tuned leaves out smt"),
    (
        put("plan", "arms", 2, "name", "running"),
        "has running, which is the only arm of a benchmark, and others",
    ),
]


@pytest.mark.parametrize(("change", "sentence"), BROKEN)
def test_what_no_run_wrote_is_refused_with_its_place(change: Callable[[Data], None], sentence: str) -> None:
    data = run()
    run_document.validate_document(data)
    change(data)
    with pytest.raises(BadRequest, match=f"{sentence}.*; (take the file as the run wrote it|use the version)"):
        run_document.validate_document(data)


def test_a_candidate_has_only_options_of_the_default() -> None:
    data = run()
    renamed = {"stock": "default", "tuned": "candidate 1", "again": "again", "without boost": "candidate 2"}
    for one in data["plan"]["order"]:
        one["arms"] = [renamed[name] for name in one["arms"]]
    for sample in data["samples"]:
        sample["arm"] = renamed[sample["arm"]]
    tried = [schedule.build_candidate_arm(1, {"threads": 96}), schedule.build_candidate_arm(2, {"threads": 64})]
    data["plan"]["arms"] = [*schedule.build_tuning_arms({"threads": 124}), *tried]
    run_document.validate_document(data)
    tried[1]["options"]["ubatch"] = 128
    with pytest.raises(BadRequest, match="gives candidate 2 the option ubatch, which the default has not"):
        run_document.validate_document(data)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", r"is no document of a run: it is \[\] and should be a table"),
        (json.dumps({**run(), "seed": None}), "is no document of a run: seed is None"),
    ],
)
def test_a_file_that_is_no_run(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(BadRequest, match=f"{path} {sentence}"):
        run_document.load_document(str(path))
    with pytest.raises(BadRequest, match=r"There is no .*absent\.json; name the JSON file of a run"):
        run_document.load_document(str(tmp_path / "absent.json"))


def test_a_document_only_grows(tmp_path: Path) -> None:
    path, short, long = str(tmp_path / "run.json"), run(2), run(3)
    run_document.save_document(path, short)
    long["plan"]["rejected"]["boost"] = "it cannot be written"
    long["ended"], long["restored"] = "2026-11-25T01:00:00Z", True
    long["bandwidth"].append({"scope": "all", "cpus": "0-3", "nodes": "0", "gbps": None, "source": "nothing"})
    run_document.save_document(path, long)
    assert run_document.load_document(path) == long
    with pytest.raises(TuningError, match=r"was not written: samples would be other than it holds"):
        run_document.save_document(path, {**long, "samples": short["samples"]})
    assert run_document.load_document(path) == long


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (put("seed", 2), "seed"),
        (put("samples", 0, "predicted_ms", 5000.0), "samples"),
        (put("plan", "alpha", 0.2), "plan.alpha"),
        (put("plan", "arms", 3, "arguments", ["-t 4"]), "plan.arms"),
        (put("plan", "rejected", {}), "plan.rejected"),
        (put("ended", None), "ended"),
        (put("fingerprint", "kernel", "7.0"), "fingerprint"),
    ],
)
def test_written_parts_of_a_document_cannot_change(tmp_path: Path, change: Callable[[Data], None], part: str) -> None:
    path, data = str(tmp_path / "run.json"), run()
    data["plan"]["rejected"]["boost"], data["ended"] = "why", "2026-11-25T01:00:00Z"
    run_document.save_document(path, data)
    changed = copy.deepcopy(data)
    change(changed)
    with pytest.raises(TuningError, match=rf"was not written: {part} would be other than it holds"):
        run_document.save_document(path, changed)
