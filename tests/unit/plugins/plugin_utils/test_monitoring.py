# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of an inventory Prometheus has to scrape, and what it cannot reach."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.plugin_utils._monitoring import build_scrape_targets

CHAT = {"name": "chat", "model": "/srv/models/m-q4.gguf", "alias": "m", "port": 8080, "host": "10.0.0.1"}


def found(*hosts: dict[str, Any], gateways: tuple[str, ...] = (), port: object = 9100) -> dict[str, Any]:
    return build_scrape_targets(hosts, "prometheus", gateways, port)


def host(name: str = "one", **variables: Any) -> dict[str, Any]:
    return {"inventory_hostname": name, **variables}


def test_an_instance_and_its_host_are_targets() -> None:
    (llama,) = found(host(epyc_llama_instances=[CHAT]))["llama"]
    assert llama == {
        "targets": ["10.0.0.1:8080"],
        "labels": {"host": "one", "service": "chat", "model": "m", "speculation": "ngram"},
    }
    assert found(host(epyc_llama_instances=[CHAT], ansible_host="fd00::1"))["host"] == [
        {"targets": ["[fd00::1]:9100"], "labels": {"host": "one"}}
    ]
    assert found(host(epyc_llama_instances=[CHAT]), port="9200")["host"][0]["targets"] == ["one:9200"]


def test_a_host_that_serves_nothing_is_no_target() -> None:
    assert found(host(), host("two", epyc_vllm_instances=[CHAT])) == {
        "llama": [],
        "gateway": [],
        "host": [],
        "remarks": [],
    }


@pytest.mark.parametrize(
    ("more", "guesses", "model"),
    [
        ({"speculation": "cascade", "draft_model": "/d"}, "ngram,draft", "m"),
        ({"speculation": ["ngram_mod"]}, "ngram_mod", "m"),
        ({"speculation": "none"}, "none", "m"),
        ({"task": "embedding"}, "none", "m"),
        ({"projector": "/p.gguf"}, "none", "m"),
        ({"alias": None}, "ngram", "m-q4"),
    ],
)
def test_an_instance_has_labels_for_service_model_and_speculation(
    more: dict[str, Any], guesses: str, model: str
) -> None:
    labels = found(host(epyc_llama_instances=[{**CHAT, **more}]))["llama"][0]["labels"]
    assert (labels["speculation"], labels["model"]) == (guesses, model)


def test_each_model_of_a_router_is_a_target_where_all_stay_in_memory() -> None:
    desk = {"name": "desk", "port": 8083, "host": "10.0.0.1", "models": {"q": "/q.gguf", "g": "/g.gguf"}}
    one, other = found(host(epyc_llama_instances=[desk]))["llama"]
    assert one == {
        "targets": ["10.0.0.1:8083"],
        "labels": {
            "host": "one",
            "service": "desk",
            "model": "q",
            "speculation": "ngram",
            "instance": "10.0.0.1:8083/q",
            "__param_model": "q",
            "__param_autoload": "false",
        },
    }
    assert other["labels"]["model"] == "g"
    some = found(host(epyc_llama_instances=[{**desk, "models_loaded": 1}]))
    assert some["llama"] == []
    assert some["remarks"] == ["one/desk is not scraped: its models come and go, as models_loaded says."]


def test_an_instance_on_the_loopback_is_scraped_on_its_own_host_only() -> None:
    quiet = {key: value for key, value in CHAT.items() if key != "host"}
    away = found(host(epyc_llama_instances=[quiet]), host("gate"), gateways=("gate",))
    assert away["llama"] == away["gateway"] == [] and len(away["host"]) == 2
    assert away["remarks"] == [
        "one/chat is not scraped: it listens on the loopback. Set host to an address.",
        "The gateway gate is not scraped: epyc_gateway_metrics_bind is on the loopback. Set it to an address.",
    ]
    own = found(host("prometheus", epyc_llama_instances=[quiet]), gateways=("prometheus",))
    assert [own[job][0]["targets"] for job in ("llama", "gateway", "host")] == [
        ["127.0.0.1:8080"],
        ["127.0.0.1:8405"],
        ["127.0.0.1:9100"],
    ]
    assert own["remarks"] == []


@pytest.mark.parametrize(
    ("bind", "place"), [("10.0.0.5:8405", "10.0.0.5:8405"), ("*:8405", "10.0.0.9:8405"), ("[::]:84", "10.0.0.9:84")]
)
def test_a_gateway_is_a_target(bind: str, place: str) -> None:
    gate = host("gate", ansible_host="10.0.0.9", epyc_gateway_metrics_bind=bind)
    assert found(gate, gateways=("gate",))["gateway"] == [{"targets": [place], "labels": {"host": "gate"}}]


def test_malformed_targets_are_refused() -> None:
    with pytest.raises(BadRequest, match="epyc_monitoring_node_port is 'many'"):
        found(port="many")
    with pytest.raises(BadRequest, match="chat: speculation is 'magic'"):
        found(host(epyc_llama_instances=[{**CHAT, "speculation": "magic"}]))
