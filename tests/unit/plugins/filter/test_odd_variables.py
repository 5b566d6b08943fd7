# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Odd values in place of every part of an inventory that a filter reads: each ends in a result or in a sentence.

Instances have all of their options, as the tables of the engine have them, so a new option is tried from its first day.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import FIELDS, Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.vllm.options import FIELDS as VLLM_FIELDS
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.agent_units import AgentUnits
from ansible_collections.sovereign.epyc.tests.unit.fakes import llama_plans, odd_values

#: So many values for each part.
COUNT = 8
FILTERS = Path(__file__).parents[4] / "plugins/filter"
#: Instances with all options, of which those that nobody said are empty.
LLAMA = {
    **dict.fromkeys(FIELDS),
    **{"name": "chat", "alias": "m", "model": "/m.gguf", "host": "10.0.0.1", "port": 8080, "extra_arguments": ["-v"]},
}
ROUTER = {"name": "desk", "models": {"q": "/q.gguf"}, "models_loaded": 1, "host": "10.0.0.1", "port": 8081}
BATCH = {
    **{key: field.default for key, field in VLLM_FIELDS.items()},
    "name": "batch",
    "alias": "b",
    "model": "/m",
    "port": 8090,
    "host": "10.0.0.1",
    "cpus": "node0",
    "kv_cache": "64MiB",
}
GROUPED = {"name": "large", "model": "/m", "port": 8092, "rpc_workers": ["10.20.0.2:50052"]}
TUNED = {"chat": {"options": {"threads": 8}, "run": "r", "ratio": 1.1, "measured_on": {"sku": "9754"}}}
HOST = {
    "inventory_hostname": "epyc-07",
    "epyc_llama_instances": [LLAMA, ROUTER],
    "epyc_vllm_instances": [BATCH],
    "epyc_llama_tuned": TUNED,
    "ansible_host": "10.0.0.1",
    "epyc_gateway_member_address": "10.0.0.1",
    "epyc_gateway_metrics_bind": "10.0.0.1:8405",
    "epyc_gateway_peers_bind": "10.0.0.1:8406",
    "epyc_base_agent_bind": "10.0.0.1:8407",
}
SECOND = {
    "inventory_hostname": "epyc-08",
    "epyc_gateway_peers_bind": "10.0.0.2:8406",
    "epyc_group_address": "10.20.0.2",
}
HEAD = {"inventory_hostname": "epyc-07", "epyc_group_address": "10.20.0.1", "epyc_llama_instances": [GROUPED]}
SETTINGS = {
    "bind": "*:443",
    "certificate": "/c.pem",
    "drained": ["epyc-07"],
    "max_body": "1MiB",
    "metrics_bind": "127.0.0.1:8405",
    "open": False,
    "peers_bind": "10.0.0.1:8406",
    "plain_http": False,
    "refused_fields": ["id_slot"],
    "tenants": [{"name": "team", "sha256": ["a" * 64], "requests_per_minute": 60, "concurrent": 2}],
    "virtual_address": "10.0.0.10",
    "virtual_router_id": 84,
}
INTERFACES = [{"ifname": "eth0", "flags": ["UP"], "addr_info": [{"local": "10.0.0.1", "prefixlen": 24}]}]
#: Roles make the list of hosts and the dictionary of settings; what is in them is written by people.
OF_HOSTS, OF_SETTINGS = 3, 2
MINE = {"repository": "org/House", "file": "House.gguf", "parts": [{"sha256": "a" * 64, "size": 9}], "drafts": ["x"]}
MODELS = [
    {"name": "house"},
    {"name": "own", "url": "https://h/x.gguf", "checksum": [f"sha256:{'a' * 64}"]},
    {"repository": "o/n", "file": "x.gguf", "trust_hub": True, "revision": "0" * 40, "path": "/m/y.gguf"},
]


#: The input of each filter, and by index the parts that a person writes: how deep in them that begins.
INPUTS: dict[str, tuple[list[Any], dict[int, int]]] = {
    "fleet_capacity": ([{}, 20, 2048, {"interactive": 4}, {"house": MINE}], {1: 1, 2: 1, 3: 1, 4: 1}),
    "gateway_plan": ([[HOST, SECOND], "epyc-07", SETTINGS, [HOST, SECOND]], {0: OF_HOSTS, 2: OF_SETTINGS, 3: OF_HOSTS}),
    "gateway_vrrp": ([INTERFACES, "epyc-07", SETTINGS, [HOST, SECOND]], {2: OF_SETTINGS, 3: OF_HOSTS}),
    "group_plan": ([[HEAD, SECOND], ["epyc-07", "epyc-08"], None], {0: OF_HOSTS}),
    "model_files": ([MODELS, {"house": MINE}, "https://hub.example.com", "/m"], {0: 1, 1: 1}),
    "monitoring_targets": ([[HOST, SECOND], "prometheus", ["epyc-07"], 9100], {0: OF_HOSTS, 3: 1}),
    "request_refusals": ([["numa"], ["numa", "cat"], "epyc-07", ["epyc_plan_sku"], ["mine"]], {0: 1, 4: 1}),
    "public_rates": ([12], {}),
    "servable_entries": ([{"house": MINE}], {0: 1}),
    "serving_page": (["http://prometheus.example.com:9090"], {0: 1}),
    "text_to_list": (["numa,cat"], {0: 1}),
    "tuned_file": ([{"epyc-07": {"tuned": TUNED, "results": [], "now": []}}, TUNED, True], {0: 4, 1: 1}),
    "with_models": ([[LLAMA, ROUTER], [], {"house": MINE}], {0: 1, 2: 1}),
    "with_tuned": ([[LLAMA, ROUTER], TUNED], {0: 1, 1: 1}),
}
#: Those whose input is a document of a program; what is none of these their own tests hold against them.
OF_DOCUMENTS = {
    *("benchmark_csv", "benchmark_metrics", "benchmark_page", "benchmark_report"),
    *("comparison_page", "prediction_report", "run_comparison"),
}


def call(name: str, given: list[Any]) -> Callable[[], Any]:
    module = importlib.import_module(f"ansible_collections.sovereign.epyc.plugins.filter.{name}")
    return lambda: module.FilterModule().filters()[name](*given)


def test_every_filter_is_tested_here() -> None:
    assert {path.stem for path in FILTERS.glob("[a-z]*.py")} == INPUTS.keys() | OF_DOCUMENTS


@pytest.mark.parametrize("name", INPUTS)
def test_every_odd_value_ends_in_a_sentence(name: str) -> None:
    given, written = INPUTS[name]
    judge = odd_values.Judge((AnsibleFilterError,))
    call(name, given)()
    for path in [path for path in odd_values.parts(given) if path and len(path) >= written.get(path[0], 99)]:
        for value in odd_values.sample(COUNT, f"{name} {path}"):
            judge.try_call(".".join(map(str, (name, *path))), value, call(name, odd_values.put(given, path, value)))
    assert not judge.faults, "\n".join(judge.faults)


def test_every_odd_option_of_an_instance_is_planned_or_refused(tmp_path: Path) -> None:
    judge = odd_values.Judge((BadRequest,))
    for value in odd_values.VALUES:
        judge.try_call("instance", value, partial(Options.parse, value))
        asked = {"bind": "10.0.0.1:8407", "allow": value, "untuned": "50%", "unknown": "100%"}
        judge.try_call("agent_allow", value, partial(AgentUnits, asked))
    small = llama_plans.models_in(tmp_path).small.path
    for key in FIELDS:
        for value in odd_values.sample(COUNT, f"planned {key}"):
            raw = {"name": "chat", "binary": "/usr/bin/llama-server", "model": small, "port": 8080, key: value}
            judge.try_call(key, value, partial(Options.parse, raw))
    assert not judge.faults, "\n".join(judge.faults)
