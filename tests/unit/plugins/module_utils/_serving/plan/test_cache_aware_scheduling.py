# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which threads the kernel draws to one L3 domain, and what a plan says of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Refused
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import CACHE_AWARE
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan import cache_aware_scheduling
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import Able, models_in, planned

BALANCING = "/proc/sys/kernel/numa_balancing"


def most(tree: hosts.Host) -> int:
    return cache_aware_scheduling.max_threads_drawn_together(Host(tree.fs))


@pytest.mark.parametrize(("smt", "threads"), [(False, 4), (True, 4)])
def test_more_threads_than_a_domain_has_cores_are_not_drawn(tmp_path: Path, smt: bool, threads: int) -> None:
    """Domains of four cores: the kernel counts a thread as all threads of its core."""
    tree = hosts.small(tmp_path, smt=smt)
    tree.put(CACHE_AWARE, 1)
    assert most(tree) == threads


@pytest.mark.parametrize(("tolerance", "threads"), [(0, 0), (1, 4), (2, 7), (99, 317), (100, 16)])
def test_the_tolerance_multiplies_a_domain(tmp_path: Path, tolerance: int, threads: int) -> None:
    tree = hosts.small(tmp_path)
    tree.put(CACHE_AWARE, 1)
    tree.put(cache_aware_scheduling.TOLERANCE, tolerance)
    assert most(tree) == threads


@pytest.mark.parametrize(
    ("enabled", "balancing", "threads"), [(0, 0, 0), (1, 0, 4), (1, 2, 4), (1, 1, 0), (None, 0, 0)]
)
def test_it_draws_models_only_without_numa_balancing(
    tmp_path: Path, enabled: int | None, balancing: int, threads: int
) -> None:
    tree = hosts.small(tmp_path)
    tree.put(BALANCING, balancing)
    if enabled is not None:
        tree.put(CACHE_AWARE, enabled)
    assert most(tree) == threads


def test_what_nobody_may_read_draws_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = hosts.small(tmp_path)

    tree.put(CACHE_AWARE, 1)
    host, really = Host(tree.fs), tree.fs.read_if_present

    def read_if_present(path: str) -> str | None:
        if path == CACHE_AWARE:
            raise Refused(f"cannot read {path}: Operation not permitted", 1, path)
        return really(path)

    assert cache_aware_scheduling.max_threads_drawn_together(host) == 4
    monkeypatch.setattr(tree.fs, "read_if_present", read_if_present)
    assert cache_aware_scheduling.max_threads_drawn_together(host) == 0


@pytest.mark.parametrize(
    ("able", "told"), [(Able(can_pin_threads=False, openmp=False), True), (Able(openmp=False), False)]
)
def test_the_plan_of_an_instance_tells_it_where_threads_are_not_pinned(tmp_path: Path, able: Able, told: bool) -> None:
    tree = hosts.small(tmp_path / "host")
    tree.put(CACHE_AWARE, 1)
    (tmp_path / "models").mkdir()
    plan = planned(Host(tree.fs), models_in(tmp_path / "models"), able, threads=3, threads_batch=3)
    assert any("draws the 3 threads" in remark for remark in plan.remarks) == told


@pytest.mark.parametrize(
    ("cpus", "threads", "told"),
    [(range(16), 3, True), (range(16), 5, False), (range(16), 1, False), (range(4), 3, False)],
)
def test_a_plan_tells_of_threads_that_lose_their_spread(tmp_path: Path, cpus: range, threads: int, told: bool) -> None:
    tree = hosts.small(tmp_path)
    tree.put(CACHE_AWARE, 1)
    remarks = cache_aware_scheduling.drawn_threads_remarks(Host(tree.fs), cpus, threads)
    assert len(remarks) == told
    if told:
        assert "draws the 3 threads, which are not pinned one by one, to one of the L3 domains 0-3" in remarks[0]
