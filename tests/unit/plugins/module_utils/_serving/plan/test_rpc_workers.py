# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A model of which other hosts hold a part: what stays with the head, what is refused, and the plan of a worker."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.rpc_workers import RpcWorker, plan_worker
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import GB, Models, machine
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import planned as plan
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import refused as refusal

TWO = ["10.20.0.2:50052", "10.20.0.3:50052"]
ASKED = {"address": "10.20.0.2", "port": 50052, "clients": ["10.20.0.1"], "binary": "/opt/ggml-rpc-server"}
NOTHING = dict.fromkeys(("cpus", "nodes", "threads", "l3_group"))


def test_each_host_has_as_many_layers(models: Models) -> None:
    alone, head = (plan(machine("9754"), models, **more) for more in ({}, {"rpc_workers": TWO}))
    layers = models.large.header_number_of_architecture("block_count") or 0
    assert layers and "rpc_workers" not in alone.parameters
    assert head.parameters["rpc_workers"] == ",".join(TWO) and head.parameters["rpc_layers"] == layers * 2 // 3
    assert 0.33 < head.need.weights / alone.need.weights < 0.4
    assert head.need.kv_cache < 0.4 * alone.need.kv_cache
    (told,) = [remark for remark in head.remarks if "experimental" in remark]
    assert f"{layers * 2 // 3} of {layers} layers are on other hosts" in told and "makes room, not speed" in told


def test_a_model_that_fits_no_host_fits_two(models: Models) -> None:
    free = {"free": FreeMemory(dict.fromkeys(range(4), 8 * GB))}
    small = {"prompt_cache": "0MiB", "context": 4096}
    assert "needs" in refusal(machine("9754"), models, **free, **small)
    free = {"free": FreeMemory(dict.fromkeys(range(4), 8 * GB))}
    assert plan(machine("9754"), models, **free, **small, rpc_workers=TWO[:1]).parameters["rpc_layers"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"speculation": "cascade"},
            "speculation ngram,draft with rpc_workers: each drafted token would wait for the netw",
        ),
        (
            {"draft_placement": "own_ccd", "speculation": "draft", "rpc_port": 1234},
            "speculation draft with rpc_workers",
        ),
        ({"hugepages": "hugetlbfs"}, "hugepages hugetlbfs copies the whole model to this host"),
        ({"rpc_layers": 1000}, "rpc_layers is 1000, and "),
        ({"rpc_workers": [TWO[0], TWO[0]]}, "rpc_workers names 10.20.0.2:50052 twice"),
        ({"rpc_workers": ["203.0.113.1:50052"]}, "203.0.113.1 is not an address of a private network"),
        ({"rpc_workers": ["[2001:db8::1]:50052"]}, "2001:db8::1 is not an address of a private network"),
        ({"rpc_workers": ["127.0.0.1:50052"]}, "127.0.0.1 is not an address of a private network"),
        ({"rpc_workers": ["0.0.0.0:50052"]}, "0.0.0.0 is not an address of a private network"),
        ({"rpc_workers": ["epyc-02:50052"]}, "'epyc-02' is no IP address"),
        ({"rpc_workers": ["10.20.0.2:22"]}, "'10.20.0.2:22' has no port from 1024 to 65535"),
        ({"rpc_workers": [], "rpc_layers": 3}, "rpc_layers has no effect without rpc_workers"),
    ],
)
def test_what_an_instance_with_workers_cannot_have(models: Models, asked: dict[str, Any], words: str) -> None:
    assert words in refusal(machine("9754"), models, **{"rpc_workers": TWO, **asked})


def test_a_projector_is_refused() -> None:
    named = {"name": "a", "binary": "/b", "model": "/m", "port": 8080, "rpc_workers": TWO}
    with pytest.raises(BadRequest, match="projector has not been tried with rpc_workers"):
        Options.parse({**named, "projector": "/p.gguf"})


def worker(name: str = "9754", openmp: bool = True, **asked: Any) -> RpcWorker:
    host = machine(name)
    free = FreeMemory({node.id: 200 * GB for node in host.topology.nodes})
    return plan_worker(host, {**ASKED, **NOTHING, **asked}, openmp, free)


def test_a_worker_has_a_thread_for_each_core_and_keeps_weights() -> None:
    one = worker()
    cores = len(machine("9754").topology.cores) - len(machine("9754").plan.housekeeping)
    assert one.arguments == ["-H", "10.20.0.2", "-p", "50052", "-t", str(cores), "-c"]
    assert cores > 100 and len(one.placement.environment["GOMP_CPU_AFFINITY"].split()) == cores
    assert (one.placement.policy, one.expect["nodes"]) == ("interleave", "0-3")
    assert "GOMP_CPU_AFFINITY" not in worker(openmp=False).placement.environment


def test_where_a_worker_is_asked_to_be() -> None:
    one = worker(nodes="1", threads=8)
    assert (one.threads, one.placement.policy, one.expect["nodes"]) == (8, "bind", "1")
    assert worker("two 7543", cpus="socket1").expect["nodes"] == "1"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"address": "8.8.8.8"}, "address: 8.8.8.8 is not an address of a private network"),
        ({"clients": []}, "clients is empty: name the address of the host whose server uses this worker"),
        ({"clients": ["10.20.0.1", "0.0.0.0"]}, "clients: 0.0.0.0 is not an address of a private network"),
        ({"threads": 300}, "threads is 300, but there are "),
        ({"port": 80}, "port is '80'; say a whole number from 1024 to 65535"),
    ],
)
def test_a_worker_that_cannot_be(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        worker(**asked)
    assert words in str(caught.value) and str(caught.value).endswith(".")
