# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which part of a host each of several models gets: on hosts of every shape, and some hosts in full."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._models.model import read_model
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import InstancePlan
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.host_parts import list_socket_parts
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.host_sharing import assign_host_parts
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.largest_fit import Candidate
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.model_request import (
    parse_model_requests,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.random_hosts import (
    Shape,
    free_memory_of,
    host_of_shape,
    shapes,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.recommendations import SIZES, write_models

NAMES = [*SIZES]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the five models with their headers read."""
    paths = write_models(tmp_path_factory.mktemp("models"))
    return {name: read_model(path) for name, path in paths.items()}


def candidates_for(read: dict[str, Any], names: list[str]) -> list[Candidate]:
    (request,) = parse_model_requests("/srv/models/any.gguf")
    return [
        Candidate(request, read[name], None, {"name": f"m{number}", "port": 8080 + number})
        for number, name in enumerate(names)
    ]


def shared(read: dict[str, Any], shape: Shape, *names: str) -> list[str]:
    """Return the option cpus of an instance of each of these models."""
    host = host_of_shape(shape)
    candidates = candidates_for(read, list(names))
    assign_host_parts(host, free_memory_of(host), candidates)
    return [candidate.fixed["cpus"] for candidate in candidates]


def refused(read: dict[str, Any], shape: Shape, *names: str) -> str:
    with pytest.raises(BadRequest) as caught:
        shared(read, shape, *names)
    return str(caught.value)


# What holds for every host and all models


ZEN6_SAMPLE = Shape(ccds=6, cores_per_l3=24, smt=True, node_gib=(1024,))
ZEN6_PAIR = Shape(sockets=2, cores_per_l3=32, smt=True, node_gib=(1024,))


@pytest.mark.slow
@pytest.mark.everyday
@settings(deadline=None, max_examples=60)
@example(shape=ZEN6_SAMPLE, names=NAMES[:2])
@example(shape=ZEN6_PAIR, names=NAMES)
@given(shape=shapes(), names=st.lists(st.sampled_from(NAMES), min_size=2, max_size=6))
def test_models_share_a_host_of_any_shape(read: dict[str, Any], shape: Shape, names: list[str]) -> None:
    host = host_of_shape(shape)
    candidates = candidates_for(read, names)
    try:
        plans = assign_host_parts(host, free_memory_of(host), candidates)
    except BadRequest as refusal:
        refusal_is_one_message_and_true(str(refusal), host, candidates)
        return
    no_core_works_for_two(host, plans)
    no_instance_crosses_the_link_between_sockets(host, plans, candidates)
    no_ccd_is_cut_while_there_are_enough(host, plans, candidates)
    if not shape.bare_nodes and len(shape.node_gib) == 1:
        busy = {cpu for plan in plans for cpu in plan.placement.busy_cpus}.union(host.plan.housekeeping)
        assert all(busy.intersection(core) for core in host.topology.cores), "some cores have no work"


def refusal_is_one_message_and_true(message: str, host: Host, candidates: list[Candidate]) -> None:
    assert message.endswith(".") and "\n" not in message
    cores = {core for core in host.topology.cores if not set(core) & set(host.plan.housekeeping)}
    if "need a core each" in message:
        assert len(cores) < len(candidates)
    elif "take smaller files" in message:
        available = free_memory_of(host).available
        sockets = [sum(available[node] for node in part.nodes) for part in list_socket_parts(host)]
        needs = [candidate.bytes_needed_at_level() for candidate in candidates]
        smallest = min(available[node.id] for node in host.topology.nodes if node.cpus)
        # Models may miss even where the sums fit: two of them on two sockets, or on nodes of other sizes.
        assert max(needs) > smallest or 2 * sum(needs) > sum(sockets)
        assert ("no CPU" in message) == any(not node.cpus for node in host.topology.nodes)


def no_core_works_for_two(host: Host, plans: list[InstancePlan]) -> None:
    core_of = {cpu: core for core in host.topology.cores for cpu in core}
    cores = [{core_of[cpu] for cpu in plan.placement.busy_cpus} for plan in plans]
    assert sum(map(len, cores)) == len(set().union(*cores))


def no_instance_crosses_the_link_between_sockets(
    host: Host, plans: list[InstancePlan], candidates: list[Candidate]
) -> None:
    available = free_memory_of(host).available
    for plan, candidate in zip(plans, candidates):
        places = set(plan.placement.busy_cpus)
        sockets = [number for number, cpus in host.topology.sockets.items() if places & set(cpus)]
        if len(sockets) > 1:
            parts = list_socket_parts(host)
            need = candidate.bytes_needed_at_level()
            rooms = [min((available[node] for node in part.nodes), default=0) * len(part.nodes) for part in parts]
            assert need > max(rooms), "it fits on one socket"
        else:
            cpus = set(host.topology.sockets[sockets[0]])
            near = {node.id for node in host.topology.nodes if cpus & set(node.cpus)}
            assert set(plan.placement.nodes) <= near


def no_ccd_is_cut_while_there_are_enough(host: Host, plans: list[InstancePlan], candidates: list[Candidate]) -> None:
    """A host with fewer CCDs than its models need, for their number or for the memory of nodes, has to cut some."""
    available = free_memory_of(host).available
    smallest = min(available[node.id] for node in host.topology.nodes if node.cpus)
    busy = [set(plan.placement.busy_cpus) for plan in plans]
    ccds = [{cpu for domain in ccd for cpu in domain.cpus} - set(host.plan.housekeeping) for ccd in host.topology.ccds]
    cut = [ccd for ccd in ccds if sum(1 for cpus in busy if ccd & cpus) > 1]
    if cut and smallest:
        needed = [-(-candidate.bytes_needed_at_level() // smallest) for candidate in candidates]
        per_socket = sum(1 for ccd in ccds if ccd) // len(host.topology.sockets)
        assert sum(needed) > per_socket or len(candidates) > per_socket


# Some hosts in full

GENOA = Shape(sockets=2, ccds=12, node_gib=(768,))


def test_models_are_packed_onto_sockets_first(read: dict[str, Any]) -> None:
    assert shared(read, GENOA, "dense 8B", "dense 8B") == ["socket0", "socket1"]
    halves = [",".join(f"ccd{number}" for number in range(first, first + 6)) for first in (0, 6, 12, 18)]
    assert shared(read, GENOA, *["dense 8B"] * 4) == halves
    assert shared(read, GENOA, *["dense 8B"] * 3) == [*halves[:2], "socket1"]
    assert shared(read, GENOA, "dense 70B", "dense 8B", "dense 8B") == ["socket0", *halves[2:]]


def test_a_socket_with_large_nodes_is_divided_by_nodes(read: dict[str, Any]) -> None:
    turin = Shape(sockets=2, nodes=4, ccds=16, node_gib=(192,))
    assert shared(read, turin, "dense 8B", "dense 70B", "dense 8B") == ["node4,node5", "socket0", "node6,node7"]


def test_a_ccd_with_two_nodes_is_not_cut(read: dict[str, Any]) -> None:
    """Each CCD of a 9754 has two L3 domains and one link, also where each L3 domain is a node."""
    bergamo = Shape(nodes=0, ccds=8, l3_per_ccd=2, node_gib=(48,))
    parts = [words.split(",") for words in shared(read, bergamo, "dense 8B", "dense 32B", "moe 30B-A3B")]
    numbers = [[int(word[len("node") :]) for word in words] for words in parts]
    assert all(len(members) % 2 == 0 and members[0] % 2 == 0 for members in numbers), numbers


def test_cores_are_split_where_models_outnumber_ccds(read: dict[str, Any]) -> None:
    desktop = Shape(ccds=2, node_gib=(192,))
    assert shared(read, desktop, *["dense 8B"] * 4) == ["1-3", "4-7", "8-11", "12-15"]
    guest = Shape(ccds=1, cores_per_l3=4, node_gib=(96,))
    assert shared(read, guest, "dense 8B", "dense 8B") == ["0-1", "2-3"]
    said = refused(read, guest, *["dense 8B"] * 5)
    assert (
        said == "5 models need a core each, and this host has 4 that compute. Leave some out. Nothing is recommended."
    )


def test_a_model_moves_to_a_node_with_ccds_to_spare_rather_than_share_one(read: dict[str, Any]) -> None:
    """Without the rule node 0 has one model and node 1 four on three CCDs, where both nodes read as many bytes."""
    uneven = Shape(nodes=2, ccds=6, node_gib=(192, 24))
    assert shared(read, uneven, *["dense 8B"] * 3, "dense 32B", "dense 8B") == [
        "ccd0", "ccd3", "ccd4", "ccd1,ccd2", "ccd5",
    ]  # fmt: skip


def test_models_share_a_socket_whose_nodes_have_unequal_memory(read: dict[str, Any]) -> None:
    uneven = Shape(nodes=3, ccds=3, cores_per_l3=2, node_gib=(96, 24))
    assert shared(read, uneven, *["dense 32B"] * 4) == ["0", "1", "node1", "node2"]
    many_cores = Shape(nodes=0, ccds=1, l3_per_ccd=2, cores_per_l3=9, node_gib=(96, 24))
    assert shared(read, many_cores, *["dense 32B"] * 2) == ["1-8", "9-17"]


def test_ccds_far_from_all_memory_work_with_those_that_have_some(read: dict[str, Any]) -> None:
    half = Shape(nodes=2, ccds=8, node_gib=(248,), bare_nodes=(1,))
    assert shared(read, half, "dense 70B", "dense 8B") == ["ccd1,ccd2,ccd3,ccd4,ccd5,ccd6,ccd7", "ccd0"]


def test_memory_that_is_not_used_is_named(read: dict[str, Any]) -> None:
    shape = Shape(nodes=2, ccds=8, node_gib=(248,), bare_nodes=(1,), cxl_gib=256)
    said = refused(read, shape, "moe 671B", "dense 8B")
    assert "available are 235.6 GiB on socket0 (node 0)." in said
    assert "Node 2 has 256 GiB of memory and no CPU, as is usual for memory on a CXL device" in said
    assert "Node 1 has CPUs and no memory." in said


def test_a_model_larger_than_each_socket_spans_them_beside_others(read: dict[str, Any]) -> None:
    shape = Shape(sockets=2, ccds=12, node_gib=(256,))
    beside = ",".join(f"ccd{number}" for number in range(8))
    assert shared(read, shape, "moe 671B", "dense 8B") == [f"{beside},socket1", "ccd8,ccd9,ccd10,ccd11"]
