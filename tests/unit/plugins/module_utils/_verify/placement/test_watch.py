# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What may be asked about a service, and when there is no answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import page_cache
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs
from ansible_collections.sovereign.epyc.tests.unit.fakes.services import (
    UNIT,
    Service,
    one_waits_two_compute,
)


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return one_waits_two_compute(tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cpus": "draft"}, "The plan gives the role draft no CPU"),
        ({"busy_cpus": "99"}, "CPU 99 is not on this host"),
        ({"nodes": "7"}, "there is no node 7 with memory"),
        ({"interleaved": True}, "interleaved needs nodes: say over which nodes"),
        ({"rows": {"/m.gguf": 8}}, "rows needs nodes, from 0 without holes"),
        ({"rows": {"/m.gguf": 8}, "nodes": "1"}, "rows needs nodes, from 0 without holes"),
        ({"rows": {"/m.gguf": 0}, "nodes": "0-1"}, "/m.gguf cannot be read by 0 threads"),
        ({"rows": {"/m.gguf": "all"}, "nodes": "0-1"}, "rows./m.gguf: 'all' is no whole number"),
        ({"percent": 0}, "percent: 0 is no share"),
        ({"percent": "many"}, "percent: 'many' is no whole number"),
        ({"hugepages": {"thp": "much"}}, "hugepages.thp: 'much' is no amount of memory"),
        ({"hugepages": {"big": "1GiB"}}, "there is no kind 'big'; say one of hugetlb, thp"),
        ({"window": -1}, "window: -1 is no length of time"),
        ({"service": "gone.service"}, "The unit gone.service has no control group"),
        ({"service": "4711"}, "There is no process 4711"),
    ],
)
def test_questions_that_make_no_sense_are_refused(service: Service, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        service.prove(**options)


def test_a_service_that_ends_is_no_service_without_fault(service: Service) -> None:
    service.in_window = [lambda: service.tree.put(f"{UNIT}/cgroup.procs", "")]
    with pytest.raises(BadRequest, match=r"llama\.service has no threads"):
        service.prove(window=2, cpus="all")


def test_nothing_asked_is_nothing_wrong(service: Service) -> None:
    result = service.prove(hugepages={"thp": None})
    assert result["verdicts"] == [] and result["clean"]


def test_rows_of_a_model_that_cannot_be_seen_are_unknown(service: Service, tmp_path: Path) -> None:
    found = service.prove(nodes="0-1", rows={f"{tmp_path}/none.gguf": 8})
    (verdict,) = [row for row in found["verdicts"] if row["name"] == "rows"]
    assert verdict["verdict"] == "unknown" and "cannot be read" in verdict["sentence"]
    assert found["rows"] == {f"{tmp_path}/none.gguf": None} and not found["clean"]


def test_rows_that_lie_elsewhere_are_drift(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.gguf"
    size = 4096 // 32 * 34 * 1024
    tensors = [ggufs.tensor("output.weight", (4096, 1024), 8, 0)]
    path.write_bytes(ggufs.gguf(ggufs.model(block_count=1), tensors, size))
    for nodes, verdict in (({}, "unknown"), (dict.fromkeys(range(2000), 1), "drift")):
        monkeypatch.setattr(page_cache, "read_nodes_of_cached_pages", lambda dummy, pages, nodes=nodes: nodes)
        found = service.prove(nodes="0-1", rows={str(path): 8})
        (row,) = [row for row in found["verdicts"] if row["name"] == "rows"]
        assert row["verdict"] == verdict
    assert "output.weight with 50" in row["sentence"] and found["rows"][str(path)]["local"] == 50.0
