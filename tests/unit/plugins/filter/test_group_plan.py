# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who works for whom in a group of hosts, and each inventory that cannot be one."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.sovereign.epyc.plugins.filter import group_plan

PLAN = group_plan.FilterModule().filters()["group_plan"]
PROGRAMS = ["llama-server", "ggml-rpc-server"]
BUILD = {file: f"sha256:{letter * 64}" for file, letter in zip([*PROGRAMS, "libllama.so.0"], "abc")}


def instance(*workers: str, **more: Any) -> dict[str, Any]:
    return {"name": "large", "model": "a-name-of-the-catalogue", "port": 8080, "rpc_workers": list(workers), **more}


def host(name: str, address: str | None, *instances: dict[str, Any], **more: Any) -> dict[str, Any]:
    given = {"inventory_hostname": name, **({"epyc_group_address": address} if address else {}), **more}
    return {**given, "epyc_llama_instances": list(instances)} if instances else given


HEAD = host("h1", "10.20.0.1", instance("10.20.0.2:50052", "10.20.0.3:50053"))
SECOND, THIRD = host("h2", "10.20.0.2"), host("h3", "10.20.0.3")


def plan(*hosts: dict[str, Any], played: list[str] | None = None, programs: list[str] | None = None) -> dict[str, Any]:
    return dict(PLAN(hosts, played or [one["inventory_hostname"] for one in hosts], programs))


def refused(*hosts: dict[str, Any], **more: Any) -> str:
    with pytest.raises(AnsibleFilterError) as error:
        plan(*hosts, **more)
    said = str(error.value)
    assert said.endswith("."), said
    return said


def test_a_head_and_its_workers() -> None:
    same = {
        "engine": "llama_rpc",
        "members": ["h1", "h2", "h3"],
        "addresses": ["10.20.0.1", "10.20.0.2", "10.20.0.3"],
        "instance": HEAD["epyc_llama_instances"][0],
        "unit": "llama-large.service",
        "clients": ["10.20.0.1"],
    }
    assert plan(SECOND, HEAD, THIRD) == {
        "h1": {**same, "role": "head", "rank": 0, "address": "10.20.0.1"},
        "h2": {**same, "role": "worker", "rank": 1, "address": "10.20.0.2", "port": 50052},
        "h3": {**same, "role": "worker", "rank": 2, "address": "10.20.0.3", "port": 50053},
    }


LARGE = {"name": "large", "model": "/srv/m", "port": 8090, "workers": ["10.20.0.2:29500"], "api_key_file": "/etc/key"}


def of_vllm(*instances: dict[str, Any], **more: Any) -> dict[str, Any]:
    return host("h1", "10.20.0.1", epyc_vllm_instances=list(instances), **more)


def test_a_worker_of_vllm_has_the_instance_of_its_head_without_its_key() -> None:
    planned = plan(of_vllm({"name": "small"}, LARGE), {**SECOND, "epyc_group_cpus": "node1"})
    assert [(one["engine"], one["unit"], one["rank"]) for one in planned.values()] == [
        ("vllm", "vllm-large.service", 0),
        ("vllm", "vllm-large.service", 1),
    ]
    assert planned["h1"]["instance"] == LARGE
    of_worker = {key: value for key, value in LARGE.items() if key != "api_key_file"}
    assert planned["h2"]["instance"] == {**of_worker, "cpus": "node1"}


def test_members_of_vllm_have_the_same_model() -> None:
    head, worker = (
        {**one, "__epyc_group_build": {"vLLM": "vllm-0.32.0", "the weights of the model": weights}}
        for one, weights in ((of_vllm(LARGE), "7 bytes"), (SECOND, "8 bytes"))
    )
    assert refused(head, worker, programs=[]) == (
        "the weights of the model is 7 bytes on h1 and 8 bytes on h2: all hosts of a group need the same vLLM, the "
        "same model and as many nodes. Remove the difference. Nothing was changed."
    )
    assert plan(head, {**worker, "__epyc_group_build": head["__epyc_group_build"]}, programs=[])


def test_two_groups_and_other_instances_of_a_head() -> None:
    """Only the group is planned that the run comes to."""
    small = {"name": "small", "model": "/m/8b.gguf", "port": 8081}
    other = host("i1", "fd00::1", small, instance("[fd00::2]:50052"))
    hosts = (HEAD, SECOND, THIRD, other, host("i2", "fd00:0::2"))
    assert {name: one["role"] for name, one in plan(*hosts).items()} == {
        "h1": "head", "h2": "worker", "h3": "worker", "i1": "head", "i2": "worker",
    }  # fmt: skip
    assert list(plan(*hosts, played=["i1", "i2"])) == ["i1", "i2"]


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ((HEAD, SECOND, host("h3", None)), "h3 has no epyc_group_address: set it to the address that h3 has"),
        (
            (HEAD, SECOND, host("h3", "203.0.113.9")),
            "h3: epyc_group_address: 203.0.113.9 is not an address of a private",
        ),
        (
            (HEAD, SECOND, host("h3", "8.8.8.8")),
            "h3: epyc_group_address: 8.8.8.8 is not an address of a private network",
        ),
        ((HEAD, SECOND, host("h3", "127.0.0.1")), "127.0.0.1 is not an address of a private network"),
        ((HEAD, SECOND, host("h3", "h3.example.com")), "h3: epyc_group_address: 'h3.example.com' is no IP address"),
        ((HEAD, SECOND, host("h3", "10.20.0.2")), "h2 has the epyc_group_address of another host"),
        (
            (HEAD, SECOND),
            "h1/large names the worker 10.20.0.3, which no host of epyc_llama_group has as its epyc_group_address",
        ),
        ((HEAD, SECOND, THIRD, host("h4", "10.20.0.4")), "h4 is in epyc_llama_group, and neither has an instance"),
        ((SECOND, THIRD), "No host of epyc_llama_group has an instance with workers: name them in rpc_workers"),
        ((host("h1", "10.20.0.1", instance("10.20.0.1:50052")),), "h1 is a worker of h1 and a head itself"),
        (
            (HEAD, SECOND, THIRD, host("h4", "10.20.0.4", instance("10.20.0.2:50052"))),
            "h2 is a worker of h1 and h4: it can work for one of them",
        ),
        (
            (host("h1", "10.20.0.1", instance("10.20.0.2:50052"), instance("10.20.0.2:50052")), SECOND),
            "h1 has two instances with rpc_workers or workers",
        ),
        ((of_vllm(LARGE, LARGE), SECOND), "h1 has two instances with rpc_workers or workers"),
        ((of_vllm({**LARGE, "workers": ["10.20.0.9:29500"]}), SECOND), "h1/large names the worker 10.20.0.9, which no"),
        ((of_vllm({**LARGE, "port": "x"}), SECOND), "h1/large: port is 'x'"),
        (
            (host("h1", "10.20.0.1", instance("10.20.0.2:50052", speculation="draft", draft_model="/d.gguf")), SECOND),
            "h1/large: speculation draft with rpc_workers: each drafted token would wait for the network",
        ),
        ((host("h1", "10.20.0.1", instance("10.20.0.2")), SECOND), "'10.20.0.2' has no port from 1024 to 65535"),
        ((host("h1", "10.20.0.1", instance("1.2.3.4:50052")), SECOND), "1.2.3.4 is not an address of a private"),
    ],
)
def test_what_is_no_group(hosts: tuple[dict[str, Any], ...], words: str) -> None:
    assert words in refused(*hosts)


def test_a_run_that_leaves_a_member_out() -> None:
    said = refused(HEAD, SECOND, THIRD, played=["h1", "h3"])
    assert said == "This run leaves out h2, which is in the group of h1: run it without -l, or name h1,h2,h3."


def built(one: dict[str, Any], **changed: str | None) -> dict[str, Any]:
    build = {**BUILD, **changed}
    return {**one, "__epyc_group_build": {name: sum for name, sum in build.items() if sum}}


def test_the_same_build() -> None:
    members = [built(one) for one in (HEAD, SECOND, THIRD)]
    assert len(plan(*members, programs=PROGRAMS)) == 3


@pytest.mark.parametrize("file", sorted(BUILD))
def test_another_build_is_refused_with_both_sums(file: str) -> None:
    said = refused(built(HEAD), built(SECOND), built(THIRD, **{file: "d" * 64}), programs=PROGRAMS)
    assert f"{file} is {BUILD[file]} on h1 and {'d' * 64} on h3: all hosts of a group" in said
    assert "Nothing was changed" in said


def test_what_is_not_there_is_refused() -> None:
    said = refused(built(HEAD), built(SECOND, **{"ggml-rpc-server": None}), built(THIRD), programs=PROGRAMS)
    assert re.match("h2 has no ggml-rpc-server where it should be: install llama.cpp there", said)
    said = refused(built(HEAD), built(SECOND, **{"libllama.so.0": None}), built(THIRD), programs=PROGRAMS)
    assert "libllama.so.0 is sha256:" in said and "on h1 and not there on h2" in said
    said = refused(built(HEAD), built(SECOND), THIRD, programs=PROGRAMS)
    assert said == "h3 was not reached, and the group of h1 needs it. Nothing was changed."
