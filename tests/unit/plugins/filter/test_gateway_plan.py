# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the gateway learns from the inventory, and each inventory that it refuses."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.sovereign.epyc.plugins.filter import gateway_plan

PLAN = gateway_plan.FilterModule().filters()["gateway_plan"]
HASH = hashlib.sha256(b"key").hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()
SETTINGS = {
    "bind": "*:443",
    "certificate": "/etc/gateway.pem",
    "drained": [],
    "max_body": "1MiB",
    "metrics_bind": "127.0.0.1:8405",
    "open": False,
    "peers_bind": "127.0.0.1:8406",
    "plain_http": False,
    "refused_fields": ["id_slot"],
    "tenants": [{"name": "team", "sha256": [HASH]}],
}


def instance(**more: Any) -> dict[str, Any]:
    return {"name": "a", "alias": "chat", "model": "/m/8b.gguf", "host": "10.0.0.1", "port": 8081, "slots": 4, **more}


def host(name: str, *instances: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"inventory_hostname": name, "epyc_llama_instances": list(instances), **more}


def plan(*hosts: dict[str, Any], gateways: Sequence[dict[str, Any]] = (), **settings: Any) -> dict[str, Any]:
    return dict(PLAN(hosts, "gw", {**SETTINGS, **settings}, gateways))


def servers(*hosts: dict[str, Any]) -> dict[str, list[tuple[str, str, int]]]:
    """Return the servers of each model."""
    return {
        model["alias"]: [(one["name"], one["address"], one["slots"]) for one in model["servers"]]
        for model in plan(*hosts)["models"]
    }


def refused(*hosts: dict[str, Any], **settings: Any) -> str:
    """Return why this is refused, which is one sentence."""
    with pytest.raises(AnsibleFilterError) as error:
        plan(*hosts, **settings)
    said = str(error.value)
    assert said.endswith(".") and len(re.findall(r"\.(?= |$)", said)) == 1, said
    return said


def test_instances_of_all_hosts_by_their_alias() -> None:
    code = instance(name="b", alias="org/code", model="/m/c.gguf", port=8082, slots=1)
    one = host("h1", instance(), code)
    two = host("h2", instance(host="10.0.0.2", model="/elsewhere/8b.gguf"), {**code, "host": "10.0.0.2"})
    assert servers(one, two, host("h3")) == {
        "chat": [("h1:a", "10.0.0.1:8081", 4), ("h2:a", "10.0.0.2:8081", 4)],
        "org/code": [("h1:b", "10.0.0.1:8082", 1), ("h2:b", "10.0.0.2:8082", 1)],
    }
    assert [one["id"] for one in json.loads(plan(one)["listing"])["data"]] == ["chat", "org/code"]


def test_each_of_several_models_is_served_by_its_name() -> None:
    desk = {
        "name": "desk",
        "host": "10.0.0.1",
        "port": 8083,
        "slots": 2,
        "models": {"q": "/m/q.gguf", "g": "/m/g.gguf"},
    }
    twin = instance(alias="q", model="/other/q.gguf", host="10.0.0.2")
    assert servers(host("h1", desk), host("h2", twin)) == {
        "g": [("h1:desk", "10.0.0.1:8083", 2)],
        "q": [("h1:desk", "10.0.0.1:8083", 2), ("h2:a", "10.0.0.2:8081", 4)],
    }
    assert "h1/x and h1/desk are both at 10.0.0.1:8083" in refused(host("h1", desk, {**desk, "name": "x"}))
    assert "h1: epyc_llama_instances: desk: an instance with models has no alias" in refused(
        host("h1", {**desk, "alias": "m"})
    )
    assert "The alias q is q.gguf on h1/desk and r.gguf" in refused(
        host("h1", desk), host("h2", {**twin, "model": "/m/r.gguf"})
    )


def test_all_instances_of_a_host_are_drained() -> None:
    both = host("h1", instance(), instance(name="b", alias="code", port=8082))
    models = plan(both, host("h2", instance(host="10.0.0.2")), drained=["h1"])["models"]
    drained = {one["name"]: one["drained"] for model in models for one in model["servers"]}
    assert drained == {"h1:a": True, "h1:b": True, "h2:a": False}


def test_without_an_option_its_default_holds() -> None:
    """As on the host: one slot, and what tune.yml has found out wins."""
    bare = instance()
    del bare["slots"]
    assert servers(host("h1", bare))["chat"] == [("h1:a", "10.0.0.1:8081", 1)]
    tuned = {"a": {"options": {"slots": 6}}}
    assert servers(host("h1", bare, epyc_llama_tuned=tuned))["chat"] == [("h1:a", "10.0.0.1:8081", 6)]


@pytest.mark.parametrize(
    ("listens", "more", "address"),
    [
        ("0.0.0.0", {}, "h1:8081"),
        ("0.0.0.0", {"ansible_host": "192.0.2.7"}, "192.0.2.7:8081"),
        ("::", {"ansible_host": "192.0.2.7", "epyc_gateway_member_address": "fd00::7"}, "[fd00::7]:8081"),
        ("fd00::8", {"ansible_host": "192.0.2.7"}, "[fd00::8]:8081"),
    ],
)
def test_where_the_gateway_reaches_an_instance(listens: str, more: dict[str, Any], address: str) -> None:
    assert servers(host("h1", instance(host=listens), **more))["chat"][0][1] == address


def test_the_host_of_the_gateway_may_serve_on_its_loopback() -> None:
    bare = instance()
    del bare["host"]
    assert servers(host("gw", bare))["chat"][0][1] == "127.0.0.1:8081"
    assert servers(host("gw", instance(host="0.0.0.0"), ansible_host="192.0.2.1"))["chat"][0][1] == "127.0.0.1:8081"


@pytest.mark.parametrize(
    ("bind", "agent"),
    [
        (None, None),
        ("10.0.0.1:8407", {"address": "", "port": "8407", "asks": "a"}),
        ("*:8407", {"address": "", "port": "8407", "asks": "a"}),
        ("10.1.0.1:8407", {"address": "10.1.0.1", "port": "8407", "asks": "a"}),
        ("[fd00::1]:8407", {"address": "[fd00::1]", "port": "8407", "asks": "a"}),
    ],
)
def test_where_the_agent_of_a_host_is_asked(bind: str | None, agent: dict[str, str] | None) -> None:
    (model,) = plan(host("h1", instance(), epyc_base_agent_bind=bind))["models"]
    assert model["servers"][0]["agent"] == agent


def test_each_backend_has_a_name_of_its_own() -> None:
    aliases = ("a/b", "a_b", "a:b")
    hosts = [host(f"h{n}", instance(alias=one, host=f"10.0.0.{n}")) for n, one in enumerate(aliases)]
    names = [model["backend"] for model in plan(*hosts)["models"]]
    assert len(set(names)) == 3 and all(re.fullmatch(r"model_[\w.-]+", name) for name in names), names


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ([], "No host has epyc_llama_instances or epyc_vllm_instances, so there is no model to serve"),
        ([host("h1")], "No host has epyc_llama_instances"),
        ([host("h1", instance(alias=None))], "h1/a has no alias, by which clients of the gateway ask"),
        ([host("h1", instance(alias='x"y'))], "h1/a has the alias 'x\"y'"),
        (
            [host("h1", instance()), host("h2", instance(host="10.0.0.2", model="/m/70b.gguf"))],
            "The alias chat is 8b.gguf on h1/a and 70b.gguf on h2/a",
        ),
        (
            [host("h1", instance(), instance(name="b", alias="code"))],
            "h1/b and h1/a are both at 10.0.0.1:8081: give one another port.",
        ),
        ([host("h1", instance(host="127.0.0.1"))], "h1/a listens on 127.0.0.1, where no gateway reaches it"),
        ([host("h1", instance(host=None))], "h1/a listens on 127.0.0.1, where no gateway reaches it"),
        ([host("localhost", instance(host="0.0.0.0"))], "localhost has no address for the gateway"),
        (
            [host("h1", instance(host="0.0.0.0"), ansible_host="a b")],
            "h1 has no address for the gateway, because 'a b'",
        ),
        (
            [host("h1", instance(slots=0))],
            "h1: epyc_llama_instances: a: slots is '0': set it to a whole number from 1 up.",
        ),
        ([host("h1", instance(slots="many"))], "h1: epyc_llama_instances: a: slots is 'many'"),
        (
            [host("h1", instance(port=None))],
            "h1: epyc_llama_instances: a: port is missing: set it to a number",
        ),
        ([host("h1", instance(extra_arguments=["--parallel=8"]))], "h1/a has --parallel=8 in extra_arguments"),
        ([host("h1", instance(), epyc_base_agent_bind="8407")], "h1 has epyc_base_agent_bind '8407'"),
        (
            [host("h1", instance(), epyc_base_agent_bind="127.0.0.1:84")],
            "The agent of h1 listens on 127.0.0.1, where no",
        ),
        ([host("h1", instance(), epyc_llama_tuned={"a": {}})], "epyc_llama_tuned: a has no options"),
    ],
)
def test_what_cannot_be_served_is_refused(hosts: list[dict[str, Any]], said: str) -> None:
    if "epyc_llama_tuned" in said:  # The sentences of this one are those of another module.
        with pytest.raises(AnsibleFilterError, match=re.escape(said)):
            plan(*hosts)
    else:
        assert refused(*hosts).startswith(said)


def test_tenants_have_hashes_and_limits() -> None:
    asked = [
        {"name": "team", "sha256": [HASH.upper()], "requests_per_minute": "60", "concurrent": None},
        {"name": "night", "sha256": [OTHER], "concurrent": 2},
    ]
    assert plan(host("h1", instance()), tenants=asked)["tenants"] == [
        {"name": "team", "sha256": [HASH], "requests_per_minute": 60},
        {"name": "night", "sha256": [OTHER], "concurrent": 2},
    ]


def test_a_tenant_may_have_some_models_and_short_answers() -> None:
    hosts = host("h1", instance(), instance(name="b", alias="code", port=8082))
    asked = [{"name": "team", "sha256": [HASH], "models": ["code"], "max_tokens": "500"}]
    (tenant,) = plan(hosts, tenants=asked)["tenants"]
    assert tenant["models"] == ["code"] and tenant["max_tokens"] == 500
    assert [model["id"] for model in json.loads(tenant["listing"])["data"]] == ["code"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"certificate": ""},
            "epyc_gateway_certificate is empty, so that everyone on the network path",
        ),
        ({"tenants": []}, "epyc_gateway_tenants is empty, so that anyone could send requests"),
        ({"metrics_bind": "10.0.0.9:443"}, "epyc_gateway_bind and epyc_gateway_metrics_bind have the same port 443"),
        ({"peers_bind": "127.0.0.1"}, "epyc_gateway_peers_bind is '127.0.0.1'"),
        ({"drained": ["h1", "h9"]}, "epyc_gateway_drained names h9, which serves nothing here"),
        ({"max_body": "1GiB"}, "epyc_gateway_max_body is 1GiB"),
        ({"max_body": "large"}, "epyc_gateway_max_body: 'large' is no amount of memory"),
        ({"tenants": [{"name": "a b", "sha256": [HASH]}]}, "epyc_gateway_tenants: 'a b' is no name of a tenant"),
        ({"tenants": [{"name": "a", "sha256": ["secret"]}]}, "epyc_gateway_tenants: a needs sha256"),
        ({"tenants": [{"name": "a", "sha256": []}]}, "epyc_gateway_tenants: a needs sha256"),
        ({"tenants": [{"name": "a", "sha256": [HASH]}] * 2}, "epyc_gateway_tenants names a twice"),
        (
            {"tenants": [{"name": "a", "sha256": [HASH]}, {"name": "b", "sha256": [OTHER, HASH.upper()]}]},
            "epyc_gateway_tenants: a and b have the same key",
        ),
        ({"tenants": [{"name": "a", "sha256": [HASH], "concurrent": 0}]}, "epyc_gateway_tenants: a has no concurrent"),
        ({"tenants": [{"name": "a", "sha256": [HASH], "max_tokens": -1}]}, "epyc_gateway_tenants: a has no max_tokens"),
        (
            {"tenants": [{"name": "a", "sha256": [HASH], "models": ["chat", "cat"]}]},
            "epyc_gateway_tenants: a may use cat, which no host serves: name some of chat.",
        ),
        (
            {"tenants": [{"name": "a", "sha256": [HASH], "models": []}]},
            "epyc_gateway_tenants: a may use no model, which no host serves",
        ),
        ({"refused_fields": ["id slot"]}, "epyc_gateway_refused_fields names 'id slot': name a field of requests"),
        ({"refused_fields": ["model"]}, "epyc_gateway_refused_fields names 'model'"),
        ({"refused_fields": "lora"}, "epyc_gateway_refused_fields is a text; it is a list of fields"),
    ],
)
def test_what_is_not_safe_is_refused(changed: dict[str, Any], said: str) -> None:
    refusal = refused(host("h1", instance()), **changed)
    assert refusal.startswith(said)
    assert "secret" not in refusal and HASH not in refusal


def test_what_is_not_safe_can_be_asked_for() -> None:
    assert plan(host("h1", instance()), certificate="", plain_http=True, tenants=[], open=True)["tenants"] == []


def gateways(*binds: Any) -> list[dict[str, Any]]:
    """Return gateways with these binds; the first one is the one that is planned."""
    return [
        {"inventory_hostname": name, **({} if bind is None else {"epyc_gateway_peers_bind": bind})}
        for name, bind in zip(("gw", "gw/2", "gw3"), binds, strict=False)
    ]


def test_gateways_know_each_other() -> None:
    """In the order of the inventory, each at what it has there; this one at its own variable."""
    made = plan(host("h1", instance()), gateways=gateways(None, "10.0.0.12:8407"), peers_bind="10.0.0.11:8406")
    assert made["peers"] == [
        {"name": "gw", "bind": "10.0.0.11:8406"},
        {"name": "gw_2", "bind": "10.0.0.12:8407"},
    ]
    assert made["peer"] == "gw"


@pytest.mark.parametrize("alone", [[], gateways("127.0.0.1:8406")])
def test_one_gateway_hands_over_to_itself(alone: list[dict[str, Any]]) -> None:
    assert plan(host("h1", instance()), gateways=alone)["peers"] == [{"name": "gw", "bind": "127.0.0.1:8406"}]


@pytest.mark.parametrize(
    ("own", "others", "said"),
    [
        (
            "127.0.0.1:8406",
            ["10.0.0.12:8406"],
            "epyc_gateway_peers_bind of gw is '127.0.0.1:8406', where no other gateway",
        ),
        ("*:8406", ["10.0.0.12:8406"], "epyc_gateway_peers_bind of gw is '*:8406'"),
        ("10.0.0.11:8406", [None], "epyc_gateway_peers_bind of gw/2 is ''"),
        ("10.0.0.11:8406", ["0.0.0.0:8406"], "epyc_gateway_peers_bind of gw/2 is '0.0.0.0:8406'"),
        ("10.0.0.11:8406", ["10.0.0.12"], "epyc_gateway_peers_bind of gw/2 is '10.0.0.12'"),
        ("10.0.0.11:8406", ["gw2.example.com:8406"], "epyc_gateway_peers_bind of gw/2 is 'gw2.example.com:8406'"),
        ("10.0.0.11:8406", ["10.0.0.12:8406", "10.0.0.11:8406"], "gw and gw3 have the same epyc_gateway_peers_bind"),
    ],
)
def test_gateways_that_do_not_reach_each_other_are_refused(own: str, others: list[Any], said: str) -> None:
    assert refused(host("h1", instance()), gateways=gateways(None, *others), peers_bind=own).startswith(said)


def test_a_hundred_hosts() -> None:
    hosts = [host(f"h{n}", instance(host=f"10.0.1.{n}")) for n in range(100)]
    assert len(servers(*hosts)["chat"]) == 100


def test_instances_of_vllm_are_servers_too() -> None:
    two = {"name": "a", "model": "/srv/models/8b.gguf", "port": 8090, "host": "10.0.0.2"}
    both = host("h2", instance(port=8081, host="10.0.0.2"), epyc_vllm_instances=[{**two, "alias": "chat"}])
    only = {
        "inventory_hostname": "h3",
        "epyc_vllm_instances": [{**two, "host": "10.0.0.3", "model": "/srv/models/other"}],
    }
    none = {"inventory_hostname": "h4"}
    assert servers(both, only, none) == {
        "chat": [("h2:a", "10.0.0.2:8081", 4), ("h2:vllm-a", "10.0.0.2:8090", 32)],
        "other": [("h3:vllm-a", "10.0.0.3:8090", 32)],
    }
    (server,) = plan({**only, "epyc_base_agent_bind": "10.0.0.3:8407"})["models"][0]["servers"]
    assert server["agent"] == {"address": "", "port": "8407", "asks": "vllm a"}
    assert refused(none).startswith("No host has epyc_llama_instances or epyc_vllm_instances")
