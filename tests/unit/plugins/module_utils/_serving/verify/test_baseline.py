# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The baseline of an instance in the checklist: what has changed since, as a remark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench import benchmark, command_line
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import MeasuringRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.installed import select_instance_and_plan
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import baseline
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.checklist_items import Item
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured, measured

BIOS = "/sys/class/dmi/id/bios_version"
QUICK = {"rounds": 1, "tokens": 8, "kinds": ["prose"], "streams": []}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measured]:
    with measured(tmp_path, monkeypatch) as host:
        host.service.tree.put(BIOS, "1.0")
        yield host


def measure(here: Measured, **options: Any) -> str:
    request = MeasuringRequest({**QUICK, "baseline": True, **options})
    return benchmark.run_benchmark(here.host(), request, lambda line: None)[0]


def items(here: Measured, **plan: Any) -> list[Item]:
    host = here.host()
    planned = select_instance_and_plan("chat", host.fs.root)[1]
    return baseline.list_baseline_items(host, "chat", {**planned, **plan})


def test_a_run_is_a_baseline_where_it_is_asked_for_and_counts(here: Measured) -> None:
    measure(here, baseline=False)
    assert items(here) == []
    here.others = 1e9
    here.before_answer = lambda number: here.counters.update(tokens_predicted_total=number * 1_000_000)
    measure(here, output=str(here.service.tree.root / "void.json"))
    assert items(here) == []


def test_nothing_changed_since(here: Measured) -> None:
    path = measure(here)
    (item,) = items(here)
    assert item.verdict == "ok" and path in item.sentence and item.is_clean


def test_a_change_is_a_remark_and_no_error(here: Measured) -> None:
    path = measure(here)
    here.service.tree.put(BIOS, "2.0")
    (item,) = items(here, programs={"/opt/new": [1, 2]}, files={})
    assert item.is_clean and item.verdict == "not looked at"
    assert item.sentence.startswith("Measured on another BIOS (1.0, now 2.0), build")
    assert ", model: run benchmark.yml, and compare.yml with the baseline " in item.sentence and path in item.sentence


def test_what_is_not_known_has_not_changed(here: Measured) -> None:
    measure(here)
    (Path(here.service.tree.root) / BIOS.lstrip("/")).unlink()
    assert items(here)[0].verdict == "ok"


def test_a_damaged_file_is_no_baseline(here: Measured) -> None:
    measure(here)
    file = Path(Store(here.host().fs.root).file_path(baseline.BASELINES))
    file.write_text('{"instances": {"chat": {"document": 7}}}')
    assert items(here) == []


def test_the_newest_run_is_compared_with_the_baseline(
    here: Measured, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = here.host().fs.root
    monkeypatch.setattr(command_line, "FOLDER", benchmark.Run.__init__.__globals__["FOLDER"])
    monkeypatch.setattr(command_line, "select_instance_and_plan", lambda name: select_instance_and_plan(name, root))
    monkeypatch.setattr(command_line, "load_baseline", lambda dummy, name: baseline.load_baseline(root, name))
    assert command_line.main(["--compare"]) == 1
    assert "chat has no baseline" in capsys.readouterr().err
    first = measure(here, rounds=3)
    assert command_line.main(["chat", "--compare"]) == 1
    assert "no other run of chat than its baseline" in capsys.readouterr().err
    # The second run has the samples of the first, because two runs of a busy machine may differ by chance.
    second = first.replace(".json", "-2.json")
    document = json.loads(Path(first).read_text())
    Path(second).write_text(json.dumps({**document, "id": f"{document['id']}-2"}))
    of_another = {**document, "id": "other", "instance": "chat-2"}
    Path(first.replace("/chat-", "/chat-2-")).write_text(json.dumps(of_another))
    assert command_line.main(["chat", "--compare"]) == 0
    said = capsys.readouterr().out
    assert "chat-2-" not in said
    assert "No loss" in said and Path(first).stem in said and Path(second).stem in said
