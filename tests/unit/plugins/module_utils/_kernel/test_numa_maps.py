# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory of a service: how much of which kind lies on which nodes, in pages of which size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Refused
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import numa_maps
from ansible_collections.sovereign.epyc.tests.unit.fakes.services import (
    NUMA_MAPS,
    ROLLUP,
    UNIT,
    Service,
    one_waits_two_compute,
)

MIB = 1 << 20


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return one_waits_two_compute(tmp_path)


def test_memory_by_kind(service: Service) -> None:
    (memory,) = service.prove()["memory"]
    assert memory["weights"] == {
        "bytes": 4 * MIB,
        "nodes": {"0": 2 * MIB, "1": 2 * MIB},
        "page_sizes": {"4kB": 4 * MIB},
        "files": ["/srv/my models/model.gguf"],
        "policies": ["bind:0-1"],
    }
    assert memory["anonymous"]["nodes"] == {"0": MIB // 2 + 8192, "1": MIB // 2 + 6 * MIB}
    assert memory["anonymous"]["page_sizes"] == {"4kB": MIB + 8192, "2048kB": 6 * MIB}
    assert memory["other"]["nodes"] == {"0": 40 << 10, "3": 80 << 10}
    assert memory["hugepages"] == {"hugetlb": 6 * MIB, "thp": 4 * MIB, "thp_shmem": 0, "thp_file": 2 * MIB}
    assert (memory["resident"], memory["swapped"], memory["locked"]) == (8 * MIB, 12 << 10, 0)


@pytest.mark.parametrize(
    ("options", "weights", "anonymous"),
    [
        ({"nodes": "0-1"}, "ok", "ok"),
        ({"nodes": "all"}, "ok", "ok"),
        ({"nodes": "1"}, "drift", "drift"),
        ({"nodes": "1", "percent": 50}, "ok", "ok"),
        ({"nodes": "1", "percent": 92}, "drift", "ok"),
        ({"nodes": "0-1", "interleaved": True}, "ok", "ok"),
        ({"nodes": "0-2", "interleaved": True}, "drift", "ok"),
        ({"nodes": "0-1", "model": ["/srv/other.gguf"]}, "unknown", "ok"),
        ({"nodes": "0-1", "model": ["/srv/other.gguf"], "interleaved": True}, "unknown", "drift"),
    ],
)
def test_nodes(service: Service, options: dict[str, Any], weights: str, anonymous: str) -> None:
    result = service.prove(**options)
    assert [(row["name"], row["verdict"]) for row in result["verdicts"]] == [
        ("nodes/weights", weights),
        ("nodes/anonymous", anonymous),
    ], result["verdicts"]
    assert result["clean"] == (weights == anonymous == "ok")


def test_the_share_of_each_node_is_said(service: Service) -> None:
    first, second = (row["sentence"] for row in service.prove(nodes="1-2")["verdicts"])
    assert first == (
        "Only 50.0 % of the mapped weights (4 MiB) lies on nodes 1-2, requested are 99 %: "
        "node 0 50.0 %, node 1 50.0 %, node 2 0.0 %."
    )
    assert second.startswith("Only 92.8 % of anonymous memory")


def test_a_model_that_nobody_has_read_yet(service: Service) -> None:
    service.tree.put("/proc/100/numa_maps", "7f0000000000 default file=/srv/model.gguf")
    verdicts = service.prove(nodes="0")["verdicts"]
    assert [row["verdict"] for row in verdicts] == ["unknown", "unknown"]
    assert "no page of it was read yet" in verdicts[0]["sentence"]


def test_a_model_that_was_replaced_on_disk_is_still_the_model(service: Service) -> None:
    line = "7f0000000000 default file=/srv/model.gguf\\040(deleted) mapped=2 N0=2 kernelpagesize_kB=4"
    service.tree.put("/proc/100/numa_maps", line)
    (memory,) = service.prove(model=["/srv/model.gguf"])["memory"]
    assert memory["weights"]["files"] == ["/srv/model.gguf (deleted)"] and memory["weights"]["bytes"] == 8192


@pytest.mark.parametrize(
    ("kind", "amount", "verdict"),
    [
        ("hugetlb", "6MiB", "ok"),
        ("hugetlb", "8MiB", "drift"),
        ("thp", "4MiB", "ok"),
        ("thp_file", "2MiB", "ok"),
        ("thp_shmem", "2MiB", "drift"),
    ],
)
def test_huge_pages(service: Service, kind: str, amount: str, verdict: str) -> None:
    found, sentence = service.judge(hugepages={kind: amount})
    assert found == verdict and sentence.startswith("Only ") == (verdict == "drift")


def test_what_two_processes_share_counts_once(service: Service) -> None:
    service.tree.put(f"{UNIT}/cgroup.procs", "100\n200")
    service.tree.put("/proc/200/numa_maps", NUMA_MAPS.rstrip())
    service.tree.put("/proc/200/smaps_rollup", ROLLUP.rstrip())
    assert service.judge(hugepages={"hugetlb": "12MiB"})[0] == "drift"
    assert [row["process"] for row in service.prove()["memory"]] == [100, 200]


def test_memory_that_cannot_be_read_is_unknown(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, limit: int = 0) -> str:
        if path.startswith("/proc/100/") and "/task/" not in path:
            raise Refused(f"Cannot read {path}: Permission denied.", 13, path)
        return read(path)

    read = service.tree.fs.read
    monkeypatch.setattr(service.tree.fs, "read", refuse)
    result = service.prove(nodes="0", hugepages={"thp": "1GiB"})
    assert {row["verdict"] for row in result["verdicts"]} == {"unknown"} and not result["clean"]
    assert all("Only root may read it." in row["sentence"] for row in result["verdicts"])
    assert len(result["missing"]) == 3, "resctrl is not mounted either"
    assert result["memory"][0]["weights"] is result["memory"][0]["hugepages"] is None


def test_a_kernel_without_the_files_is_no_kernel_without_huge_pages(service: Service) -> None:
    service.tree.drop("/proc/100/numa_maps")
    service.tree.put("/proc/100/smaps_rollup", ROLLUP.replace("FilePmdMapped", "Nothing").rstrip())
    rows = service.prove(nodes="0", hugepages={"hugetlb": "1GiB"})["verdicts"]
    assert {row["verdict"] for row in rows} == {"unknown"}
    assert "does not have the file" in rows[0]["sentence"] and "counts no FilePmdMapped" in rows[2]["sentence"]


@pytest.mark.parametrize(
    ("escaped", "path"),
    [
        ("/a\\040b", "/a b"),
        ("/a\\134040", "/a\\040"),
        ("/\\303\\244", "/ä"),
        ("/a\\9", "/a\\9"),
        ("/a\\", "/a\\"),
        ("", ""),
    ],
)
def test_paths_as_the_kernel_writes_them(escaped: str, path: str) -> None:
    assert numa_maps.unescape_path(escaped) == path
