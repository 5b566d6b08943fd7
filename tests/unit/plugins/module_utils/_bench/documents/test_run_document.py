# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import document_shape, run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.tests.unit.fakes.bench_runs import Bench

Data = dict[str, Any]
#: The first samples of a run that schema 1 recorded.
OLD_RUN = Path(__file__).with_name("ablation_of_schema_1.json.gz")


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
    (
        put("schema", 3),
        r"^it was written by a newer version .*: its format is 3, and .* reads formats up to 2\. .*use ver",
    ),
    (put("schema", "x"), "schema is 'x' and should be"),
    (put("minor", "x"), "minor is 'x' and should be a whole number"),
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
    (put("plan", "arms", 3, "removed", []), "says that the arm without boost leaves out boost"),
    (put("plan", "objective", "speed"), "should be one of latency, throughput, prompt, energy"),
    (put("samples", 0, "within_slo", 1.5), "is 1.5 and should be a number from 0 to 1"),
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
    with pytest.raises(BadRequest, match=f"{sentence}.*(; take the file as the run wrote it)?"):
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
        ("[" * 100_000, r"is no JSON \(it has too many levels\)"),
        ("[]", r"cannot be used as the document of a run: it is \[\] and should be a table"),
        (json.dumps({**run(), "seed": None}), "cannot be used as the document of a run: seed is None"),
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


def test_a_newer_minor_version_may_have_more_keys(tmp_path: Path) -> None:
    data = {**run(), "minor": document_shape.MINOR + 1, "extra": 1}
    data["samples"][0]["more"] = {"a": 1}
    assert run_document.validate_document(data) == data
    data["samples"][0]["predicted_ms"] = 0
    with pytest.raises(BadRequest, match=r"samples\[0\].predicted_ms is 0"):
        run_document.validate_document(data)


def test_a_run_that_began_before_predictions_were_kept_goes_on(tmp_path: Path) -> None:
    old = {**run(), "minor": 0}
    for key in ("predictions", "shortages"):
        del old[key]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(old))
    data = run_document.load_document(str(path))
    assert (data["predictions"], data["minor"]) == ([], document_shape.MINOR)
    data["remarks"].append("It goes on.")
    run_document.save_document(str(path), data)
    assert run_document.load_document(str(path)) == data


def old_ablation() -> Data:
    """Return the text of a run that schema 1 recorded."""
    return dict(json.loads(gzip.decompress(OLD_RUN.read_bytes())))


def test_a_compressed_run_of_schema_1_is_read(tmp_path: Path) -> None:
    old = old_ablation()
    assert old["schema"] == 1
    data = run_document.load_document(str(OLD_RUN))
    assert (data["schema"], data["minor"], data["collection"]) == (2, document_shape.MINOR, None)
    assert data["plan"]["zone"] == old["plan"]["zone"] and data["plan"]["objectives"] == ["latency"]
    assert {arm["name"]: arm["removed"] for arm in data["plan"]["arms"]} == {
        "stock": ["speculation"],
        "tuned": [],
        "again": [],
        "without speculation": ["speculation"],
    }
    for before, after in zip(old["samples"], data["samples"]):
        assert (after["predicted_n"], after["predicted_ms"]) == (before["predicted_n"], before["predicted_ms"])
        assert after["output_n"] == before["predicted_n"] and after["ttfts_ms"] == [before["ttft_ms"]]
        # The server computes for most of the time that the client waits.
        assert after["output_ms"] == pytest.approx(before["prompt_ms"] + before["predicted_ms"], rel=0.1)
    assert run_document.validate_document(data) == data
    path = tmp_path / "run.json"
    path.write_text(json.dumps(old))
    data["remarks"].append("It goes on after an update of the collection.")
    run_document.save_document(str(path), data)
    assert run_document.load_document(str(path)) == data


def test_a_window_of_schema_1_has_no_decoding_times() -> None:
    old = old_ablation()
    old["samples"][0].update(streams=4, predicted_n=50, predicted_ms=1000.0)
    (sample, *dummy) = run_document.validate_document(old)["samples"]
    assert (sample["predicted_n"], sample["predicted_ms"]) == (None, None)
    assert (sample["output_n"], sample["output_ms"], sample["ttfts_ms"]) == (50, 1000.0, [])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda data: data["samples"][0].pop("predicted_n"), r"samples\[0\].predicted_n is missing"),
        (put("samples", 0, "output_n", 5), r"samples\[0\].output_n is nothing that this version"),
        (lambda data: data.pop("plan"), "plan is missing"),
    ],
)
def test_a_run_that_schema_1_did_not_write_is_refused(change: Callable[[Data], None], sentence: str) -> None:
    old = old_ablation()
    change(old)
    with pytest.raises(BadRequest, match=sentence):
        run_document.validate_document(old)


def test_a_broken_compressed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.json.gz"
    path.write_bytes(OLD_RUN.read_bytes()[:200])
    with pytest.raises(BadRequest, match=r"run\.json\.gz is no JSON"):
        run_document.load_document(str(path))
    path.write_bytes(b"\x1f\x8bxx")
    with pytest.raises(BadRequest, match=r"run\.json\.gz cannot be decompressed .*: copy the file again"):
        run_document.load_document(str(path))
