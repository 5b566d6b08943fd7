# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The targets that Prometheus scrapes: instances, gateways and hosts of the inventory, in the form of file_sd.

Source: the page "Configuration" of the Prometheus documentation, <file_sd_config>.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.ip_addresses import LOOPBACK, parse_port
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options import speculation_kinds
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.option_table import HOST
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import FIELDS
from ansible_collections.sovereign.epyc.plugins.plugin_utils import _served_instances
from ansible_collections.sovereign.epyc.plugins.plugin_utils._gateway import routing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Target = dict[str, Any]


def build_scrape_targets(
    hosts: Iterable[Mapping[str, Any]], monitor: str, gateways: Sequence[str], node_port: object
) -> dict[str, Any]:
    """Return ``llama``, ``gateway`` and ``host``, each a list of targets with labels, and ``remarks``.

    ``hosts`` are the variables of all hosts, ``monitor`` is the name of the host that Prometheus runs on, ``gateways``
    are the names of the gateways, and ``node_port`` is the port of node_exporter. A target that only its own host can
    reach is left out, with a remark. Raises BadRequest for a malformed target.
    """
    port = parse_port(node_port)
    if port is None:
        raise BadRequest(f"epyc_monitoring_node_port is '{node_port}': say the port of node_exporter, which is 9100.")
    targets: dict[str, Any] = {"llama": [], "gateway": [], "host": [], "remarks": []}
    for host in hosts:
        name = str(host["inventory_hostname"])
        address = "127.0.0.1" if name == monitor else str(routing.host_address(host) or name)
        served = [instance for instance in _served_instances.list_served_instances(host) if not instance.get("vllm")]
        for instance in served:
            instance_targets, remark = _build_instance_targets(host, instance, monitor)
            targets["llama"] += instance_targets
            targets["remarks"] += remark
        if name in gateways:
            gateway_targets, remark = _build_gateway_targets(host, address, monitor)
            targets["gateway"] += gateway_targets
            targets["remarks"] += remark
        if served or name in gateways:
            if not HOST.match(address):
                raise BadRequest(
                    f"{name} has no address for Prometheus, because '{address}' is none: set ansible_host."
                )
            targets["host"].append(_build_target(f"{_bracket_ipv6(address)}:{port}", name))
    return targets


def _build_instance_targets(
    host: Mapping[str, Any], instance: Mapping[str, Any], monitor: str
) -> tuple[list[Target], list[str]]:
    """Return a target for an instance, or for each model of a router; else the remark why there is no target."""
    name = str(host["inventory_hostname"])
    label = f"{name}/{instance['name']}"
    if name != monitor and str(instance.get("host") or FIELDS["host"].default) in LOOPBACK:
        return [], [f"{label} is not scraped: it listens on the loopback. Set host to an address."]
    place = f"{routing.instance_address_for_gateway(label, host, instance, monitor)}:{parse_port(instance['port'])}"
    models = instance.get("models")
    if not models:
        return [_build_target(place, name, **_build_instance_labels(label, instance))], []
    if str(instance.get("models_loaded") or len(models)) != str(len(models)):
        return [], [f"{label} is not scraped: its models come and go, as models_loaded says."]
    # The metrics of a router are those of the model in the request. Prometheus sends the labels that begin with
    # __param_ as parameters. Without the label instance, all models would have the same name.
    return [
        _build_target(
            place,
            name,
            **_build_instance_labels(label, {**instance, "alias": model}),
            **{"__param_model": model, "__param_autoload": "false", "instance": f"{place}/{model}"},
        )
        for model in models
    ], []


def _build_gateway_targets(host: Mapping[str, Any], address: str, monitor: str) -> tuple[list[Target], list[str]]:
    """Return the target of a gateway; else the remark why there is no target."""
    name = str(host["inventory_hostname"])
    bind = str(host.get("epyc_gateway_metrics_bind") or "127.0.0.1:8405")
    listens, dummy, port = bind.rpartition(":")
    if parse_port(port) is None:
        raise BadRequest(f"{name}: epyc_gateway_metrics_bind is '{bind}': say an address and a port, as *:8405.")
    if name != monitor and listens.strip("[]") in LOOPBACK:
        return [], [
            f"The gateway {name} is not scraped: epyc_gateway_metrics_bind is on the loopback. Set it to an address."
        ]
    if listens.strip("[]") in ("*", "", *routing.EVERYWHERE):
        listens = _bracket_ipv6(address)
    return [_build_target(f"{listens}:{port}", name)], []


def _build_instance_labels(label: str, instance: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of an instance: its name as ``service``, its model, and its kind of speculation."""
    model = str(instance.get("alias") or PurePosixPath(str(instance.get("model", ""))).stem)
    try:
        kinds = speculation_kinds.parse_speculation_kinds(instance.get("speculation") or FIELDS["speculation"].default)
    except BadRequest as error:
        raise BadRequest(f"{label}: {error}") from None
    speculates = instance.get("task", "completion") == "completion" and not instance.get("projector")
    speculation = (",".join(kinds) if speculates else "") or "none"
    return {"service": str(instance["name"]), "model": model, "speculation": speculation}


def _build_target(place: str, host: str, **labels: str) -> Target:
    return {"targets": [place], "labels": {"host": host, **labels}}


def _bracket_ipv6(address: str) -> str:
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
