# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts on the memory of a service that has several processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes.services import NUMA_MAPS, ROLLUP, UNIT, Service


@pytest.fixture
def service(tmp_path: Path) -> Service:
    """A service of two processes, each of which has 4 MiB in transparent huge pages."""
    service = Service(tmp_path)
    service.thread(100, "0-3", 0)
    service.tree.put(f"{UNIT}/cgroup.procs", "100\n101")
    service.tree.put("/proc/101/numa_maps", NUMA_MAPS.rstrip())
    service.tree.put("/proc/101/smaps_rollup", ROLLUP.rstrip())
    return service


def test_huge_pages_that_two_processes_may_share_count_once(service: Service) -> None:
    assert [memory["hugepages"]["thp"] for memory in service.prove()["memory"]] == [4 << 20, 4 << 20]
    assert service.judge(hugepages={"thp": "4MiB"})[0] == "ok"
    verdict, sentence = service.judge(hugepages={"thp": "5MiB"})
    assert verdict == "drift" and sentence.startswith("Only 4 MiB in transparent huge pages")


def test_interleaved_pages_that_came_from_other_nodes_say_which_node_was_full(service: Service) -> None:
    pages = "7f00 interleave:0-1 anon=1000 dirty=1000 N0=900 N1=100 kernelpagesize_kB=4"
    for process in (100, 101):
        service.tree.put(f"/proc/{process}/numa_maps", pages)
    verdicts = {row["name"]: row for row in service.prove(nodes="0-1", interleaved=True)["verdicts"]}
    anonymous = verdicts["nodes/anonymous"]
    assert anonymous["verdict"] == "drift"
    assert "but not evenly: node 0 90.0 %, node 1 10.0 %. Node 1 had too few free pages" in anonymous["sentence"]
    assert "A restart drops page cache there first." in anonymous["sentence"]
