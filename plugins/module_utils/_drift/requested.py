# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the layers of site.yml that a host should have, but of which no request is stored on the host.

Some layers store nothing on some hosts, so only these layers count as missing:

- a layer that the caller names, unless it only concerns roles of CPUs that have no CPUs on this host;
- where the caller names no layers: a layer of the newest run of site.yml that stores something on every host, or on
  every host with housekeeping CPUs.

The layers prerequisites, bios, bios_check and llama store no request. The layer base is missing where the boot service
is not enabled.
"""

from __future__ import annotations

from .._errors import BadRequest, TuningError
from .._knobs.catalogue import ROLES
from .._knobs.history import history_file
from .findings import SERVICE_ENABLED
from .verdict import DRIFT, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from .._host.host import Host
    from .._io.store import Store

    #: Layer of site.yml -> the roles of CPUs for which it sets something; empty for a layer that concerns every host.
    Layers = Mapping[str, Sequence[str]]

#: Layer of site.yml -> the requests that it may store.
REQUESTS_OF_LAYER: dict[str, list[str]] = {}
for _request, _layer in ROLES.items():
    REQUESTS_OF_LAYER.setdefault(_layer, []).append(_request)
#: Missing layer -> the request under which the layer is reported, where that is not the first request of the layer.
MAIN_REQUEST = {"grub_params": "cmdline/cmdline", "irq": "irq/irq"}
#: The layers that store something, unless their variables forbid it -> the roles of CPUs of which a host must have one.
ALWAYS_STORED = {"base": (), "numa": (), "grub_params": ("housekeeping",), "irq": ("housekeeping",), "cat": ()}
WITHOUT_REQUESTS = ("prerequisites", "base", "bios", "bios_check", "llama")
BASE = "base"
#: The option ``asked`` of modules, by which the inventory names the layers and instances of a host.
REQUESTED_OPTION: dict[str, object] = dict(
    type="dict", options=dict(layers=dict(type="dict"), instances=dict(type="list", elements="str"))
)


def parse_asked_option(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the option ``asked`` as the arguments ``layers`` and ``instances`` of check_host.

    Raises BadRequest for a malformed layer.
    """
    request = params["asked"] or {}
    for name, roles in (request.get("layers") or {}).items():
        if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
            raise BadRequest(f"asked: {name} is no list of roles of CPUs: say an empty list where roles do not matter.")
    return {"layers": request.get("layers"), "instances": request.get("instances")}


def list_requested_layers(store: Store, named: Layers | None) -> Layers:
    """Return the layers that a host should have: the named ones, or those of the newest run of site.yml.

    Raises BadRequest for a name that is no layer.
    """
    known = (*WITHOUT_REQUESTS, *REQUESTS_OF_LAYER)
    for name in named or ():
        if name not in known:
            raise BadRequest(f"There is no layer {name}: the layers of site.yml are {', '.join(known)}.")
    if named is not None:
        return named
    of_newest_run = history_file.load_requested_layers(store) or ()
    return {name: ALWAYS_STORED[name] for name in of_newest_run if name in ALWAYS_STORED}


def judge_layers_without_requests(
    host: Host, stored_requests: Collection[str], layers: Layers, boot_failure: str
) -> list[Verdict]:
    """Return a drift verdict on each of the ``layers`` of which the host has stored no request.

    ``stored_requests`` are their names, and ``boot_failure`` is why the boot service will fail, "" if it will work.
    """
    names = [
        name for name in REQUESTS_OF_LAYER if name in layers and not set(REQUESTS_OF_LAYER[name]) & set(stored_requests)
    ]
    verdicts = [_drift_verdict_on_missing_layer(name) for name in names if _layer_roles_have_cpus(host, layers[name])]
    if BASE in layers and boot_failure and not stored_requests:
        verdict = Verdict("", SERVICE_ENABLED, "enabled")
        verdict.live = verdict.persistent = DRIFT
        verdict.reason = f"the layer {BASE} is asked for, and {boot_failure}"
        verdicts.append(verdict)
    return verdicts


def _layer_roles_have_cpus(host: Host, roles: Sequence[str]) -> bool:
    """Return True if one of the roles of a layer has CPUs in the plan of the host, so that the layer should be there.

    Also True for a layer without roles, and on a host without a plan.
    """
    try:
        return not roles or any(getattr(host.plan, role, ()) for role in roles)
    except TuningError:
        return True


def _drift_verdict_on_missing_layer(layer: str) -> Verdict:
    request = MAIN_REQUEST.get(layer, REQUESTS_OF_LAYER[layer][0])
    verdict = Verdict(request, f"{request.partition('/')[0]}:", "stored")
    verdict.live = verdict.persistent = DRIFT
    verdict.reason = f"the layer {layer} is asked for, and nothing is stored for it on this host"
    return verdict
