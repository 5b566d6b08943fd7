# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the layers of site.yml that a host should have, but of which no request is stored there.

A layer may rightly store nothing, so only these layers can be missing:

- a layer that the caller names, unless it sets something for roles of CPUs only, and none of these has CPUs here;
- where the caller names no layers, those of the newest run of site.yml that store something on every host.

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

    #: Layer of site.yml -> the roles of CPUs that it sets something for; empty where roles do not matter.
    Layers = Mapping[str, Sequence[str]]

#: Layer of site.yml -> the requests that it may store.
REQUESTS_OF_LAYER: dict[str, list[str]] = {}
for _request, _layer in ROLES.items():
    REQUESTS_OF_LAYER.setdefault(_layer, []).append(_request)
#: Layer with several requests -> the request under which a missing layer is reported, where it is not the first.
MAIN_REQUEST = {"grub_params": "cmdline/cmdline", "irq": "irq/irq"}
#: The layers that store something on every host, unless their variables forbid it.
ALWAYS_STORED = ("numa", "grub_params", "irq", "cat")
WITHOUT_REQUESTS = ("prerequisites", "base", "bios", "bios_check", "llama")
BASE = "base"


#: The option ``asked`` of modules, by which the inventory names the layers and instances of a host.
REQUESTED_OPTION: dict[str, object] = dict(
    type="dict", options=dict(layers=dict(type="dict"), instances=dict(type="list", elements="str"))
)


def parse_requested_option(params: Mapping[str, Any]) -> dict[str, Any]:
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
    return {name: () for name in history_file.load_requested_layers(store) or () if name in (BASE, *ALWAYS_STORED)}


def judge_missing_layers(host: Host, stored: Collection[str], layers: Layers, boot: str) -> list[Verdict]:
    """Return a drift verdict on each of these layers of which nothing is stored on the host.

    ``stored`` are the names of the stored requests, and ``boot`` is why nothing is applied at the next boot.
    """
    names = [name for name in REQUESTS_OF_LAYER if name in layers and not set(REQUESTS_OF_LAYER[name]) & set(stored)]
    verdicts = [_missing_layer_verdict(name) for name in names if _applies_to_host(host, layers[name])]
    if BASE in layers and boot and not stored:
        verdict = Verdict("", SERVICE_ENABLED, "enabled")
        verdict.live = verdict.persistent = DRIFT
        verdict.reason = f"the layer {BASE} is asked for, and {boot}"
        verdicts.append(verdict)
    return verdicts


def _applies_to_host(host: Host, roles: Sequence[str]) -> bool:
    """Return True if a layer for these roles of CPUs should be on the host: one of them has CPUs in the plan.

    True also where no roles are named, and where there is no plan.
    """
    try:
        return not roles or any(getattr(host.plan, role, ()) for role in roles)
    except TuningError:
        return True


def _missing_layer_verdict(layer: str) -> Verdict:
    request = MAIN_REQUEST.get(layer, REQUESTS_OF_LAYER[layer][0])
    verdict = Verdict(request, f"{request.partition('/')[0]}:", "stored")
    verdict.live = verdict.persistent = DRIFT
    verdict.reason = f"the layer {layer} is asked for, and nothing is stored for it on this host"
    return verdict
