# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a gateway, from the inventory: the hosts of each model, their addresses and slots, and the tenants.

Inventories that would lead to a gateway with wrong answers are refused.
"""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.ip_addresses import LOOPBACK, parse_port
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.numbers import parse_whole_number
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.sizes import parse_bytes
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.option_table import HOST
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import FIELDS
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.vllm.options import ALIAS_PATTERN
from ansible_collections.sovereign.epyc.plugins.plugin_utils import _served_instances
from ansible_collections.sovereign.epyc.plugins.plugin_utils._gateway import shared_address
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_values import (
    require_list,
    require_printable_text,
    require_tables,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Names of tenants stand in the configuration of HAProxy, which splits lines at spaces and quotes.
TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
SHA256 = re.compile(r"[0-9a-f]{64}\Z")
#: The listen addresses of a server that stand for all addresses of its host.
EVERYWHERE = ("0.0.0.0", "::")
#: Arguments of a server that override its option slots.
SLOT_ARGUMENTS = ("--parallel", "-np")
LIMITS = ("requests_per_minute", "concurrent", "max_tokens")
#: Names of fields are words of a line in the configuration of HAProxy.
FIELD_OF_BODY = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")


class Instance(NamedTuple):
    """A model that an instance serves, as the gateway sees it. ``place`` is HOST/NAME, for error sentences."""

    host: str
    place: str
    server: str
    alias: str
    model: str
    address: str
    slots: int
    #: The address, the port and the question for the agent of the host; None where the host has no agent.
    agent: dict[str, str] | None


def build_haproxy_template_values(
    hosts: Iterable[Mapping[str, Any]],
    gateway: str,
    settings: Mapping[str, Any],
    gateways: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the values for the template of HAProxy's configuration, as the filter gateway_plan documents them.

    ``hosts`` are the variables of all hosts, ``gateway`` is the name of the gateway's host, ``settings`` are variables
    of the role without their prefix, and ``gateways`` are the variables of each gateway. Raises BadRequest for an
    inventory that cannot be served, or not safely.
    """
    _refuse_unsafe_access_or_equal_ports(settings)
    peers = shared_address.list_gateway_names_and_binds(gateway, settings["peers_bind"], gateways)
    size = parse_bytes(settings["max_body"], "epyc_gateway_max_body")
    if not 1 << 10 <= size <= 1 << 28:
        raise BadRequest(f"epyc_gateway_max_body is {settings['max_body']}: say an amount from 1KiB to 256MiB.")
    for field in require_list(settings["refused_fields"], "epyc_gateway_refused_fields", "fields"):
        if not FIELD_OF_BODY.match(str(field)) or str(field) in ("fetch", "model"):
            raise BadRequest(f"epyc_gateway_refused_fields names '{field}': name a field of requests, such as id_slot.")
    drained = require_list(settings["drained"], "epyc_gateway_drained", "hosts")
    models = _group_instances_by_alias(
        hosts, gateway, {require_printable_text(name, "epyc_gateway_drained: a host") for name in drained}
    )
    return {
        "models": models,
        "listing": _render_models_json(models),
        "tenants": _parse_tenants(settings["tenants"], models),
        "max_body": size,
        "peer": shared_address.gateway_name_for_haproxy(gateway),
        "peers": peers,
    }


def _refuse_unsafe_access_or_equal_ports(settings: Mapping[str, Any]) -> None:
    if not settings["certificate"] and not settings["plain_http"]:
        raise BadRequest(
            "epyc_gateway_certificate is empty, so that everyone on the network path could read the keys of clients: "
            "name a PEM file on the gateway, or set epyc_gateway_plain_http."
        )
    if not settings["tenants"] and not settings["open"]:
        raise BadRequest(
            "epyc_gateway_tenants is empty, so that anyone could send requests: name the tenants who may, or set "
            "epyc_gateway_open."
        )
    owners: dict[str, str] = {}
    for key in ("bind", "metrics_bind", "peers_bind"):
        port = str(settings[key]).rpartition(":")[2]
        if parse_port(port) is None:
            raise BadRequest(f"epyc_gateway_{key} is '{settings[key]}': say an address and a port, as 127.0.0.1:8405.")
        if other := owners.get(port):
            raise BadRequest(
                f"epyc_gateway_{other} and epyc_gateway_{key} have the same port {port}: give each its own."
            )
        owners[port] = key


def _group_instances_by_alias(
    hosts: Iterable[Mapping[str, Any]], gateway: str, drained: set[str]
) -> list[dict[str, Any]]:
    """Return the models, sorted by alias, each with its backend and its servers in the order of the inventory."""
    by_alias: dict[str, list[Instance]] = {}
    places: dict[str, str] = {}
    for host in hosts:
        for options in _served_instances.list_served_instances(host):
            served = _split_instance_by_model(host, options, gateway)
            place, address = served[0].place, served[0].address
            if other := places.get(address):
                raise BadRequest(f"{place} and {other} are both at {address}: give one another port.")
            places[address] = place
            for instance in served:
                first = by_alias.setdefault(instance.alias, [instance])[0]
                if instance is first:
                    continue
                if instance.model != first.model:
                    raise BadRequest(
                        f"The alias {instance.alias} is {first.model} on {first.place} and {instance.model} on"
                        f" {instance.place}: give each model an alias of its own."
                    )
                by_alias[instance.alias].append(instance)
    if not by_alias:
        raise BadRequest(
            "No host has epyc_llama_instances or epyc_vllm_instances, so there is no model to serve: name them in the "
            "inventory."
        )
    known = {instance.host for instances in by_alias.values() for instance in instances}
    if unknown := sorted(drained - known):
        raise BadRequest(
            f"epyc_gateway_drained names {unknown[0]}, which serves nothing here: name hosts of the inventory."
        )
    names = _backend_name_by_alias(sorted(by_alias))
    return [
        {
            "alias": alias,
            "backend": names[alias],
            "servers": [
                {
                    "name": instance.server,
                    "address": instance.address,
                    "slots": instance.slots,
                    "drained": instance.host in drained,
                    "agent": instance.agent,
                }
                for instance in by_alias[alias]
            ],
        }
        for alias in sorted(by_alias)
    ]


def _render_models_json(models: Sequence[Mapping[str, Any]]) -> str:
    """Return the JSON answer to /v1/models; aliases have no quotes, so that the template may quote the text."""
    data = [{"id": model["alias"], "object": "model", "created": 0, "owned_by": "sovereign.epyc"} for model in models]
    return json.dumps({"object": "list", "data": data})


def _split_instance_by_model(host: Mapping[str, Any], options: Mapping[str, Any], gateway: str) -> list[Instance]:
    """Return an Instance for each model of an instance: several for a router, one for any other instance."""
    models = options.get("models")
    if not models:
        return [_build_instance(host, options, gateway)]
    parts = ({**options, "alias": alias, "model": model} for alias, model in models.items())
    return [_build_instance(host, part, gateway) for part in parts]


def _build_instance(host: Mapping[str, Any], options: Mapping[str, Any], gateway: str) -> Instance:
    name = str(host["inventory_hostname"])
    place = f"{name}/{options.get('name', '?')}"
    alias = str(options.get("alias") or "")
    if not alias:
        raise BadRequest(f"{place} has no alias, by which clients of the gateway ask for its model: set alias.")
    if not ALIAS_PATTERN.match(alias):
        raise BadRequest(f"{place} has the alias '{alias}': take letters, digits and ._:/@+- only.")
    slots = _require_positive_number(place, "slots", options.get("slots") or FIELDS["slots"].default)
    for word in options.get("extra_arguments") or ():
        if str(word).partition("=")[0] in SLOT_ARGUMENTS:
            raise BadRequest(f"{place} has {word} in extra_arguments: set slots instead, by which the gateway counts.")
    port = parse_port(options["port"])
    model = PurePosixPath(str(options.get("model", ""))).name
    unit = f"vllm-{options.get('name', '')}" if options.get("vllm") else options.get("name", "")
    server = re.sub(r"[^A-Za-z0-9_.:-]", "_", f"{name}:{unit}")
    address = instance_address_for_gateway(place, host, options, gateway)
    question = f"{'vllm ' if options.get('vllm') else ''}{options.get('name', '')}"
    agent = _agent_check_parameters(host, question, address, gateway)
    return Instance(name, place, server, alias, model, f"{address}:{port}", slots, agent)


def instance_address_for_gateway(place: str, host: Mapping[str, Any], options: Mapping[str, Any], gateway: str) -> str:
    """Return the address at which the gateway reaches an instance."""
    name = str(host["inventory_hostname"])
    listens = str(options.get("host") or FIELDS["host"].default)
    if listens in LOOPBACK and name != gateway:
        raise BadRequest(
            f"{place} listens on {listens}, where no gateway reaches it: set host to a private address of {name}."
        )
    address = listens
    if listens in EVERYWHERE:
        address = "127.0.0.1" if name == gateway else str(host_address(host) or name)
    if not HOST.match(address) or (address in LOOPBACK and name != gateway):
        raise BadRequest(
            f"{name} has no address for the gateway, because '{address}' is none: set epyc_gateway_member_address for "
            "it."
        )
    return f"[{address}]" if ":" in address else address


def _agent_check_parameters(
    host: Mapping[str, Any], question: str, instance_address: str, gateway: str
) -> dict[str, str] | None:
    """Return address, port and question for the agent of a host; None where the host has no agent.

    The address is "" where the agent has the address of the instance. The question is the name of the instance, after
    the word vllm for an instance of vLLM.
    """
    bind = str(host.get("epyc_base_agent_bind") or "")
    if not bind:
        return None
    name = str(host["inventory_hostname"])
    address, dummy, port = bind.rpartition(":")
    listens = address.strip("[]")
    if parse_port(port) is None or (listens != "*" and not HOST.match(listens)):
        raise BadRequest(f"{name} has epyc_base_agent_bind '{bind}': say an address and a port, as 10.0.0.11:8407.")
    if listens in LOOPBACK and name != gateway:
        raise BadRequest(
            f"The agent of {name} listens on {listens}, where no gateway reaches it: set epyc_base_agent_bind to a "
            f"private address of {name}."
        )
    address = f"[{listens}]" if ":" in listens else listens
    address = "" if listens in ("*", *EVERYWHERE) or address == instance_address else address
    return {"address": address, "port": port, "asks": re.sub(r"[^A-Za-z0-9_ -]", "_", question)}


def host_address(host: Mapping[str, Any]) -> Any:
    """Return the address of a host from its variables; None where no variable has an address."""
    return host.get("epyc_gateway_member_address") or host.get("ansible_host")


def _require_positive_number(place: str, key: str, value: Any) -> int:
    number = parse_whole_number(value)
    if not number:
        raise BadRequest(f"{place} has no {key} that the gateway could use: set {key} to a whole number from 1 up.")
    return number


def _backend_name_by_alias(aliases: Sequence[str]) -> dict[str, str]:
    """Return alias -> name of its backend, in characters that HAProxy accepts."""
    names: dict[str, str] = {}
    for alias in aliases:
        name = "model_" + re.sub(r"[^A-Za-z0-9_.-]", "_", alias)
        while name in names.values():
            name += "_"
        names[alias] = name
    return names


def _parse_tenants(tenants: Any, models: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tenants of epyc_gateway_tenants. No message quotes a value of sha256, as it may be the key itself.

    A tenant that may not use all ``models`` has its own answer to /v1/models.
    """
    parsed: list[dict[str, Any]] = []
    owners: dict[str, str] = {}
    for row in require_tables(tenants, "epyc_gateway_tenants", "tenants"):
        name = str(row.get("name", ""))
        if not TENANT.match(name):
            raise BadRequest(
                f"epyc_gateway_tenants: '{name}' is no name of a tenant: take letters, digits and ._- only."
            )
        if any(tenant["name"] == name for tenant in parsed):
            raise BadRequest(f"epyc_gateway_tenants names {name} twice: put its hashes into one entry.")
        digests = require_list(row.get("sha256"), f"epyc_gateway_tenants: {name}: sha256", "hashes")
        hashes = [str(digest).lower() for digest in digests]
        if not hashes or not all(SHA256.match(digest) for digest in hashes):
            raise BadRequest(
                f"epyc_gateway_tenants: {name} needs sha256, a list of hashes of 64 hexadecimal digits: make one with"
                " `printf %s KEY | sha256sum`."
            )
        for digest in hashes:
            if owners.setdefault(digest, name) != name:
                raise BadRequest(
                    f"epyc_gateway_tenants: {owners[digest]} and {name} have the same key: give each its own."
                )
        limits = {
            key: _require_positive_number(f"epyc_gateway_tenants: {name}", key, row[key])
            for key in LIMITS
            if row.get(key) is not None
        }
        parsed.append({"name": name, "sha256": hashes, **limits, **_parse_models_of_tenant(name, row, models)})
    return parsed


def _parse_models_of_tenant(name: str, row: Mapping[str, Any], models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the aliases that a tenant may use with their listing; empty for a tenant that may use all models."""
    if row.get("models") is None:
        return {}
    aliases = [str(alias) for alias in require_list(row["models"], f"epyc_gateway_tenants: {name}: models", "aliases")]
    own = [model for model in models if model["alias"] in aliases]
    unknown = [alias for alias in aliases if alias not in [model["alias"] for model in own]]
    if unknown or not own:
        raise BadRequest(
            f"epyc_gateway_tenants: {name} may use {unknown[0] if unknown else 'no model'}, which no host serves: name "
            f"some of {', '.join(model['alias'] for model in models)}."
        )
    return {"models": aliases, "listing": _render_models_json(own)}
