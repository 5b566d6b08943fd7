# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layers of site.yml that a host was asked for, held against what is stored there.

A layer of which no request is stored is missing.

Some layers store nothing and are right, so only these count:

- a layer that the caller names, with the roles of CPUs for which its variables set something, if one has CPUs here;
- where no caller names any, the layers of the newest run of site.yml that store something whatever the plan is.

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

    #: Layer of site.yml -> the roles of CPUs that it sets something for; none where that is no matter.
    Layers = Mapping[str, Sequence[str]]

#: Layer of site.yml -> the requests that it may store.
REQUESTS: dict[str, list[str]] = {}
for _request, _layer in ROLES.items():
    REQUESTS.setdefault(_layer, []).append(_request)
#: Of a layer with several requests, the one under which it is reported, where that is not the first.
MAIN_REQUEST = {"grub_params": "cmdline/cmdline", "irq": "irq/irq"}
#: The layers that store something on every host, unless their variables say that they are to store nothing.
ALWAYS = ("numa", "grub_params", "irq", "cat")
WITHOUT_REQUESTS = ("prerequisites", "base", "bios", "bios_check", "llama")
BASE = "base"


#: The option of modules by which the inventory says what it asks of a host; the doc fragment asked documents it.
OPTION: dict[str, object] = dict(
    type="dict", options=dict(layers=dict(type="dict"), instances=dict(type="list", elements="str"))
)


def read_option(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the option as the arguments ``layers`` and ``instances`` of a check. BadRequest for a malformed layer."""
    asked = params["asked"] or {}
    for name, roles in (asked.get("layers") or {}).items():
        if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
            raise BadRequest(f"asked: {name} is no list of roles of CPUs: say an empty list where roles do not matter.")
    return {"layers": asked.get("layers"), "instances": asked.get("instances")}


def layers_of_host(store: Store, named: Layers | None) -> Layers:
    """Return the layers that must be on a host: those that are named, else those of the newest run of site.yml.

    Raises BadRequest for a name that is no layer.
    """
    known = (*WITHOUT_REQUESTS, *REQUESTS)
    for name in named or ():
        if name not in known:
            raise BadRequest(f"There is no layer {name}: the layers of site.yml are {', '.join(known)}.")
    if named is not None:
        return named
    return {name: () for name in history_file.requested_layers(store) or () if name in (BASE, *ALWAYS)}


def missing_layers(host: Host, stored: Collection[str], layers: Layers, boot: str) -> list[Verdict]:
    """Return a verdict on each of these layers that is not on the host.

    ``stored`` are the names of the stored requests, and ``boot`` is why nothing is applied at the next boot.
    """
    names = [name for name in REQUESTS if name in layers and not set(REQUESTS[name]) & set(stored)]
    verdicts = [_missing(name) for name in names if _applies(host, layers[name])]
    if BASE in layers and boot and not stored:
        verdict = Verdict("", SERVICE_ENABLED, "enabled")
        verdict.live = verdict.persistent = DRIFT
        verdict.reason = f"the layer {BASE} is asked for, and {boot}"
        verdicts.append(verdict)
    return verdicts


def _applies(host: Host, roles: Sequence[str]) -> bool:
    """Return whether one of these roles has CPUs under the plan; True for no roles, and where there is no plan."""
    try:
        return not roles or any(getattr(host.plan, role, ()) for role in roles)
    except TuningError:
        return True


def _missing(layer: str) -> Verdict:
    request = MAIN_REQUEST.get(layer, REQUESTS[layer][0])
    verdict = Verdict(request, f"{request.partition('/')[0]}:", "stored")
    verdict.live = verdict.persistent = DRIFT
    verdict.reason = f"the layer {layer} is asked for, and nothing is stored for it on this host"
    return verdict
