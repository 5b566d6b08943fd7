# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many threads decode a token by default, on all machines and for models of all kinds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._models.model_shape import shape_of_model
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan import decode_threads
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.decode_threads import (
    DecodeMachine,
    DecodeWork,
    choose_decode_threads,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs, hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import (
    BARE,
    GB,
    OLD,
    Models,
    isolating,
    machine,
    planned,
)

#: Cores, CCDs, GB/s and rate of a core as build_decode_machine finds them, without a housekeeping core.
MACHINES = {
    "9654": DecodeMachine(96, 12, 378, 0.70),
    "9754": DecodeMachine(128, 8, 378, 0.58),
    "9655": DecodeMachine(96, 12, 472, 0.85),
    "9965": DecodeMachine(192, 12, 472, 0.75),
    "9354": DecodeMachine(32, 8, 378, 0.70),
    "7763": DecodeMachine(64, 8, 168, 0.38),
}
TYPES = {"F16": 1, "Q8_0": 8, "Q4_K": 12, "IQ3_S": 21}


def matrices(path: Path, kind: str, experts: int = 0, layers: int = 32) -> gguf_model.Model:
    """A model with the matrices of Llama 3.1 8B, or of Qwen3 30B-A3B, in one tensor type."""
    shapes: list[tuple[str, tuple[int, ...]]] = [("attn_q", (4096, 4096)), ("ffn_up", (4096, 14336))]
    if experts:
        shapes = [
            ("attn_q", (2048, 4096)),
            ("ffn_up_exps", (2048, 768, experts)),
            ("ffn_down_exps", (768, 2048, experts)),
        ]
    numbers: dict[str, Any] = {"block_count": layers, "embedding_length": 4096}
    numbers |= {"expert_count": experts, "expert_used_count": 8} if experts else {}
    tensors, end = [], 0
    for layer in range(layers):
        for name, shape in shapes:
            tensors.append(ggufs.tensor(f"blk.{layer}.{name}.weight", shape, TYPES[kind], end))
            block, size = {"F16": (1, 2), "Q8_0": (32, 34), "Q4_K": (256, 144), "IQ3_S": (256, 110)}[kind]
            count = shape[0] * shape[1] * (shape[2] if len(shape) > 2 else 1)
            end += -(-(count // block * size) // 32) * 32
    content = ggufs.gguf(ggufs.model(ggufs.TOKENS, **numbers), tensors)
    with path.open("wb") as file:
        file.write(content)
        file.truncate(len(content) + end)
    return gguf_model.read_model(str(path))


def work_of(model: gguf_model.Model) -> DecodeWork:
    return DecodeWork(model, shape_of_model(model))


@pytest.fixture(scope="module")
def works(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DecodeWork]:
    folder = tmp_path_factory.mktemp("works")
    dense = {kind: work_of(matrices(folder / f"{kind}.gguf", kind)) for kind in TYPES}
    return {**dense, "mixture": work_of(matrices(folder / "mixture.gguf", "Q4_K", experts=128, layers=48))}


def test_k_types_take_four_to_eight_cores_of_a_ccd(works: dict[str, DecodeWork]) -> None:
    found = {name: choose_decode_threads([works["Q4_K"]], here) for name, here in MACHINES.items()}
    assert found == {"9654": 48, "9754": 56, "9655": 48, "9965": 56, "9354": 32, "7763": 40}


def test_types_that_compute_more_take_more_threads(works: dict[str, DecodeWork]) -> None:
    here = MACHINES["9654"]
    counts = [choose_decode_threads([works[kind]], here) for kind in ("F16", "Q4_K", "IQ3_S")]
    assert counts == [32, 48, 96]
    assert choose_decode_threads([works["F16"], works["IQ3_S"]], here) == 96


def test_a_mixture_with_few_active_parameters_takes_fewer_threads(works: dict[str, DecodeWork]) -> None:
    for name in ("9754", "9965"):
        assert choose_decode_threads([works["mixture"]], MACHINES[name]) < choose_decode_threads(
            [works["Q4_K"]], MACHINES[name]
        )


def test_less_bandwidth_takes_fewer_threads_but_two_on_each_ccd(works: dict[str, DecodeWork]) -> None:
    counts = [choose_decode_threads([works["Q4_K"]], DecodeMachine(96, 12, gbps, 0.85)) for gbps in (472, 246, 150, 20)]
    assert counts == sorted(counts, reverse=True) and counts[-1] == 24


def test_the_imbalance_of_rows(works: dict[str, DecodeWork]) -> None:
    work = works["mixture"]
    # 768 rows are 96 blocks of 8 rows: 32 threads have 3 each, and of 95 threads one has 2.
    assert work.imbalance(32) == 1.0
    assert work.imbalance(95) > 1.4


@pytest.mark.parametrize("seed", range(40))
def test_there_are_never_more_threads_than_cores_and_all_ccds_have_some(
    works: dict[str, DecodeWork], seed: int
) -> None:
    draw = random.Random(seed)
    ccds = draw.choice((1, 2, 4, 8, 12, 16))
    cores = ccds * draw.choice((1, 2, 4, 6, 8, 16)) - draw.choice((0, 0, 1))
    here = DecodeMachine(max(1, cores), ccds, draw.uniform(20, 1000), draw.choice((0.38, 0.7, 0.85)))
    number = choose_decode_threads([draw.choice(list(works.values()))], here)
    assert number == here.cores or (2 * ccds <= number < here.cores and number % 8 == 0)


@pytest.mark.parametrize("name", ["9754", "9754 SMT", "9654", "9655"])
def test_the_threads_of_a_plan_are_spread_over_all_ccds(models: Models, name: str) -> None:
    host = machine(name)
    found = planned(host, models)
    number = found.parameters["threads"]
    assert number % 8 == 0 and number < found.parameters["threads_batch"]
    decoding = set(found.placement.busy_cpus[:number])
    counts = [sum(len(decoding.intersection(domain.cpus)) for domain in ccd) for ccd in host.topology.ccds]
    assert max(counts) - min(counts) <= 2 and min(counts) >= 2
    (choice,) = [each for each in found.default_choices if each.option == "threads"]
    assert choice.value == number and choice.undo == f"threads: {found.parameters['threads_batch']}"
    assert choice.to_remark() in found.remarks
    undone = planned(host, models, threads=found.parameters["threads_batch"])
    assert undone.parameters["threads"] == undone.parameters["threads_batch"] and not undone.default_choices


@pytest.mark.parametrize(
    "raw",
    [
        {"memory": "rows", "ngram_max": 6},
        {"memory": "distribute", "ngram_max": 6},
        {"task": "embedding", "pooling": "last", "speculation": "none", "context": 512},
        {"speculation": "draft", "draft_placement": "first_ccd"},
        {"cpus": "1-15"},
    ],
)
def test_all_cores_decode_where_fewer_would_not_do(host: Host, models: Models, raw: dict[str, Any]) -> None:
    found = planned(host, models, **raw)
    assert found.parameters["threads"] == found.parameters["threads_batch"]
    assert not any(choice.option == "threads" for choice in found.default_choices)


def test_without_openmp_all_cores_decode_and_the_plan_says_why(host: Host, models: Models) -> None:
    found = planned(host, models, BARE)
    assert found.parameters["threads"] == 124
    assert any("this build has no OpenMP, without which fewer threads" in remark for remark in found.remarks)
    assert planned(host, models, OLD).parameters["threads"] == 64


def test_a_virtual_machine_and_an_unknown_cpu_decode_with_all_cores(tmp_path: Path, models: Models) -> None:
    virtual = hosts.shape(tmp_path / "virtual", "9654")
    text = (virtual.root / "proc/cpuinfo").read_text()
    virtual.put("/proc/cpuinfo", text.replace("flags\t\t: ", "flags\t\t: hypervisor ").rstrip())
    unknown = hosts.shape(tmp_path / "unknown", "9654", family=99)
    for tree in (virtual, unknown):
        there = Host(tree.fs, {})
        assert planned(there, models).parameters["threads"] == 92
    measured = planned(Host(virtual.fs, {}), models, bandwidth=300)
    assert measured.parameters["threads"] < 92


def test_isolated_cpus_are_pinned_through_openmp(host: Host, models: Models) -> None:
    found = planned(host, models, free=isolating(host, "1-31,33-63,65-95,97-127"))
    assert found.parameters["threads"] == 64 and found.placement.pinned == "gomp"


def test_a_router_decodes_as_its_slowest_model_needs(tmp_path: Path) -> None:
    fast, slow = (
        work_of(ggufs.written(tmp_path / "fast.gguf", 4 * GB, kind=12)),
        work_of(matrices(tmp_path / "slow.gguf", "IQ3_S")),
    )
    here = MACHINES["9754"]
    assert choose_decode_threads([fast, slow], here) == decode_threads.choose_decode_threads([slow], here)
