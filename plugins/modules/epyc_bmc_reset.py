#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_bmc_reset
short_description: Reset a server through its BMC
version_added: 1.0.0
description:
  - Sends a reset to the Redfish service of the BMC, of a type that this BMC offers. Other types are refused before
    anything is sent.
  - Some boards apply BIOS settings only after their power was off. No operating system switches the power off and on.
  - A server that is off is switched on.
  - C(reboot.yml) uses this module with C(epyc_reboot_by=bmc), after it has taken the host out of service.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.bmc
  - sovereign.epyc.attributes
attributes:
  check_mode:
    details: Only reads, and returns the types of reset that would be sent. Fails where the BMC lacks the type.
  diff_mode:
    support: N/A
    details: A reset has no values to compare.
  idempotent:
    support: none
    details: Each run resets the server.
options:
  reset:
    description:
      - V(graceful) has the BMC ask the operating system to restart (C(GracefulRestart)). A system that ignores its
        power button ignores this too.
      - V(force) resets the server as its reset button does (C(ForceRestart)). Data that is not on the disk is lost.
      - V(cold) switches the server off and on (C(PowerCycle), or C(ForceOff) and C(On)). Shut the operating system down
        first, and set O(shutdown_timeout) to the time that it needs.
    type: str
    choices: [graceful, force, cold]
    required: true
  shutdown_timeout:
    description: With O(reset=cold), how many seconds the server may take to go off by itself before its power is cut.
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Check whether this server can be switched off and on
  sovereign.epyc.epyc_bmc_reset:
    bmc: "{{ epyc_bios_bmc }}"
    username: "{{ epyc_bios_username }}"
    password: "{{ epyc_bios_password }}"
    ca_path: bmc-ca.pem
    reset: cold
  delegate_to: localhost
  check_mode: true

- name: Reset a server that hangs in its self-test
  sovereign.epyc.epyc_bmc_reset:
    bmc: "{{ epyc_bios_bmc }}"
    username: "{{ epyc_bios_username }}"
    password: "{{ epyc_bios_password }}"
    ca_path: bmc-ca.pem
    reset: force
  delegate_to: localhost
"""

RETURN = r"""
sent:
  description: The types of reset that were sent, in their order; in check mode, those that would be sent.
  returned: success
  type: list
  elements: str
  sample: [ForceOff, "On"]
power:
  description: The power state before the reset.
  returned: success
  type: str
  sample: "on"
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._bmc import run_bmc_module
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.server_reset import (
    COLD,
    FORCE,
    GRACEFUL,
    reset_server,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.client import RedfishClient


def reset_server_by_bmc(params: Mapping[str, Any], client: RedfishClient, check: bool) -> dict[str, Any]:
    """Reset or restart the server through its BMC, and return the module's result."""
    return reset_server(client, params["system"], params["reset"], params["shutdown_timeout"], check)


def main() -> None:
    spec = dict(
        reset=dict(type="str", choices=[GRACEFUL, FORCE, COLD], required=True),
        shutdown_timeout=dict(type="int", default=0),
    )
    run_bmc_module(spec, reset_server_by_bmc)


if __name__ == "__main__":
    main()
