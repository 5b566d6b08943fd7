# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the processes of vLLM are placed on each kind of machine, what their unit has, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.vllm.plan import Member
from ansible_collections.sovereign.epyc.tests.unit.fakes.vllm_plans import GIB, HELP, Machine, Planned

#: An instance on two hosts, and the places of both.
GROUP = {"cpus": "node0", "workers": ["10.20.0.2:29500"]}
ADDRESSES = ["10.20.0.1", "10.20.0.2"]
HEAD = Member("batch", 0, ADDRESSES, "vlan7")
WORKER = Member("batch", 1, ADDRESSES, "vlan7", 29500)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def refused(machine: Machine, *instances: dict[str, Any], **more: Any) -> str:
    """Return why this is refused."""
    with pytest.raises(BadRequest) as error:
        machine.plan(*instances, **more)
    assert str(error.value).endswith(".")
    return str(error.value)


def bound(one: Planned) -> str:
    return one.service.placement.environment["VLLM_CPU_OMP_THREADS_BIND"]


def test_each_node_has_a_process_with_the_first_cpu_of_each_core(machine: Machine) -> None:
    (one,) = machine.plan({"cpus": "socket0"}, kind="9754 SMT")
    ranks = bound(one).split("|")
    assert len(ranks) == int(one.after("--tensor-parallel-size")) > 1
    cpus = [cpu for rank in ranks for cpu in range(*(int(end) + at for at, end in enumerate(rank.split("-"))))]
    assert max(cpus) < 128, "the second threads of the cores, from CPU 128 on, stay idle"
    assert one.service.parameters["threads"] == len(cpus) == 128 - 4
    assert one.after("--model") == str(machine.model) and one.after("--served-model-name") == "m"


def test_the_http_server_has_the_housekeeping_of_its_nodes(machine: Machine) -> None:
    (one,) = machine.plan({"cpus": "node1"})
    expect = {"cpus": "32-63", "busy_cpus": "33-63", "nodes": "1", "interleaved": False}
    assert one.service.expect == expect
    assert (one.settings("AllowedCPUs"), one.settings("AllowedMemoryNodes")) == (["32-63"], ["1"])
    assert machine.plan({"cpus": "node1"}, cores=0)[0].service.remarks == [
        "There is no housekeeping CPU, so its HTTP server runs among the threads that compute."
    ]


def test_two_sockets_have_an_instance_each(machine: Machine) -> None:
    one, two = machine.plan({"cpus": "socket0"}, {"name": "two", "port": 8091, "cpus": "socket1"}, kind="two 7543")
    assert set(one.service.placement.nodes).isdisjoint(two.service.placement.nodes)
    assert one.service.unit == "vllm-batch.service"


def test_what_the_server_has_decides_its_arguments(machine: Machine) -> None:
    (one,) = machine.plan({"kv_cache": "40GiB", "drain_timeout": 30})
    assert one.after("--kv-cache-memory-bytes") == str(40 << 30) and one.after("--shutdown-timeout") == "30"
    older = HELP.replace("--kv-cache-memory-bytes", "").replace("--shutdown-timeout", "")
    (one,) = machine.plan({"kv_cache": "40GiB"}, usage=older)
    assert "VLLM_CPU_KVCACHE_SPACE=40" in one.settings("Environment") and "--kv-cache-memory-bytes" not in one.words
    assert one.service.remarks[0].startswith("This vLLM has no --shutdown-timeout")


def test_it_compiles_only_where_it_is_asked_to(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several processes each would compile a part of its embedding otherwise, where there may be no compiler."""
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    plain, compiled = (machine.plan({"compile": compile})[0] for compile in (False, True))
    assert "--enforce-eager" in plain.words and "TORCHDYNAMO_DISABLE=1" in plain.settings("Environment")
    assert "--enforce-eager" not in compiled.words and "TORCHDYNAMO_DISABLE=1" not in compiled.settings("Environment")
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "compile needs g++ on this host" in refused(machine, {"compile": True})


def test_a_key_is_in_no_argument(machine: Machine) -> None:
    (one,) = machine.plan({"api_key_file": "/etc/vllm/key", "host": "10.0.0.1"})
    (start,) = one.settings("ExecStart")
    assert start.startswith("/bin/sh -c ") and "/etc/vllm/key" not in start
    assert "$$CREDENTIALS_DIRECTORY/api-key" in start and "/invocations" in one.service.remarks[0]
    assert one.settings("LoadCredential") == ["api-key:/etc/vllm/key"]


def test_the_unit_waits_drains_and_is_hardened_as_every_unit(machine: Machine) -> None:
    (one,) = machine.plan({"start_timeout": 1800})
    tool, url = "/usr/sbin/sovereign-epyc llama", "http://127.0.0.1:8090"
    assert one.settings("ExecStartPost") == [
        f"{tool} await {url} --timeout 1800 --engine vllm",
        f"{tool} answer {url} --task completion --timeout 60 --engine vllm --alias m",
    ]
    assert one.settings("ExecStop") == [f"-{tool} drain {url} --timeout 60 --engine vllm"]
    assert (one.settings("TimeoutStartSec"), one.settings("TimeoutStopSec")) == (["1830"], ["90"])
    assert one.settings("StateDirectory") == ["vllm-batch"] and one.settings("KillMode") == ["mixed"]
    assert one.settings("ProtectSystem") == ["strict"] and one.settings("MemoryDenyWriteExecute") == []
    assert one.settings("RestrictAddressFamilies") == ["AF_INET AF_INET6 AF_UNIX AF_NETLINK"]
    assert (one.settings("IPAddressDeny"), one.settings("IPAddressAllow")) == (["any"], ["localhost"])


def test_the_head_of_a_group_leads_and_answers(machine: Machine) -> None:
    asked = {**GROUP, "host": "10.9.0.1", "clients": ["10.9.0.0/24"], "api_key_file": "/etc/key"}
    (one,) = machine.plan(asked, member=HEAD)
    before, _dash, words = one.settings("ExecStart")[0].partition(" -- ")
    assert before == "/usr/sbin/sovereign-epyc group lead 10.20.0.2:29500" and words.startswith("/bin/sh -c ")
    assert one.after("--tensor-parallel-size") == "2" and one.after("--nnodes") == "2"
    assert one.after("--node-rank") == "0" and one.after("--master-addr") == "10.20.0.1"
    assert one.after("--master-port") == "29501" and "--headless" not in one.words
    assert {"VLLM_HOST_IP=10.20.0.1", "GLOO_SOCKET_IFNAME=vlan7"} <= set(one.settings("Environment"))
    assert one.settings("IPAddressAllow") == ["localhost", "10.20.0.1", "10.20.0.2", "10.9.0.1", "10.9.0.0/24"]
    assert one.service.details["hosts"] == 2 and " await http://10.9.0.1:8090 " in one.text
    assert (one.settings("Restart"), one.settings("StartLimitIntervalSec")) == (["always"], ["0"])


def test_its_worker_follows_and_answers_nobody(machine: Machine) -> None:
    (one,) = machine.plan({**GROUP, "host": "10.9.0.1", "clients": ["10.9.0.0/24"]}, member=WORKER)
    (start,) = one.settings("ExecStart")
    assert start.startswith("/usr/sbin/sovereign-epyc group follow 10.20.0.2:29500 -- /opt/vllm/bin/python -c ")
    assert one.after("--node-rank") == "1" and "--headless" in one.words and "--port" not in one.words
    assert "VLLM_HOST_IP=10.20.0.2" in one.settings("Environment")
    assert one.settings("IPAddressAllow") == ["localhost", "10.20.0.1", "10.20.0.2"]
    assert one.settings("ExecStartPost") == one.settings("ExecStop") == [] and '"url": ""' in one.text


def test_elsewhere_only_its_room_is_kept(machine: Machine) -> None:
    assert machine.plan(GROUP) == []
    assert "both compute on CPU 1" in refused(machine, GROUP, {"name": "b", "port": 1024, "cpus": "node0"})
    machine.weights(150 * GIB)
    assert machine.plan(GROUP) == [], "its hosts divide the weights"
    assert "75 GiB weights and 40 GiB KV cache" in refused(machine, {**GROUP, "kv_cache": "40GiB"})


def test_the_clients_of_an_instance_without_workers(machine: Machine) -> None:
    (one,) = machine.plan({"host": "0.0.0.0", "clients": ["10.9.0.1", "fd00::/64"]})
    assert one.settings("IPAddressAllow") == ["localhost", "10.9.0.1", "fd00::/64"]


def test_groups_that_are_refused(machine: Machine) -> None:
    assert "has workers and listens on 10.9.0.1, and its unit lets in nobody" in refused(
        machine, {**GROUP, "host": "10.9.0.1"}
    )
    assert "with clients, name an address" in refused(
        machine, {**GROUP, "host": "head.example.com", "clients": ["10.9.0.1"]}
    )
    assert "clients has 'gateway'" in refused(machine, {**GROUP, "clients": ["gateway"]})
    assert "workers and group_port are both 29500: take two ports" in refused(machine, {**GROUP, "group_port": 29500})
    assert "8.8.8.8 is not an address of a private network" in refused(machine, {**GROUP, "workers": ["8.8.8.8:29500"]})
    assert "this vLLM has no --headless, which an instance with workers needs" in refused(
        machine, GROUP, member=HEAD, usage=HELP.replace("--headless", "")
    )
    machine.config(num_attention_heads=9)
    assert "on 1 nodes of each of 2 hosts, so that 2 processes would divide 9" in refused(machine, GROUP)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"name": "No"}, "name is 'No'; say a name of small letters"),
        ({"model": "m"}, "model is 'm'; say the whole path"),
        ({"model": "/root/m"}, "services do not see homes"),
        ({"port": "x"}, "port is 'x'"),
        ({"slots": 0}, "slots is '0'"),
        ({"kv_cache": "much"}, "no amount of memory"),
        ({"threads": 4}, "no option 'threads'"),
        ({"cpus": "node9"}, "There is no node9 on this host"),
        ({"cpus": "999"}, "CPU 999 is not on this host"),
        ({"cpus": "housekeeping,node0", "kv_cache": "900GiB"}, "kv_cache, or cpus on more nodes"),
        ({"model": "/srv/none"}, "has no config.json"),
        ({"extra_arguments": ["--frobnicate"]}, "this vLLM has no --frobnicate"),
        ({"extra_arguments": ["--api-key=x"]}, "is set by the option api_key_file"),
        ({"extra_arguments": ["-pp", "2"]}, "ends at the first request"),
        ({"extra_environment": {"VLLM_API_KEY": "x"}}, "is set by the option api_key_file"),
    ],
)
def test_refused(machine: Machine, asked: dict[str, Any], reason: str) -> None:
    assert reason in refused(machine, asked)


def test_heads_that_do_not_divide(machine: Machine) -> None:
    machine.config(num_attention_heads=9)
    said = refused(machine, {"cpus": "node0,node1"})
    assert "2 processes would divide 9 attention heads" in said and "node0" in said
    assert machine.plan({"cpus": "node0"})


def test_two_that_want_the_same_cpus(machine: Machine) -> None:
    said = refused(machine, {"cpus": "node0"}, {"name": "b", "port": 1024, "cpus": "node0"})
    assert "batch and b both compute on CPU 1" in said


def test_another_program_is_no_vllm(machine: Machine) -> None:
    assert "its help has no --host" in refused(machine, {}, usage="usage: something else")
