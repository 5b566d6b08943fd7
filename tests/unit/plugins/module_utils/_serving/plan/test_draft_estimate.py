# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cost of speculation, against the table that was computed when its numbers were measured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._host.memory_speed import save_measured_speed
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._models.token_cost import TokenWork
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan import draft_estimate, speculation_plan
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.draft_estimate import ComputeResources
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

#: Llama 3.1 70B and Llama 3.2 1B, both Q4_K_M.
LARGE = TokenWork(42.5e9, 70e9)
SMALL = TokenWork(0.81e9, 1.2e9)
#: Cores and GB/s, tokens per second without a draft, and with the best and with twelve tokens by acceptance.
TABLE = {
    "9754": (128, 345, 8.1, {0.6: 16.6, 0.7: 20.5, 0.8: 25.8, 0.9: 38.6}, {0.7: 16.8, 0.8: 24.0}),
    "9754 of slower memory": (128, 280, 6.6, {0.6: 13.7, 0.7: 17.1, 0.8: 23.2, 0.9: 37.2}, {0.7: 16.0, 0.8: 23.0}),
    "9654": (96, 300, 7.1, {0.6: 14.7, 0.7: 18.2, 0.8: 22.8, 0.9: 33.3}, {0.7: 14.3, 0.8: 20.5}),
    "9354": (32, 300, 7.1, {0.6: 9.3, 0.7: 9.9, 0.8: 10.7, 0.9: 14.5}, {0.7: 6.1, 0.8: 8.7}),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_table_comes_out(name: str) -> None:
    cores, bandwidth, plain, best, twelve = TABLE[name]
    box = ComputeResources(cores, bandwidth * 1e9)
    for acceptance, expected in best.items():
        found = draft_estimate.estimate_best_draft_length(LARGE, SMALL, box, box, acceptance)
        assert found.rate_without_draft == pytest.approx(plain, rel=0.02)
        assert found.rate == pytest.approx(expected, rel=0.05 if acceptance < 0.8 else 0.16)
    for acceptance, expected in twelve.items():
        assert draft_estimate.estimate_tokens_per_second(LARGE, SMALL, box, box, 12, acceptance) == pytest.approx(
            expected, rel=0.2
        )


def test_a_draft_with_cpus_of_its_own_is_held_against_the_model_on_all_of_them() -> None:
    """On half of a host that waits for memory it gains nothing over the whole host, whatever it gains over the half."""
    half, whole = ComputeResources(32, 100e9), ComputeResources(64, 400e9)
    assert draft_estimate.estimate_best_draft_length(LARGE, SMALL, half, half).draft_max > 0
    found = draft_estimate.estimate_best_draft_length(LARGE, SMALL, half, half, resources_without_draft=whole)
    assert found.draft_max == 0 and found.rate_without_draft == draft_estimate.estimate_tokens_per_second(
        LARGE, SMALL, whole, half, 0
    )


@pytest.mark.parametrize(
    ("name", "drafted", "p_min"),
    [("9754", 6, 0.41), ("9654", 5, 0.27), ("9354", 1, 0.28), ("two 7543", 4, 0.21), ("9655", 4, 0.19)],
)
def test_where_each_machine_begins(name: str, drafted: int, p_min: float) -> None:
    top = hosts.standing(name).topology()
    box = draft_estimate.count_cores_and_bandwidth(top, top.online, [node.id for node in top.nodes])
    found = draft_estimate.estimate_best_draft_length(LARGE, SMALL, box, box)
    assert (
        found.draft_max,
        draft_estimate.least_token_probability_worth_drafting(LARGE, SMALL, box, box, drafted),
    ) == (
        drafted,
        p_min,
    )
    assert found.rate >= 1.1 * found.rate_without_draft


@pytest.mark.parametrize(
    ("name", "nodes", "cores", "bandwidth"),
    [
        ("9754", 4, 128, 0.65 * 460.8),
        ("9754", 1, 32, 0.65 * 460.8 / 4),
        ("two 7543", 1, 32, 0.65 * 204.8),
        ("two 7543", 2, 64, 0.65 * 409.6),
        ("9655", 1, 96, 0.65 * 576),
    ],
)
def test_what_some_cpus_reach(name: str, nodes: int, cores: int, bandwidth: float) -> None:
    top = hosts.standing(name).topology()
    mine = [cpu for node in top.nodes[:nodes] for cpu in node.cpus]
    box = draft_estimate.count_cores_and_bandwidth(top, mine, range(nodes))
    assert (box.cores, box.bandwidth) == (cores, pytest.approx(bandwidth * 1e9))


def test_what_was_measured_replaces_the_table_but_not_the_link_of_a_ccd() -> None:
    top = hosts.standing("9754").topology()
    assert draft_estimate.count_cores_and_bandwidth(top, top.online, [0, 1, 2, 3], 280.0).bandwidth == 280e9
    assert draft_estimate.count_cores_and_bandwidth(top, range(16), [0], 280.0).bandwidth == 57.6e9


def test_the_memory_of_an_unknown_cpu_is_assumed(tmp_path: Path) -> None:
    unknown = hosts.small(tmp_path / "unknown", family=99).topology()
    assert draft_estimate.count_cores_and_bandwidth(unknown, unknown.online, [0, 1, 2, 3]).bandwidth == pytest.approx(
        65e9
    )


def test_a_draft_that_loses() -> None:
    box = ComputeResources(2, 30e9)
    assert draft_estimate.estimate_best_draft_length(LARGE, SMALL, box, box).draft_max == 0
    large = ComputeResources(128, 345e9)
    assert draft_estimate.estimate_best_draft_length(LARGE, LARGE, large, large).draft_max == 0


def test_experts_make_a_batch_dearer() -> None:
    """Eight of 128 experts for one token; the more tokens, the more of them are read."""
    moe = TokenWork(5e9, 8e9, 100e9, 160e9, 128, 8)
    assert moe.bytes_read_by_batch(1) == pytest.approx(5e9 + 100e9 * 8 / 128)
    assert moe.bytes_read_by_batch(6) > 3 * moe.bytes_read_by_batch(1)
    assert moe.bytes_read_by_batch(1000) == pytest.approx(105e9)
    assert moe.parameters_per_token == 8e9 + 10e9
    box = ComputeResources(128, 345e9)
    assert draft_estimate.estimate_best_draft_length(moe, SMALL, box, box).draft_max == 0


@given(tokens=st.integers(1, 100))
def test_a_longer_batch_never_costs_less(tokens: int) -> None:
    assert draft_estimate.one_core_batch_milliseconds(tokens + 1) >= draft_estimate.one_core_batch_milliseconds(tokens)


@pytest.mark.parametrize(("tokens", "cost"), [(1, 14.5), (3, 36.3), (8, 79.0), (32, 163.0), (64, 326.0)])
def test_the_cost_of_a_batch(tokens: int, cost: float) -> None:
    assert draft_estimate.one_core_batch_milliseconds(tokens) == pytest.approx(cost)


def test_what_was_measured_on_the_host_counts_for_its_draft(tmp_path: Path) -> None:
    """Decoding reaches a share of it; a slow host gets a longer draft, because reading the weights takes longer."""
    host = hosts.small(tmp_path)
    options: Any = SimpleNamespace(bandwidth=None)
    assert speculation_plan._measured_gbps(options, Host(host.fs), [0]) is None
    save_measured_speed(Host(host.fs), Store(str(tmp_path)), dict.fromkeys(range(4), 20.0), 77.0)
    known = Host(host.fs)
    found = [speculation_plan._measured_gbps(options, known, nodes) for nodes in ([0], [0, 1, 2, 3], [])]
    assert found == [pytest.approx(13.0), pytest.approx(50.05), None]
    options.bandwidth = 30
    assert speculation_plan._measured_gbps(options, known, [0]) == 30.0
