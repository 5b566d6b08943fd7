# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The server reset by its BMC, or its power cut and given back, by types of reset that this BMC says it takes.

Some boards apply BIOS settings only at a boot from cold, which no reboot of the operating system is.
Source: DMTF DSP8010, schemas ComputerSystem (action Reset) and ActionInfo.
"""

from __future__ import annotations

import time

from .._errors import BadRequest
from .connection.responses import BmcError
from .machine import system_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .connection.client import Client

GRACEFUL, FORCE, COLD = "graceful", "force", "cold"
ON, OFF, CYCLE = "On", "ForceOff", "PowerCycle"
RESTARTS = {GRACEFUL: "GracefulRestart", FORCE: "ForceRestart"}
ALLOWED = "ResetType@Redfish.AllowableValues"
#: Seconds between two looks at the power, and how many a server may take to be off once its power is cut.
PAUSE, CUT = 5.0, 60.0


def reset(
    client: Client,
    wanted: str | None,
    how: str,
    patience: float = 0,
    check: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Have the server boot anew, and return which types of reset were sent for it; a check only tells them.

    A server that is off is switched on. From cold, it gets ``patience`` seconds to go off by itself first, as its
    operating system may shut down.
    """
    system = system_of(client, wanted)
    path, name = str(system.get("@odata.id") or ""), client.access.name
    action = _action(system)
    allowed = _allowed(client, action)
    power = _power(system)
    if not action or not allowed:
        raise BmcError(f"The BMC {name} does not say that it can reset its server, or how. Nothing was changed.")
    types = _types(name, allowed, how)
    sent = [ON] if power == "off" else types
    if check:
        return {"changed": True, "sent": sent, "power": power}
    if how == COLD and power != "off" and _goes_off(client, path, patience, sleep):
        sent = [ON]
    for kind in sent:
        if kind == ON and sent[0] != ON and not _goes_off(client, path, CUT, sleep):
            raise BmcError(f"The BMC {name} was told {OFF}, and its server is still on after {CUT:.0f} seconds.")
        answer = client.ask("POST", str(action["target"]), {"ResetType": kind})
        if answer.status not in (200, 201, 202, 204):
            raise BmcError(f"The BMC {name} refuses the reset {kind}: {answer.sentence()}")
    return {"changed": True, "sent": sent, "power": power}


def _types(name: str, allowed: list[str], how: str) -> list[str]:
    """Return the types of reset to send to a server that is on."""
    if how != COLD:
        needed = RESTARTS[how]
        types = [needed] if needed in allowed else []
    else:
        # A server whose system has shut down is off by then, and has to be switched on in any case.
        needed = f"{ON}, and {CYCLE} or {OFF}"
        types = [] if ON not in allowed else [CYCLE] if CYCLE in allowed else [OFF, ON] if OFF in allowed else []
    if not types:
        others = [one for one in (GRACEFUL, FORCE) if RESTARTS[one] in allowed and one != how]
        instead = f"Ask for {' or '.join(others)}, or let the operating system reboot." if others else ""
        raise BadRequest(
            f"The BMC {name} cannot do the reset '{how}': it takes {', '.join(allowed)}, and that needs {needed}. "
            f"{instead or 'Let the operating system reboot.'} Nothing was changed."
        )
    return types


def _action(system: Mapping[str, Any]) -> Mapping[str, Any]:
    actions = system.get("Actions")
    found = actions.get("#ComputerSystem.Reset") if isinstance(actions, dict) else None
    return found if isinstance(found, dict) and found.get("target") else {}


def _allowed(client: Client, action: Mapping[str, Any]) -> list[str]:
    """Return the types that the BMC takes, from the action itself or from the resource that describes it."""
    told = action.get(ALLOWED)
    if not told and action.get("@Redfish.ActionInfo"):
        answer = client.find(str(action["@Redfish.ActionInfo"]))
        parameters = answer.body.get("Parameters") if answer else None
        for one in parameters if isinstance(parameters, list) else ():
            if isinstance(one, dict) and one.get("Name") == "ResetType":
                told = one.get("AllowableValues")
    return [str(one) for one in told] if isinstance(told, list) else []


def _power(system: Mapping[str, Any]) -> str:
    return str(system.get("PowerState") or "unknown").lower()


def _goes_off(client: Client, path: str, seconds: float, sleep: Callable[[float], None]) -> bool:
    """Wait until the server is off; return whether it is."""
    waited = 0.0
    while _power(client.get(path)) != "off":
        if waited >= seconds:
            return False
        sleep(min(PAUSE, seconds - waited))
        waited += PAUSE
    return True
