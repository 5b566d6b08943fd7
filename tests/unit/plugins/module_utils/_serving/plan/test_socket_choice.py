# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which socket an instance gets, and when it computes on several."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import InstancePlan
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.socket_choice import describe_nodes_of_socket
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts, machine_plans
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import GB, Models, machine, planned, refused

TWO = machine("two 7543")


def memory(*available: int) -> FreeMemory:
    return FreeMemory({node: size * GB for node, size in enumerate(available)})


def sockets_of(plan: InstancePlan, host: Host) -> list[int]:
    return [n for n, cpus in host.topology.sockets.items() if set(cpus) & set(plan.placement.cpus)]


def test_an_instance_gets_one_socket_and_says_how_to_have_both(models: Models) -> None:
    found = planned(TWO, models)
    assert sockets_of(found, TWO) == [0] and found.placement.nodes == (0,)
    (choice,) = found.default_choices
    assert (choice.option, choice.value, choice.undo) == ("cpus", "socket0", "cpus: socket0,socket1")
    undone = planned(TWO, models, cpus=choice.undo.partition(": ")[2])
    assert sockets_of(undone, TWO) == [0, 1] and undone.default_choices == []


def test_the_socket_with_more_free_memory_is_taken(models: Models) -> None:
    assert sockets_of(planned(TWO, models, free=memory(100, 200)), TWO) == [1]
    # A small difference does not decide, because it may be another one in the next run.
    assert sockets_of(planned(TWO, models, free=memory(198, 200)), TWO) == [0]


def test_the_socket_on_which_others_compute_less_is_taken(models: Models) -> None:
    free = memory(200, 100)
    free.computing_cpus = frozenset(TWO.topology.sockets[0])
    assert sockets_of(planned(TWO, models, free=free), TWO) == [1]


def test_a_running_instance_stays_on_its_socket_as_long_as_it_fits(models: Models) -> None:
    free = memory(200, 100)
    free.present_nodes = (1,)
    free.computing_cpus = frozenset(TWO.topology.sockets[1])
    assert sockets_of(planned(TWO, models, free=free), TWO) == [1]
    free = memory(200, 10)
    free.present_nodes = (1,)
    assert sockets_of(planned(TWO, models, free=free), TWO) == [0]


def test_an_instance_moves_from_two_sockets_to_one_only_where_memory_is_left(models: Models) -> None:
    need = planned(TWO, models, prompt_cache="1GiB").need.total
    for spare, sockets in ((1.02, [0, 1]), (1.10, [0])):
        free = FreeMemory({0: int(need * spare), 1: need // 2 + GB})
        free.present_nodes = (0, 1)
        assert sockets_of(planned(TWO, models, free=free, prompt_cache="1GiB"), TWO) == sockets
        free.present_nodes = (0,)
        assert sockets_of(planned(TWO, models, free=free, prompt_cache="1GiB"), TWO) == [0]


def test_a_model_that_is_too_large_for_a_socket_gets_both_and_says_what_it_costs(models: Models) -> None:
    found = planned(TWO, models, free=memory(40, 40))
    assert sockets_of(found, TWO) == [0, 1] and found.placement.policy == "interleave"
    (remark,) = [text for text in found.remarks if "computes on socket0 and socket1" in text]
    assert remark.startswith("One socket does not suffice: The instance needs ") and "0.19 to 0.36" in remark
    assert "set 'memory: rows'" in remark
    for raw in ({"slots": 2}, {"moe": True, "free": memory(80, 80)}):
        found = planned(TWO, models, **{"free": memory(40, 40), **raw})
        assert not any("memory: rows" in remark for remark in found.remarks)
    assert "Take a smaller context or model" in refused(TWO, models, free=memory(20, 20))


def test_a_refusal_names_memory_that_the_instance_could_not_have(tmp_path: Path, models: Models) -> None:
    host = Host(machine_plans.build_machine(tmp_path, "9654 with CXL"), {})
    said = refused(host, models, free=memory(20, 200))
    assert "or more nodes. Node 1 has 256 GiB of memory and no CPU, as is usual for memory on a CXL device" in said
    assert "CXL" not in refused(TWO, models, free=memory(20, 20))


@pytest.mark.parametrize(
    "raw",
    [
        {"cpus": "socket0,socket1"},
        {"nodes": "0-1"},
        {"memory": "rows"},
        {"threads": 40},
        {"threads_batch": 62},
    ],
)
def test_an_instance_that_is_told_so_computes_on_both_sockets(models: Models, raw: dict[str, Any]) -> None:
    found = planned(TWO, models, **raw)
    assert sockets_of(found, TWO) == [0, 1]
    assert any("computes on socket0 and socket1" in remark for remark in found.remarks) == ("memory" not in raw)


def test_a_draft_on_another_socket_leaves_the_model_the_first(models: Models) -> None:
    for socket in (0, 1):
        seat = {"draft_placement": "own_ccd", "draft_cpus": f"socket{socket}", "rpc_port": 50052}
        found = planned(TWO, models, speculation="draft", draft_max=4, **seat)
        assert found.rpc and found.placement.nodes == (1 - socket,) and found.rpc.placement.nodes == (socket,)
    seat = {"draft_placement": "first_ccd", "draft_cpus": "40-43"}
    assert planned(TWO, models, speculation="draft", draft_max=4, **seat).placement.nodes == (1,)


@pytest.mark.parametrize("seed", range(25))
def test_no_plan_crosses_a_socket_link_unasked(tmp_path: Path, models: Models, seed: int) -> None:
    draw = random.Random(seed)
    sockets, nps = draw.choice((1, 2, 2)), draw.choice((1, 2, 4))
    tree = hosts.build(
        tmp_path,
        sockets=sockets,
        l3_per_socket=draw.choice((4, 8, 12)),
        cores_per_l3=draw.choice((2, 4, 8)),
        nodes=sockets * nps,
        smt=draw.random() < 0.5,
        family=draw.choice((25, 26)),
        number=draw.choice((1, 17)),
    )
    host = Host(tree.fs, {})
    sizes = {node: draw.choice((8, 16, 30, 60)) * GB for node in range(sockets * nps)}
    free = FreeMemory(sizes)
    raw = draw.choice(({}, {"slots": 4}, {"speculation": "draft"}, {"prompt_cache": "1GiB"}))
    moe = draw.random() < 0.3
    try:
        found = planned(host, models, free=free, moe=moe, **raw)
    except BadRequest as error:
        assert str(error).startswith("The instance needs ")
        return
    if len(sockets_of(found, host)) > 1:
        assert any(text.startswith("One socket does not suffice") for text in found.remarks)
        for cpus in host.topology.sockets.values():
            near = [sizes[node.id] for node in host.topology.nodes if set(node.cpus) & set(cpus)]
            assert min(near) * len(near) < found.need.total


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("9655", {}, "NPS1: the hardware interleaves all channels of a socket"),
        ("9754", {}, "NPS4: memory is interleaved over nodes 0-3 page by page, which is NPS1 in software"),
        ("9754", {"memory": "rows"}, "NPS4: each thread reads from its own node"),
        ("9754", {"cpus": "node1"}, "NPS4: the instance reads the channels of one of 4 nodes"),
        ("two 7543", {"cpus": "socket0,socket1"}, "NPS1: "),
    ],
)
def test_what_the_nodes_of_a_socket_mean(models: Models, name: str, raw: dict[str, Any], words: str) -> None:
    host = machine(name)
    found = planned(host, models, **raw)
    place = found.placement
    advice = describe_nodes_of_socket(host, place.nodes, place.policy, can_gain_by_rows=True)
    assert advice.startswith(words)
    # Only interleaving over the nodes of a socket is worth a remark.
    assert (advice in found.remarks) == ("in software" in advice)


def test_the_way_out_of_interleaved_nodes_depends_on_model_and_streams(models: Models) -> None:
    host = machine("9754")
    one, several = planned(host, models), planned(host, models, slots=4)
    mixture = planned(host, models, moe=True)
    vectors = planned(host, models, task="embedding", pooling="mean")
    assert any("pays with 'memory: rows'" in remark for remark in one.remarks)
    for plan in (several, mixture, vectors):
        assert any("NPS4 pays with an instance on each node" in remark for remark in plan.remarks)
