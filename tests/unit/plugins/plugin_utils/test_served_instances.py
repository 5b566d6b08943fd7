# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wrong kinds of values and instances that nobody reaches: each filter refuses them by host, variable and instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.plugin_utils import (
    _group_plan,
    _model_catalogue,
    _monitoring,
    _served_instances,
    _tuned_options,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._gateway import routing

CHAT = {"name": "chat", "alias": "m", "model": "/m.gguf", "host": "10.0.0.1", "port": 8080}
SETTINGS = {
    "bind": "*:443",
    "certificate": "/c.pem",
    "drained": [],
    "max_body": "1MiB",
    "metrics_bind": "127.0.0.1:8405",
    "open": True,
    "peers_bind": "127.0.0.1:8406",
    "plain_http": False,
    "refused_fields": ["id_slot"],
    "tenants": [],
}


def _of_gateway(**variables: Any) -> Any:
    return routing.build_haproxy_template_values([{"inventory_hostname": "epyc-07", **variables}], "gw", SETTINGS)


def _of_monitoring(**variables: Any) -> Any:
    return _monitoring.build_scrape_targets([{"inventory_hostname": "epyc-07", **variables}], "prometheus", (), 9100)


def _of_group(**variables: Any) -> Any:
    return _group_plan.plan_members_of_groups(
        [{"inventory_hostname": "epyc-07", "epyc_group_address": "10.0.0.1", **variables}], ()
    )


FLEET = [_of_gateway, _of_monitoring, _of_group]


def refusal(call: Callable[..., Any], *given: Any, **more: Any) -> str:
    with pytest.raises(BadRequest) as error:
        call(*given, **more)
    return str(error.value)


@pytest.mark.parametrize("call", FLEET)
@pytest.mark.parametrize("variable", ["epyc_llama_instances", "epyc_vllm_instances"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [({"name": "a"}, "a dictionary"), ("name: a", "a text"), (True, "true"), (5, "a number")],
)
def test_a_value_that_is_no_list_is_refused_with_host_and_variable(
    call: Callable[..., Any], variable: str, value: Any, kind: str
) -> None:
    said = refusal(call, **{variable: value})
    assert said == f"epyc-07: {variable} is {kind}; it is a list of instances, so each begins with a dash."


@pytest.mark.parametrize("call", FLEET)
@pytest.mark.parametrize("variable", ["epyc_llama_instances", "epyc_vllm_instances"])
@pytest.mark.parametrize(("value", "kind"), [("a", "a text"), (None, "empty"), (["name"], "a list"), (5, "a number")])
def test_an_instance_that_is_no_dictionary_is_refused(
    call: Callable[..., Any], variable: str, value: Any, kind: str
) -> None:
    said = refusal(call, **{variable: [CHAT, value]})
    assert said == f"epyc-07: {variable}: entry 2 is {kind}; it is a dictionary of names and values."


@pytest.mark.parametrize("call", FLEET)
def test_tuned_options_are_a_dictionary(call: Callable[..., Any]) -> None:
    said = refusal(call, epyc_llama_instances=[CHAT], epyc_llama_tuned=[{"name": "chat"}])
    assert said == "epyc-07: epyc_llama_tuned is a list; it is a dictionary of names and values."
    said = refusal(call, epyc_llama_instances=[CHAT], epyc_llama_tuned={"chat": 5})
    assert said.startswith("epyc-07: epyc_llama_tuned: chat has no options.")


@pytest.mark.parametrize("call", [_of_gateway, _of_monitoring])
@pytest.mark.parametrize("variable", ["epyc_llama_instances", "epyc_vllm_instances"])
@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("port", None, "port is missing"),
        ("port", "x y", "port is 'x y'"),
        ("port", 80800000, "port is '80800000'"),
        ("port", "\u0668080", "port is"),
        ("port", [8080], "port is '[8080]'"),
        ("name", None, "name is ''"),
        ("name", "a b", "name is 'a b'"),
        ("alias", ["x"], "alias is a list; it is one text."),
        ("model", {"x": "y"}, "model is a dictionary; it is one text."),
        ("alias", "two\nlines", "alias is 'two\\nlines', with characters that cannot be seen"),
        ("host", "a b", "host is 'a b'"),
        ("slots", "9" * 5000, "slots is '999"),
        ("models", ["/a"], "models is a list"),
        ("models", {"a": ["/a"]}, "models: a is a list"),
    ],
)
def test_an_unreachable_instance_is_refused(
    call: Callable[..., Any], variable: str, key: str, value: Any, words: str
) -> None:
    said = refusal(call, **{variable: [{**CHAT, key: value}]})
    name = "?" if key == "name" and not value else "a b" if key == "name" else "chat"
    assert said.startswith(f"epyc-07: {variable}: {name}: {words}") and len(said) < 500


def test_an_instance_without_a_model_is_refused() -> None:
    said = refusal(_of_monitoring, epyc_llama_instances=[{**CHAT, "alias": None, "model": None}])
    assert said == "epyc-07: epyc_llama_instances: chat: it has neither a model nor models: name one."


def test_hosts_without_instances_are_left_out() -> None:
    for nothing in (None, list[Any](), ""):
        host: dict[str, Any] = {
            "inventory_hostname": "h",
            "epyc_llama_instances": nothing,
            "epyc_vllm_instances": nothing,
            "epyc_llama_tuned": None,
        }
        assert _served_instances.list_served_instances(host) == []


def test_a_gateway_that_prometheus_could_not_ask_is_refused() -> None:
    host = {"inventory_hostname": "gw", "epyc_gateway_metrics_bind": "10.0.0.9"}
    said = refusal(_monitoring.build_scrape_targets, [host], "prometheus", ["gw"], 9100)
    assert said.startswith("gw: epyc_gateway_metrics_bind is '10.0.0.9'")
    said = refusal(
        _monitoring.build_scrape_targets, [{"inventory_hostname": "gw", "ansible_host": ["x"]}], "p", ["gw"], 9100
    )
    assert said.startswith("gw has no address for Prometheus")


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("drained", "epyc-07", "epyc_gateway_drained is a text; it is a list of hosts"),
        ("drained", ["epyc-07", ["x"]], "epyc_gateway_drained: a host is a list"),
        ("drained", ["epyc-07", 5], "epyc_gateway_drained names 5"),
        ("tenants", {"name": "a"}, "epyc_gateway_tenants is a dictionary; it is a list of tenants"),
        ("tenants", ["a"], "epyc_gateway_tenants: entry 1 is a text"),
        ("tenants", [{"name": "a", "sha256": 5}], "epyc_gateway_tenants: a: sha256 is a number"),
    ],
)
def test_settings_of_the_gateway_are_of_their_kind(setting: str, value: Any, words: str) -> None:
    host = {"inventory_hostname": "epyc-07", "epyc_llama_instances": [CHAT]}
    said = refusal(routing.build_haproxy_template_values, [host], "gw", {**SETTINGS, setting: value})
    assert said.startswith(words)


def test_filters_on_one_host_name_the_variable() -> None:
    one = {"name": "a", "model": "/m", "port": 1}
    assert refusal(_tuned_options.apply_tuned_options, one, {}).startswith("epyc_llama_instances is a dictionary")
    assert refusal(_model_catalogue.insert_model_paths, one, [], {}).startswith("epyc_llama_instances is a dictionary")
    assert refusal(_model_catalogue.resolve_models, {"name": "a"}, {}, "https://h", "/m").startswith(
        "epyc_llama_models is a dict"
    )
    assert refusal(_model_catalogue.resolve_models, [], ["a"], "https://h", "/m").startswith(
        "epyc_llama_catalogue is a list"
    )
