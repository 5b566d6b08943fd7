# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Prometheus has to scrape: the instances, the gateways and the hosts of the inventory, as its file_sd has it.

Source: the page "Configuration" of the Prometheus documentation, <file_sd_config>.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.ip_addresses import parse_port
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options import speculation_kinds
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.option_table import HOST, LOOPBACK
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import FIELDS
from ansible_collections.sovereign.epyc.plugins.plugin_utils import _served_instances
from ansible_collections.sovereign.epyc.plugins.plugin_utils._gateway import routing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Target = dict[str, Any]


def targets(
    hosts: Iterable[Mapping[str, Any]], monitor: str, gateways: Sequence[str], node_port: object
) -> dict[str, Any]:
    """Return ``llama``, ``gateway`` and ``host``, each a list of targets with labels, and ``remarks``.

    ``hosts`` are the variables of all hosts, ``monitor`` is the name of the one that Prometheus runs on, ``gateways``
    are the names of the gateways, and ``node_port`` is the port of node_exporter. What is reached from its own host
    only is left out, with a remark. BadRequest for what cannot be a target.
    """
    port = parse_port(node_port)
    if port is None:
        raise BadRequest(f"monitoring_node_port is '{node_port}': say the port of node_exporter, which is 9100.")
    found: dict[str, Any] = {"llama": [], "gateway": [], "host": [], "remarks": []}
    for host in hosts:
        name = str(host["inventory_hostname"])
        address = "127.0.0.1" if name == monitor else str(routing.host_address(host) or name)
        served = [raw for raw in _served_instances.served_instances_of(host) if not raw.get("vllm")]
        for raw in served:
            where = f"{name}/{raw['name']}"
            if name != monitor and str(raw.get("host") or FIELDS["host"].default) in LOOPBACK:
                found["remarks"].append(f"{where} is not scraped: it listens on the loopback. Set host to an address.")
                continue
            place = f"{routing.address_for_gateway(where, host, raw, monitor)}:{parse_port(raw['port'])}"
            if raw.get("models"):
                if str(raw.get("models_loaded") or len(raw["models"])) != str(len(raw["models"])):
                    found["remarks"].append(f"{where} is not scraped: its models come and go, as models_loaded says.")
                else:
                    found["llama"] += _of_router(place, name, where, raw)
                continue
            found["llama"].append(_target(place, name, **_labels(where, raw)))
        if name in gateways:
            place = str(host.get("gateway_metrics_bind") or "127.0.0.1:8405")
            bound, dummy, gate_port = place.rpartition(":")
            if parse_port(gate_port) is None:
                raise BadRequest(f"{name}: gateway_metrics_bind is '{place}': say an address and a port, as *:8405.")
            if name != monitor and bound.strip("[]") in LOOPBACK:
                found["remarks"].append(
                    f"The gateway {name} is not scraped: gateway_metrics_bind is on the loopback. Set it to an address."
                )
            else:
                bound = _bracketed(address) if bound.strip("[]") in ("*", "", *routing.EVERYWHERE) else bound
                found["gateway"].append(_target(f"{bound}:{gate_port}", name))
        if served or name in gateways:
            if not HOST.match(address):
                raise BadRequest(
                    f"{name} has no address for Prometheus, because '{address}' is none: set ansible_host."
                )
            found["host"].append(_target(f"{_bracketed(address)}:{port}", name))
    return found


def _of_router(place: str, host: str, where: str, raw: Mapping[str, Any]) -> list[Target]:
    """Return a target for each model of a router, which tells of one of them at a time, and not of itself."""
    made = []
    for model in raw["models"]:
        # Prometheus makes the question of the first two, and would call them all by the same address.
        asked = {"__param_model": model, "__param_autoload": "false", "instance": f"{place}/{model}"}
        made.append(_target(place, host, **_labels(where, {**raw, "alias": model}), **asked))
    return made


def _labels(where: str, raw: Mapping[str, Any]) -> dict[str, str]:
    """Return what an instance is called; Prometheus calls what it scrapes an instance."""
    model = str(raw.get("alias") or PurePosixPath(str(raw.get("model", ""))).stem)
    try:
        speculation = (
            ",".join(speculation_kinds.parse_speculation(raw.get("speculation") or FIELDS["speculation"].default))
            or "none"
        )
    except BadRequest as error:
        raise BadRequest(f"{where}: {error}") from None
    guesses = speculation if raw.get("task", "completion") == "completion" and not raw.get("projector") else "none"
    return {"service": str(raw["name"]), "model": model, "speculation": guesses}


def _target(place: str, host: str, **labels: str) -> Target:
    return {"targets": [place], "labels": {"host": host, **labels}}


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
