# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where instances of llama-server sit on all machines, how their threads are kept there, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import format_cpulist, parse_cpulist
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import (
    BARE,
    BARE_OLD,
    GB,
    NEW,
    OLD,
    Able,
    Models,
    isolating,
    machine,
    planned,
    refused,
    remarks_of,
)

# Where it sits

#: By machine: the CPUs that compute, those for HTTP, the threads for a token and for a batch, nodes and memory policy.
SEATS = {
    "9754": ("1-31,33-63,65-95,97-127", "0,32,64,96", 64, 124, "0-3", "interleave"),
    "9754 SMT": ("1-31,33-63,65-95,97-127", "0,32,64,96,128,160,192,224", 64, 124, "0-3", "interleave"),
    "9654": ("1-23,25-47,49-71,73-95", "0,24,48,72", 48, 92, "0-3", "interleave"),
    "9354": ("1-31", "0", 31, 31, "0-3", "interleave"),
    "two 7543": ("1-31", "0", 31, 31, "0", "bind"),
    "9655": ("1-95", "0,96", 48, 95, "0", "local"),
}


@pytest.mark.parametrize("name", SEATS)
def test_an_instance_has_all_but_the_housekeeping(models: Models, name: str) -> None:
    busy, http, threads, batch, nodes, policy = SEATS[name]
    host = machine(name)
    found = planned(host, models)
    facts: Any = found.to_dict()
    assert (facts["http_cpus"], facts["nodes"], facts["memory"]) == (http, nodes, policy)
    assert sorted(found.placement.busy_cpus) == list(parse_cpulist(busy))
    assert (found.parameters["threads"], found.parameters["threads_batch"]) == (threads, batch)
    # The wall has the siblings of each core too, so that nobody else gets them.
    assert found.placement.cpus == host.topology.sockets[0]
    assert facts["pinned"] == ("strict" if threads == batch else "gomp")
    assert found.expect == {
        "cpus": format_cpulist(host.topology.sockets[0]),
        "busy_cpus": busy,
        "spread": "core",
        "nodes": nodes,
        "interleaved": policy == "interleave",
    }
    assert found.rpc is None and found.placement.affinity is None


@pytest.mark.parametrize("name", SEATS)
@pytest.mark.parametrize("placement", ["shared", "first_ccd", "own_ccd"])
def test_a_draft_on_every_machine(models: Models, name: str, placement: str) -> None:
    host = machine(name)
    port = {"rpc_port": 50052} if placement == "own_ccd" else {}
    found = planned(host, models, speculation="draft", draft_placement=placement, draft_max=4, **port)
    members = set(host.plan.draft)
    cores = [core for core in host.topology.cores if members.intersection(core)]
    assert (found.parameters["speculation"], found.parameters["draft_max"]) == (["draft"], 4)
    assert 0.05 <= found.parameters["draft_p_min"] <= 0.9
    if placement == "shared":
        assert found.parameters["draft_threads"] == found.parameters["threads"] and "rpc" not in found.parameters
    elif placement == "first_ccd":
        assert found.parameters["draft_threads"] == len(cores) and "cpus" not in found.parameters
        pins = [int(cpu) for cpu in found.placement.environment["GOMP_CPU_AFFINITY"].split()]
        assert pins[: len(cores)] == [core[0] for core in cores]
        assert sorted(pins) == list(parse_cpulist(SEATS[name][0]))
    else:
        assert found.rpc is not None
        assert found.rpc.placement.cpus == host.plan.draft and found.rpc.placement.group == "draft"
        assert not set(found.placement.busy_cpus) & members and not set(found.placement.cpus) & members
        assert found.rpc.arguments == ["-H", "127.0.0.1", "-p", "50052", "-t", str(len(cores))]
        assert found.parameters["rpc"] == "127.0.0.1:50052" and "draft_threads" not in found.parameters
        assert found.rpc.expect["group"] == "draft" and found.rpc.unit == "llama-chat-rpc.service"


def test_a_draft_on_one_socket_and_the_model_on_the_other(models: Models) -> None:
    host = machine("two 7543")
    seat = {"draft_placement": "own_ccd", "draft_cpus": "socket1", "rpc_port": 50052}
    found = planned(host, models, speculation="draft", draft_max=4, **seat)
    sockets = [set(cpus) for cpus in host.topology.sockets.values()]
    assert found.rpc is not None
    assert set(found.placement.busy_cpus) <= sockets[0] and set(found.rpc.placement.busy_cpus) <= sockets[1]
    assert (found.placement.nodes, found.rpc.placement.nodes) == ((0,), (1,))
    assert (found.placement.policy, found.rpc.placement.policy) == ("bind", "bind")
    words = refused(
        host, models, speculation="draft", cpus="socket0", draft_placement="first_ccd", draft_cpus="socket1"
    )
    assert "draft_cpus socket1 are not all among cpus" in words


@pytest.mark.parametrize(
    ("name", "raw", "busy", "http", "nodes", "policy"),
    [
        ("9754", {"nodes": "2"}, "65-95", "64", "2", "bind"),
        ("9754", {"cpus": "ccd0"}, "1-15", "0", "0", "bind"),
        ("9754", {"cpus": "0-15"}, "0-15", "32,64,96", "0", "bind"),
        ("9754", {"cpus": "draft"}, "16-31", "0", "0", "bind"),
        ("9754", {"cpus": "33-40", "nodes": "0"}, "33-40", "32", "0", "bind"),
        ("two 7543", {"nodes": "1"}, "33-63", "32", "1", "bind"),
        ("two 7543", {"nodes": "0-1", "memory": "bind"}, "1-31,33-63", "0,32", "0-1", "bind"),
        ("9655", {"cpus": "l3:5"}, "40-47", "0,96", "0", "local"),
    ],
)
def test_a_part_of_a_host(
    models: Models, name: str, raw: dict[str, str], busy: str, http: str, nodes: str, policy: str
) -> None:
    facts: Any = planned(machine(name), models, **raw).to_dict()
    assert (facts["busy_cpus"], facts["http_cpus"], facts["nodes"], facts["memory"]) == (busy, http, nodes, policy)


def test_remarks_on_a_seat(host: Host, models: Models) -> None:
    assert remarks_of(planned(host, models)) == []
    (remark,) = remarks_of(planned(host, models, cpus="33-40", nodes="0"))
    assert remark == "CPUs on nodes 1 read all memory from nodes 0."
    assert "CPUs 0 compute, and are housekeeping too" in planned(host, models, cpus="0-15").remarks[0]
    open_to_all = {"host": "0.0.0.0"}
    call, use = planned(host, models, **open_to_all).remarks[:2]
    assert "the server can call too" in call and "can use it" in use
    assert "can use it" in planned(host, models, **open_to_all, clients=["10.0.0.2"]).remarks[0]
    assert remarks_of(planned(host, models, **open_to_all, clients=["10.0.0.2"], api_key_file="/etc/keys")) == []


def test_without_housekeeping(models: Models) -> None:
    found = planned(Host(machine("small").fs, {"housekeeping": {"cores": 0}}), models, capabilities=BARE)
    assert (found.placement.http_cpus, found.placement.affinity, found.parameters["threads"]) == ((), None, 16)
    assert "no housekeeping CPU" in remarks_of(found)[0]


# How threads are kept there


@pytest.mark.parametrize(
    ("capabilities", "raw", "pinned"),
    [
        (NEW, {}, "gomp"),  # fewer threads for a token than for a batch
        (NEW, {"threads": 124}, "strict"),
        (OLD, {}, "gomp"),
        (BARE, {}, "strict"),
        (BARE_OLD, {}, "cpuset"),
        (NEW, {"cpus": "5"}, "gomp"),  # with one thread, OpenMP never asks for the pin
        (BARE, {"cpus": "5"}, "strict"),
        (NEW, {"threads": 60}, "gomp"),  # only this can say an order
        (BARE, {"threads": 60}, "strict"),
        (NEW, {"speculation": "draft"}, "gomp"),
        (NEW, {"speculation": "draft", "threads": 124}, "strict"),
        (BARE, {"speculation": "draft"}, "cpuset"),  # masks would put all threads of the draft on one CPU
        (BARE, {"speculation": "draft", "draft_threads": 1}, "strict"),
        (BARE, {"speculation": "draft", "draft_placement": "own_ccd", "rpc_port": 50052}, "strict"),
        (NEW, {"speculation": "draft", "draft_placement": "first_ccd"}, "gomp"),
        (NEW, {"memory": "distribute"}, "numa"),
    ],
)
def test_by_which_means(host: Host, models: Models, capabilities: Able, raw: dict[str, Any], pinned: str) -> None:
    found = planned(host, models, capabilities, **raw)
    assert found.placement.pinned == pinned
    assert ("cpus" in found.parameters) == (pinned == "strict")
    assert ("GOMP_CPU_AFFINITY" in found.placement.environment) == (pinned == "gomp")
    assert ("spread" in found.expect) == (pinned in ("strict", "gomp"))
    if pinned in ("strict", "gomp"):
        assert len(found.placement.busy_cpus) == max(found.parameters["threads"], found.parameters["threads_batch"])
    # OpenMP lets threads sleep when it sees fewer CPUs than it has threads.
    assert found.placement.affinity == (
        found.placement.http_cpus if pinned == "strict" and not capabilities.openmp else None
    )


@pytest.mark.parametrize(
    ("capabilities", "raw", "words"),
    [
        (BARE_OLD, {}, "this build ignores --cpu-mask"),
        (BARE, {"speculation": "draft"}, "makes new threads for each drafted token"),
        (NEW, {"memory": "distribute"}, "spreads none over CPUs 1-31,33-63,65-95,97-127"),
        (BARE, {"speculation": "draft", "draft_placement": "own_ccd", "rpc_port": 50052}, "CPUs 16-31 are isolated"),
    ],
)
def test_threads_on_isolated_cpus_must_be_pinned(
    host: Host, models: Models, capabilities: Able, raw: dict[str, Any], words: str
) -> None:
    assert words in refused(host, models, capabilities, isolating(host, "1-31,33-63,65-95,97-127"), **raw)
    assert planned(host, models, NEW, isolating(host, "1-31"), threads=124).placement.pinned == "strict"
    assert planned(host, models, OLD, isolating(host, "1-31")).placement.pinned == "gomp"


PARTITION = "1-31,33-63,65-95,97-127"


def dividing(host: Host, cpus: str = PARTITION) -> FreeMemory:
    return FreeMemory({node.id: 200 * GB for node in host.topology.nodes}, partition=parse_cpulist(cpus))


@pytest.mark.parametrize("capabilities", [NEW, OLD, BARE, BARE_OLD])
def test_an_instance_in_the_partition_has_no_cpu_outside_of_it(host: Host, models: Models, capabilities: Able) -> None:
    """An affinity outside of it would keep the unit from starting."""
    found = planned(host, models, capabilities, dividing(host))
    seat = found.placement
    assert (seat.slice, format_cpulist(seat.cpus)) == ("llama.slice", PARTITION)
    assert (seat.http_cpus, seat.affinity) == ((), None)
    assert [remark for remark in found.remarks if remark.startswith("HTTP and tokenizer threads run on the CPUs that")]
    assert not [remark for remark in found.remarks if "no housekeeping CPU" in remark]


def test_an_instance_beside_the_partition_is_as_ever(host: Host, models: Models) -> None:
    found = planned(host, models, NEW, dividing(host, "1-31"), cpus="33-63").placement
    assert (found.slice, found.http_cpus) == (None, (32,))


def test_the_draft_on_a_ccd_of_its_own_is_in_the_partition_too(host: Host, models: Models) -> None:
    raw = {"speculation": "draft", "draft_placement": "own_ccd", "rpc_port": 50052}
    rpc = planned(host, models, NEW, dividing(host), **raw).rpc
    assert rpc and rpc.placement.slice == "llama.slice"


def test_half_in_the_partition_is_refused(host: Host, models: Models) -> None:
    words = refused(host, models, NEW, dividing(host, "1-31"))
    assert words.startswith("CPUs 33-63,65-95,97-127 are not in the partition of llama.slice, which has CPUs 1-31, ")
    words = refused(host, models, NEW, dividing(host), unit_settings={"Slice": "mine.slice"})
    assert words == "unit_settings: Slice must be llama.slice, whose CPUs these are. Leave it out, or name other cpus."


def test_fewer_threads_use_all_ccds(host: Host, models: Models) -> None:
    found = planned(host, models, OLD, threads=16)
    assert (found.parameters["threads"], found.parameters["threads_batch"]) == (16, 124)
    first = found.placement.busy_cpus[:16]
    assert len({domain.id for domain in host.topology.l3 for cpu in first if cpu in domain.cpus}) == 16
    both = planned(host, models, threads=16, threads_batch=16)
    assert both.parameters["cpus"] == sorted(first) and both.placement.pinned == "strict"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"threads": 125}, "threads is 125, but there are 124 cores for CPUs 1-31,33-63,65-95,97-127"),
        ({"threads_batch": 128}, "threads_batch is 128"),
        ({"speculation": "draft", "draft_threads": 125}, "draft_threads is 125, but there are 124 cores for the draft"),
        (
            {"speculation": "draft", "draft_placement": "first_ccd", "draft_threads": 17},
            "but there are 16 cores for the draft",
        ),
        (
            {"speculation": "draft", "draft_placement": "own_ccd", "rpc_port": 50052, "draft_threads": 17},
            "there are 16 cores for the draft",
        ),
        (
            {"speculation": "draft", "draft_placement": "own_ccd", "rpc_port": 50052, "cpus": "draft"},
            "leaves no CPU to the model",
        ),
        ({"cpus": "ccd9"}, "There is no ccd9 on this host"),
        ({"nodes": "7"}, "there is no node 7 with memory"),
        ({"engine": "ik_llama.cpp"}, "is llama.cpp, but engine is ik_llama.cpp"),
    ],
)
def test_what_this_host_cannot_have(host: Host, models: Models, raw: dict[str, Any], words: str) -> None:
    assert words in refused(host, models, **raw)


def test_a_draft_on_the_first_ccd_needs_openmp(host: Host, models: Models) -> None:
    for capabilities in (BARE, BARE_OLD):
        assert "needs a build with OpenMP" in refused(
            host, models, capabilities, speculation="draft", draft_placement="first_ccd"
        )


# NUMA


@pytest.mark.parametrize(("name", "threads"), [("9754", 124), ("9654", 92), ("9354", 28), ("two 7543", 62)])
def test_distribute(models: Models, name: str, threads: int) -> None:
    found = planned(machine(name), models, memory="distribute", ngram_lookup=6, ngram_max=6)
    assert (found.parameters["threads"], found.parameters["threads_batch"], found.parameters["numa"]) == (
        threads,
        threads,
        "distribute",
    )
    assert (found.parameters["load"], found.parameters["repack"], "cpus" in found.parameters) == ("mmap", False, False)
    assert found.placement.environment == {} and found.expect["busy_cpus"] == found.expect["cpus"]
    assert len(found.remarks) == 1 and "not repacked" in found.remarks[0]
    assert "across nodes" in planned(machine(name), models, memory="distribute", ngram_max=8).remarks[0]


def test_drafts_are_short_where_longer_ones_would_be_read_across_nodes(host: Host, models: Models) -> None:
    found = planned(host, models, memory="rows")
    assert found.parameters["ngram_max"] == 6
    (choice,) = found.default_choices
    assert (choice.option, choice.value, choice.undo) == ("ngram_max", 6, "ngram_max: 8")
    assert not any("across nodes" in remark for remark in found.remarks)
    assert planned(host, models, memory="rows", ngram_max=8).default_choices == []
    # A lookup guesses no fewer tokens than it looks up.
    assert planned(host, models, memory="rows", ngram_lookup=9).parameters["ngram_max"] == 9
    assert planned(host, models, memory="interleave").parameters["ngram_max"] == 8


def test_rows_are_distribute_with_each_part_of_the_weights_put_in_its_place(models: Models) -> None:
    one, other = (planned(machine("9754"), models, memory=memory) for memory in ("rows", "distribute"))
    assert one.parameters == other.parameters and one.placement.nodes == other.placement.nodes
    assert one.expect == {**other.expect, "rows": {one.parameters["model"]: 124}}
    drafting = planned(machine("9754"), models, memory="rows", speculation="draft", draft_max=3, draft_threads=16)
    assert drafting.expect["rows"] == {drafting.parameters["model"]: 124, drafting.parameters["draft_model"]: 16}


def test_rows_of_another_engine_are_not_known(host: Host, models: Models) -> None:
    assert "memory rows needs llama.cpp, which gives rows to threads" in refused(
        host, models, Able(engine="ik_llama.cpp"), memory="rows"
    )


def test_a_copy_of_the_weights_on_each_node(models: Models) -> None:
    """The server reads the weights once, and copies them by itself; the plan counts each copy on its own node."""
    host, build = machine("two 7543"), Able(numa_modes=("mirror",))
    plain = planned(host, models, build, memory="interleave")
    one = planned(host, models, build, memory="mirror")
    assert (one.parameters["numa"], one.parameters["load"], one.placement.pinned) == ("mirror", "none", "numa")
    assert one.placement.nodes == (0, 1) and one.need.weights == 2 * plain.need.weights
    assert one.need.kv_cache == plain.need.kv_cache and one.mapped == []
    assert "repack" not in one.parameters and not any("across nodes" in remark for remark in one.remarks)
    assert (
        one.remarks[0]
        == "memory mirror keeps the weights on each of 2 nodes, which takes 78.2 GiB instead of 39.1 GiB."
    )
    assert planned(host, models, build, memory="mirror", threads=16).parameters["threads_batch"] == 62


def test_each_node_needs_room_for_its_copy(models: Models) -> None:
    host, build = machine("two 7543"), Able(numa_modes=("mirror",))
    room = FreeMemory({0: 60 * GB, 1: 200 * GB})
    assert planned(host, models, build, room, memory="mirror", prompt_cache="0MiB")
    uneven = FreeMemory({0: 40 * GB, 1: 200 * GB})
    assert "nodes 0-1 have 74.5 GiB evenly available" in refused(host, models, build, uneven, memory="mirror")


def test_copies_need_a_build_that_makes_them_and_threads_on_each_node(host: Host, models: Models) -> None:
    for engine in ("llama.cpp", "ik_llama.cpp"):
        assert (
            "--numa offers mirror, and /opt/llama-server offers distribute, isolate, numactl. Take memory"
            in refused(host, models, Able(engine=engine), memory="mirror")
        )
    build = Able(numa_modes=("mirror",))
    assert "memory mirror needs --numa mirror: it is made for 2 to 8 nodes" in refused(
        machine("9655"), models, build, memory="mirror"
    )
    assert "the instance has no CPU on node 1" in refused(
        machine("two 7543"), models, build, memory="mirror", cpus="socket0"
    )


def test_distribute_gives_each_node_as_many_threads(host: Host, models: Models) -> None:
    found = planned(host, models, memory="distribute", cpus="1-31,33-40,65-95,97-127")
    assert found.parameters["threads"] == 32


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("9655", {}, "it is made for 2 to 8 nodes, and this host has 1"),
        ("9754", {"nodes": "0-1"}, "the instance has no CPU on node 2-3"),
        ("9754", {"threads": 60, "threads_batch": 124}, "threads and threads_batch must be the same"),
        ("9754", {"speculation": "draft", "draft_placement": "first_ccd"}, "which overrides pins"),
    ],
)
def test_where_distribute_is_not_to_be_had(models: Models, name: str, raw: dict[str, Any], words: str) -> None:
    for memory in ("distribute", "rows"):
        assert words in refused(machine(name), models, memory=memory, **raw)


@pytest.mark.parametrize(("numbers", "words"), [([0, 2], "without holes"), (list(range(16)), "this host has 16")])
def test_nodes_that_distribute_cannot_count(tmp_path: Path, models: Models, numbers: list[int], words: str) -> None:
    tree = hosts.build(tmp_path, l3_per_socket=4, cores_per_l3=4, nodes=len(numbers))
    for node in reversed(range(len(numbers))):
        folder = tmp_path / "sys/devices/system/node"
        (folder / f"node{node}").rename(folder / f"node{numbers[node]}")
    host = Host(tree.fs, {"housekeeping": {"cores": 0}})
    assert words in refused(host, models, memory="distribute")
