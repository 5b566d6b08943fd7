# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Threads of an instance that cache-aware scheduling of the kernel has drawn to one L3 domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import CACHE_AWARE
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify.drawn_threads import (
    list_drawn_thread_items,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.instances import instances


def thread(allowed: str, cpu: int, busy: float | None = 0.9, process: int = 100) -> dict[str, Any]:
    """A thread on the small machine, whose L3 domains have four CPUs each."""
    return {"process": process, "allowed": allowed, "l3": cpu // 4, "busy": busy}


def items(root: Path, *threads: dict[str, Any], enabled: int = 1, isolated: str = "") -> list[tuple[str, str]]:
    tree = hosts.small(root)
    tree.put(CACHE_AWARE, enabled)
    tree.put("/sys/devices/system/cpu/isolated", isolated)
    found = list_drawn_thread_items(Host(tree.fs), "chat", {"threads": threads})
    assert all((item.name, item.title) == ("scheduling/chat", "scheduling of chat") for item in found)
    return [(item.verdict, item.sentence) for item in found]


DRAWN = [thread("0-15", 8), thread("0-15", 9), thread("0-15", 11)]


def test_threads_that_all_run_in_one_domain_are_wrong(tmp_path: Path) -> None:
    assert items(tmp_path, *DRAWN, thread("0-15", 0, busy=0.1)) == [
        (
            "wrong",
            "3 computing threads ran in L3 domain 2, although they may run in 0-3: cache-aware scheduling of this "
            "kernel draws them together, away from the memory links of the other domains. Switch it off with "
            "epyc_numa_cache_aware_scheduling: false.",
        )
    ]


@pytest.mark.parametrize(
    ("threads", "words"),
    [
        ([thread("8", 8), thread("9", 9)], "no computing thread may move between L3 domains"),
        ([thread("8-11", 8), thread("8-11", 9)], "no computing thread may move between L3 domains"),
        ([thread("0-15", 8), thread("0-15", 0)], "2 computing threads may move between L3 domains, and are spread"),
        # More than a domain has cores are not drawn, so that it is chance where they ran.
        ([*DRAWN, thread("0-15", 10), thread("0-15", 10)], "5 computing threads may move"),
        ([thread("0-15", 8), thread("0-15", 9, process=200)], "2 computing threads may move"),
        ([thread("0-15", 8), thread("0-15", 9, busy=None)], "1 computing threads may move"),
    ],
)
def test_threads_that_the_kernel_leaves_where_they_are(tmp_path: Path, threads: list[Any], words: str) -> None:
    ((verdict, sentence),) = items(tmp_path, *threads)
    assert verdict == "ok" and sentence.startswith("Cache-aware scheduling of the kernel is on, but ")
    assert words in sentence


def test_the_kernel_moves_no_thread_between_isolated_cpus(tmp_path: Path) -> None:
    ((verdict, sentence),) = items(tmp_path, *DRAWN, isolated="4-15")
    assert verdict == "ok" and "no computing thread may move" in sentence


def test_where_it_is_switched_off_nothing_is_said(tmp_path: Path) -> None:
    assert items(tmp_path, *DRAWN, enabled=0) == []


def test_the_item_is_one_of_the_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with instances(tmp_path, monkeypatch) as here:
        here.planned()
        assert "scheduling/chat" not in here.check()[0]
        here.service.tree.put(CACHE_AWARE, 1)
        assert here.check()[0]["scheduling/chat"][0] == "ok"


def test_without_a_proof_nothing_is_said(tmp_path: Path) -> None:
    tree = hosts.small(tmp_path)
    tree.put(CACHE_AWARE, 1)
    assert list_drawn_thread_items(Host(tree.fs), "chat", "it does not serve.") == []
