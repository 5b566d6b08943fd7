# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is recommended for several models on one host: its CPUs and its memory are shared, or it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend import recommend as recommending
from ansible_collections.sovereign.epyc.tests.unit.fakes.recommendations import (
    free_all_ports,
    instances,
    recommended,
    refused,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.sized_hosts import (
    MEMORY,
    check_text,
    check_variables,
    planned_as_site_would,
    sized,
)


@pytest.fixture(autouse=True)
def all_ports_free(monkeypatch: pytest.MonkeyPatch) -> None:
    free_all_ports(monkeypatch)


@pytest.mark.parametrize("shape", MEMORY)
def test_two_models_share_a_host(models: dict[str, str], tmp_path: Path, shape: str) -> None:
    fs = sized(shape)
    result = recommended(fs, [models["dense 70B"], models["moe 30B-A3B"]], tmp_path)
    check_text(result["text"], result["variables"])
    check_variables(result["variables"])
    services = planned_as_site_would(fs, result["variables"])
    cores = [len(one.placement.busy_cpus) for one in services]
    # The dense model reads ten times as much for each token.
    assert cores[0] == cores[1] if shape == "two 7543" else cores[0] > cores[1]
    assert [one["port"] for one in instances(result)] == [8080, 8081]


def test_many_models_get_a_ccd_each(models: dict[str, str], tmp_path: Path) -> None:
    copies = [tmp_path / f"copy-{number}.gguf" for number in range(9)]
    for copy in copies:
        copy.symlink_to(models["dense 8B"])
    paths = list(map(str, copies))
    fs = sized("9754")
    result = recommended(fs, paths[:6], tmp_path)
    services = planned_as_site_would(fs, result["variables"])
    assert [one["cpus"] for one in instances(result)] == ["ccd0", "ccd1", "ccd2", "ccd3", "node2", "node3"]
    assert {len(one.placement.nodes) for one in services} == {1}


def test_models_that_outnumber_ccds_share_their_cores(models: dict[str, str], tmp_path: Path) -> None:
    copies = [tmp_path / f"copy-{number}.gguf" for number in range(9)]
    for copy in copies:
        copy.symlink_to(models["dense 8B"])
    fs = sized("9754")
    result = recommended(fs, list(map(str, copies)), tmp_path)
    assert len(planned_as_site_would(fs, result["variables"])) == 9
    assert [one["cpus"] for one in instances(result)][:3] == ["1-7", "8-15", "ccd1"]


def test_two_large_models_do_not_fit(models: dict[str, str], tmp_path: Path) -> None:
    twin = tmp_path / "twin.gguf"
    twin.symlink_to(models["moe 671B"])
    said = refused(sized("9754", 512), [models["moe 671B"], str(twin)], tmp_path)
    assert "do not fit beside each other: they need at least 35" in said and f"for {twin}" in said


def test_a_large_and_a_small_model_share_by_memory(models: dict[str, str], tmp_path: Path) -> None:
    fs = sized("9754")
    result = recommended(fs, [models["moe 671B"], models["dense 8B"]], tmp_path)
    services = planned_as_site_would(fs, result["variables"])
    assert [one.placement.nodes for one in services] == [(0, 1, 2), (3,)]


def test_two_models_on_one_node_share_its_memory(models: dict[str, str], tmp_path: Path) -> None:
    """Each has a prompt cache for at least one full slot, and leaves the other what it needs."""
    fs = sized("9655", 160)
    result = recommended(fs, [models["dense 70B"], models["dense 32B"]], tmp_path)
    planned_as_site_would(fs, result["variables"])
    assert [one["prompt_cache"] for one in instances(result)] == ["11GiB", "9GiB"]


def test_names_of_instances(tmp_path: Path) -> None:
    paths = [
        "/a/Llama-3.1 70B_Q4.K.gguf",
        "/b/llama-3.1-70b_q4.k.gguf",
        "/c/R1-00001-of-00003.gguf",
        "/d/...gguf",
        "/e/x-rpc.gguf",
        f"/f/{'long' * 20}.gguf",
    ]
    names = recommending._choose_instance_names(paths)
    assert names == ["llama-3-1-70b_q4-k", "llama-3-1-70b_q4-k-2", "r1", "model", "x-rpc-model", "long" * 9]
