#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_bmc_bios_info
short_description: Show the BIOS settings of a server as its BMC has them
version_added: 1.0.0
description:
  - Reads from the Redfish service of a BMC the active and pending BIOS settings of its server, waiting jobs, messages
    of the last boot about settings, and the description of chosen attributes from the machine's own registry.
  - Passwords, and values that identify people or the machine, are replaced, so the result can be stored.
  - The module only reads. Active values are claims of the BMC, which M(sovereign.epyc.epyc_bios_check_info) compares
    with the kernel.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.bmc
  - sovereign.epyc.attributes.reader
options:
  describe:
    description:
      - The names of attributes to describe from the registry. V(catalogue) stands for the attributes of the options of
        M(sovereign.epyc.epyc_bmc_bios), V(all) for all attributes, which may be a thousand.
    type: list
    elements: str
    default: [catalogue]
  probe:
    description:
      - Whether to return, in place of all other values, what would work with this BMC and what would hinder. For a BMC
        that was never tried. All that a run would read is read, and nothing is sent but the beginning and the end of
        the session.
    type: bool
    default: false
  recording:
    description:
      - With O(probe=true), a file on the controller to which the answers of the BMC are written, without passwords,
        names, addresses and serial numbers. Look through it before you send it to anybody.
    type: path
"""

EXAMPLES = r"""
- name: Read the BIOS settings
  sovereign.epyc.epyc_bmc_bios_info:
    bmc: "{{ epyc_bios_bmc }}"
    username: "{{ epyc_bios_username }}"
    password: "{{ epyc_bios_password }}"
  delegate_to: localhost
  register: bios

- name: Find out what would work with a BMC that was never tried
  sovereign.epyc.epyc_bmc_bios_info:
    bmc: "{{ epyc_bios_bmc }}"
    username: "{{ epyc_bios_username }}"
    password: "{{ epyc_bios_password }}"
    probe: true
    recording: "{{ inventory_hostname }}.json"
  delegate_to: localhost

- name: Show the number of nodes of a socket, now and after a boot
  ansible.builtin.debug:
    var: bios.claims.nps
"""

RETURN = r"""
probe:
  description:
    - C(can_be_set) is whether nothing hinders, C(findings) has a subject, a verdict and a sentence for each thing that
      a run needs, C(options) the attribute, value and lock of each option, and C(text) the findings as a table.
  returned: with O(probe=true)
  type: dict
machine:
  description: Maker, model, BIOS version, power state, state of a running self-test (or null), and apply times.
  returned: success, without O(probe=true)
  type: dict
claims:
  description:
    - By option of M(sovereign.epyc.epyc_bmc_bios), the C(attribute), and its C(active) and C(pending) value as values
      of the option.
  returned: success, without O(probe=true)
  type: dict
  sample: {nps: {attribute: NumaNodesPerSocket, active: "1", pending: "4"}}
active:
  description: All active attributes.
  returned: success, without O(probe=true)
  type: dict
pending:
  description: The attributes that the next boot changes, with their new values.
  returned: success, without O(probe=true)
  type: dict
jobs:
  description: Jobs that wait for a boot, or run.
  returned: success, without O(probe=true)
  type: list
  elements: dict
messages:
  description: Messages of the last boot about the settings, without successes.
  returned: success, without O(probe=true)
  type: list
  elements: str
registry:
  description:
    - By attribute, its title, menu, type, allowed values, and flags. C(never_set) is the reason why no module sets the
      attribute, or null.
  returned: success, without O(probe=true)
  type: dict
remarks:
  description: Sentences on data that could not be read.
  returned: success, without O(probe=true)
  type: list
  elements: str
"""

import json

from ansible_collections.sovereign.epyc.plugins.module_utils._bmc import run_bmc_module
from ansible_collections.sovereign.epyc.plugins.module_utils._io.textfile import write_file
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.bios_info import read_result_of_bios_info_module
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.probe import probe_bmc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.client import RedfishClient


def read_bios_from_bmc(params: Mapping[str, Any], client: RedfishClient, check: bool) -> dict[str, Any]:
    """Return the BIOS settings that the BMC reports, or what would work with it, as the module's result."""
    if params["probe"]:
        probe = probe_bmc(client, params["system"])
        recording = json.dumps(probe.pop("recording"), indent=1) + "\n"
        if params["recording"] and not check:
            write_file(params["recording"], recording, mode=0o600)
        return {"changed": False, "probe": probe}
    return {"changed": False, **read_result_of_bios_info_module(client, params["system"], params["describe"])}


def main() -> None:
    spec = dict(
        describe=dict(type="list", elements="str", default=["catalogue"]),
        probe=dict(type="bool", default=False),
        recording=dict(type="path"),
    )
    run_bmc_module(spec, read_bios_from_bmc)


if __name__ == "__main__":
    main()
