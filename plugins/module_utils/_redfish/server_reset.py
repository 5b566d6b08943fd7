# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reset of a server by its BMC, or its power switched off and on, with the types of reset that the BMC offers.

Some boards apply BIOS settings only after their power was off. No reboot of the operating system switches power off.
Source: DMTF DSP8010, schemas ComputerSystem (action Reset) and ActionInfo.
"""

from __future__ import annotations

import time

from .._errors import BadRequest
from .connection.responses import BmcError, join_error_messages
from .connection.shapes import list_or_empty, nested_object_or_empty, object_or_empty
from .connection.tasks import FAILED, follow_task
from .systems import find_system_by_name_or_only_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .connection.client import RedfishClient

GRACEFUL, FORCE, COLD = "graceful", "force", "cold"
ON, OFF, CYCLE = "On", "ForceOff", "PowerCycle"
RESTART_TYPES = {GRACEFUL: "GracefulRestart", FORCE: "ForceRestart"}
ALLOWED_TYPES_KEY = "ResetType@Redfish.AllowableValues"
#: Seconds between two readings of the power state, and seconds that a server may take to be off after ForceOff.
POWER_CHECK_SECONDS, POWER_CUT_SECONDS = 5.0, 60.0


def reset_server(
    client: RedfishClient,
    system_id: str | None,
    reset_kind: str,
    shutdown_timeout: float = 0,
    check: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Have the BMC restart the server, and return the types of reset that were sent; with ``check`` none is sent.

    A server that is off is switched on. Before a cold reset, the operating system of the server has
    ``shutdown_timeout`` seconds to shut down.
    """
    server = find_system_by_name_or_only_server(client, system_id)
    if server.doubt:
        raise BmcError(f"{server.doubt} Nothing was changed.")
    system, path, name = server.resource, server.path, client.access.bmc_name
    action = _get_reset_action_or_empty(system)
    allowed = _list_allowed_reset_types(client, action)
    power = _parse_lower_power_state(system)
    if not action or not allowed:
        raise BmcError(f"The BMC {name} does not say that it can reset its server, or how. Nothing was changed.")
    types = _choose_reset_types(name, allowed, reset_kind)
    sent = [ON] if power == "off" else types
    if check:
        return {"changed": True, "sent": sent, "power": power}
    if reset_kind == COLD and power != "off" and _wait_until_server_is_off(client, path, shutdown_timeout, sleep):
        sent = [ON]
    for kind in sent:
        if kind == ON and sent[0] != ON and not _wait_until_server_is_off(client, path, POWER_CUT_SECONDS, sleep):
            raise BmcError(
                f"The BMC {name} was sent {OFF}, and its server is still on after {POWER_CUT_SECONDS:.0f} seconds."
            )
        answer = client.send_request("POST", str(action["target"]), {"ResetType": kind})
        if not answer.is_success:
            raise BmcError(f"The BMC {name} refuses the reset {kind}: {answer.status_and_error_messages()}")
        task = follow_task(client, answer)
        if task is not None and task.outcome == FAILED:
            messages = join_error_messages(task.messages, client.access.scrubber)
            raise BmcError(f"The BMC {name} did not do the reset {kind}: its task is {task.state} ('{messages}').")
    return {"changed": True, "sent": sent, "power": power}


def _choose_reset_types(bmc_name: str, allowed: list[str], reset_kind: str) -> list[str]:
    """Return the types of reset to send to a server that is on."""
    if reset_kind != COLD:
        needed = RESTART_TYPES[reset_kind]
        types = [needed] if needed in allowed else []
    else:
        # PowerCycle does not start a server that its operating system has switched off, so On is needed too.
        needed = f"{ON}, and {CYCLE} or {OFF}"
        types = [] if ON not in allowed else [CYCLE] if CYCLE in allowed else [OFF, ON] if OFF in allowed else []
    if not types:
        other_kinds = [kind for kind in (GRACEFUL, FORCE) if RESTART_TYPES[kind] in allowed and kind != reset_kind]
        instead = f"Ask for {' or '.join(other_kinds)}, or let the operating system reboot." if other_kinds else ""
        raise BadRequest(
            f"The BMC {bmc_name} cannot do the reset '{reset_kind}': it takes {', '.join(allowed)}, and that needs "
            f"{needed}. {instead or 'Let the operating system reboot.'} Nothing was changed."
        )
    return types


def _get_reset_action_or_empty(system: Mapping[str, Any]) -> Mapping[str, Any]:
    action = nested_object_or_empty(system, "Actions", "#ComputerSystem.Reset")
    return action if action.get("target") else {}


def _list_allowed_reset_types(client: RedfishClient, action: Mapping[str, Any]) -> list[str]:
    """Return the reset types that the BMC takes, from the action or from the resource that describes the action."""
    types = action.get(ALLOWED_TYPES_KEY)
    if not types and action.get("@Redfish.ActionInfo"):
        answer = client.fetch_resource_if_present(str(action["@Redfish.ActionInfo"]))
        for parameter in list_or_empty(answer.body.get("Parameters")) if answer else ():
            if object_or_empty(parameter).get("Name") == "ResetType":
                types = parameter.get("AllowableValues")
    return [str(value) for value in list_or_empty(types)]


def _parse_lower_power_state(system: Mapping[str, Any]) -> str:
    return str(system.get("PowerState") or "unknown").lower()


def _wait_until_server_is_off(client: RedfishClient, path: str, seconds: float, sleep: Callable[[float], None]) -> bool:
    """Wait until the server is off, at most a number of seconds, and return whether the server is off."""
    waited = 0.0
    while _parse_lower_power_state(client.fetch_resource_body(path)) != "off":
        if waited >= seconds:
            return False
        sleep(min(POWER_CHECK_SECONDS, seconds - waited))
        waited += POWER_CHECK_SECONDS
    return True
