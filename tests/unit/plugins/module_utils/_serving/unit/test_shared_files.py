# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances that share a host: a model file that several map, and memory that a draft in its own process takes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import HOST_TOOL, UNIT_FOLDER
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import probe
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import units as unit_texts
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.engine import LlamaEngine
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import InstancePlan
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import installed, instances
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import shared_host as planning
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs, services
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import GB, NEW, machine

COMMON = {"binary": "/opt/llama-server", "port": 8080}


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A model in a folder that any user may enter."""
    tmp_path.chmod(0o755)
    return ggufs.written(tmp_path / "model.gguf", GB).path


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    """A 9754 with four nodes of free memory, whatever this machine has."""
    free = {node: 200 * GB for node in range(4)}
    monkeypatch.setattr(
        planning.free_memory,
        "read_free_and_staged_memory",
        lambda *dummy: FreeMemory(free, {(node, 2048): 60000 for node in range(4)}, hugetlbfs_kb=2048),
    )
    return machine("9754")


def beside(host: Host, *asked: dict[str, Any], staying: list[dict[str, Any]] | None = None) -> list[InstancePlan]:
    """Plan instances one after another."""
    planned: list[InstancePlan] = []
    for number, one in enumerate(asked):
        options = Options.parse({**COMMON, "name": f"i{number}", **one})
        planned.append(
            planning.plan_instance_among_others(LlamaEngine(), host, options, NEW, [], planned, staying or [])
        )
    return planned


def test_a_file_cannot_be_on_the_nodes_of_two(host: Host, model: str) -> None:
    with pytest.raises(BadRequest) as caught:
        beside(host, {"model": model, "cpus": "node0"}, {"model": model, "cpus": "node1"})
    assert str(caught.value) == (
        f"{model} is mapped by i0 too, and what is in the page cache can be in one place only: i0 wants it on nodes 0 "
        "and i1 wants it on nodes 1, so that one of them would read it from afar. Give each a copy in its own memory "
        "with hugepages thp, pool or hugetlbfs, or with lock; or give both the same nodes, with memory rows the same "
        "threads too."
    )


def test_a_file_cannot_be_bound_and_interleaved(host: Host, model: str) -> None:
    with pytest.raises(BadRequest, match="i0 wants it interleaved on nodes 0-3 and i1 wants it on nodes 0,"):
        beside(host, {"model": model}, {"model": model, "cpus": "node0"})


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_another_name_is_no_other_file(host: Host, model: str, tmp_path: Path, link: Any) -> None:
    other = str(tmp_path / "other.gguf")
    link(model, other)
    with pytest.raises(BadRequest, match=r"other\.gguf is mapped by i0 too"):
        beside(host, {"model": model, "cpus": "node0"}, {"model": other, "cpus": "node1"})


@pytest.mark.parametrize(
    "own", [{"hugepages": "thp"}, {"hugepages": "pool"}, {"lock": True}, {"hugepages": "hugetlbfs"}]
)
def test_whoever_has_a_copy_shares_nothing(host: Host, model: str, own: dict[str, Any]) -> None:
    one, other = beside(host, {"model": model, "cpus": "node0"}, {"model": model, "cpus": "node1", **own})
    assert (one.mapped, other.mapped) == ([model], [])


def test_the_same_place_is_shared(host: Host, model: str, tmp_path: Path) -> None:
    beside(host, {"model": model, "cpus": "1-7"}, {"model": model, "cpus": "9-15"})
    beside(host, {"model": model, "cpus": "0-63"}, {"model": model, "cpus": "64-127", "nodes": "0-1"})
    copy = ggufs.written(tmp_path / "copy.gguf", GB).path
    beside(host, {"model": model, "cpus": "node0"}, {"model": copy, "cpus": "node1"})


def test_weights_that_several_map_count_once(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three instances on the same nodes fit where the weights of one do, with what each has of its own."""
    host = machine("9754")
    asked: list[dict[str, Any]] = [
        {"model": model, "cpus": cpus, "prompt_cache": "0MiB"} for cpus in ("1-5", "6-9", "10-15")
    ]
    room = [900 * GB]
    monkeypatch.setattr(planning.free_memory, "read_free_and_staged_memory", lambda *dummy: FreeMemory({0: room[0]}))
    (alone,) = beside(host, asked[0])
    room[0] = 3 * alone.need.total - 2 * alone.need.weights
    beside(host, *asked)
    room[0] -= 4096
    with pytest.raises(BadRequest, match="The instance needs"):
        beside(host, *asked)
    with pytest.raises(BadRequest, match="The instance needs"):
        beside(host, asked[0], asked[1], {**asked[2], "lock": True})


def test_an_instance_that_stays_on_the_host_counts_too(host: Host, model: str) -> None:
    """With purge off, a play names some of the instances only."""
    (there,) = beside(host, {"model": model, "cpus": "node0"})
    text = unit_texts.render_llama_units(there, [])[f"{UNIT_FOLDER}/{there.unit}"]
    stays = installed.parse_unit_plan(text)
    assert stays is not None and stays["mapped"] == [model]
    with pytest.raises(BadRequest, match="is mapped by i0 too"):
        beside(host, {"name": "new", "model": model, "cpus": "node1"}, staying=[stays])
    Path(model).unlink()
    other = ggufs.written(Path(model).with_name("other.gguf"), GB).path
    beside(host, {"name": "new", "model": other, "cpus": "node1"}, staying=[stays])


def test_which_instances_stay(tmp_path: Path, host: Host, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (there,) = beside(host, {"name": "old", "model": model, "cpus": "node0"})
    (tmp_path / UNIT_FOLDER[1:]).mkdir(parents=True)
    for path, text in unit_texts.render_llama_units(there, []).items():
        (tmp_path / path[1:]).write_text(text)
    (tmp_path / HOST_TOOL[1:]).parent.mkdir(parents=True)
    (tmp_path / HOST_TOOL[1:]).touch()
    asked: list[Any] = []

    def stop(*arguments: Any) -> None:
        asked.append([plan["name"] for plan in arguments[-1]])
        raise BadRequest("enough.")

    monkeypatch.setattr(probe, "probe_capabilities", lambda *dummy: NEW)
    monkeypatch.setattr(planning, "read_unit_properties", lambda dummy: {})
    monkeypatch.setattr(instances, "plan_instance_among_others", stop)
    for name, purge in (("new", False), ("new", True), ("old", False)):
        with pytest.raises(BadRequest, match="enough"):
            one = {**COMMON, "model": model, "name": name}
            instances.build_knobs(LlamaEngine(), host, [one], instances.Purge(purge), str(tmp_path))
    assert asked == [["old"], [], []]


def test_the_process_of_a_draft_gives_its_memory_back_too(tmp_path: Path) -> None:
    """Else a draft that runs on a small node could not be planned there again."""
    tree = services.Service(tmp_path).tree
    folder = "/sys/fs/cgroup/system.slice"
    tree.put(f"{folder}/llama-chat.service/cgroup.procs", "100")
    alone = list(planning.list_memory_of_instance(Host(tree.fs), "chat"))
    tree.put("/proc/200/numa_maps", "7f0000000000 default heap anon=512 dirty=512 N1=512 kernelpagesize_kB=4")
    tree.put("/proc/200/smaps_rollup", services.ROLLUP.rstrip())
    tree.put(f"{folder}/llama-chat-rpc.service/cgroup.procs", "200")
    both = list(planning.list_memory_of_instance(Host(tree.fs), "chat"))
    assert both[: len(alone)] == alone and both[len(alone) :] == [({1: 512 * 4096}, {(1, 2048): 0})]


def test_the_process_of_a_draft_takes_memory_of_its_own_nodes(host: Host, model: str, tmp_path: Path) -> None:
    draft = ggufs.written(tmp_path / "draft.gguf", GB // 10).path
    (one,) = beside(
        host,
        {
            "model": model,
            "cpus": "1-7,33-47",
            "speculation": "draft",
            "draft_model": draft,
            "draft_placement": "own_ccd",
            "draft_max": 3,
            "rpc_port": 50052,
            "prompt_cache": "0MiB",
        },
    )
    assert one.rpc is not None and (one.placement.nodes, one.rpc.placement.nodes) == ((0,), (1,))
    free = FreeMemory(dict.fromkeys(range(4), 200 * GB))
    planning._reserve_memory_of_earlier_instance(free, one)
    assert free.available == {
        0: 200 * GB - one.need.total,
        1: 200 * GB - one.rpc.need.total,
        2: 200 * GB,
        3: 200 * GB,
    }
    assert one.need.weights < 2 * GB and one.rpc.need.weights < GB
