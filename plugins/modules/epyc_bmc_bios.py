#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_bmc_bios
short_description: Set the BIOS of an EPYC server through its BMC
version_added: 1.0.0
description:
  - Sets BIOS settings through the Redfish service of the BMC, for servers of Dell, HPE, Lenovo and Supermicro, and for
    boards with AMI's names. The settings wait for the next boot of the server; this module never resets it.
  - Names and values are taken from the machine's own registry. Locks are found by the registry's dependencies, with
    active values, pending values and those of this request. A profile that locks a setting is set to custom first
    (O(unlock)).
  - The values before the first change are stored in O(originals), to be put back with O(state=original).
  - A second run while the settings wait sends no settings. The read-back after sending, and the first run after the
    boot, find values that the BMC took and dropped.
  - Active values are claims of the BMC. M(sovereign.epyc.epyc_bios_check_info) compares these claims with the kernel.
  - Passwords, the TPM, secure boot, boot mode and order, network boot and slots are never set.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.bmc
  - sovereign.epyc.attributes
attributes:
  check_mode:
    details: Only reads. Returns the settings that would be sent, and the number of boots.
  diff_mode:
    details: Each attribute with its active and its pending value.
  idempotent:
    details: Changed means that settings were sent, or would be sent.
options:
  state:
    description:
      - V(present) makes the settings pending, unless they are active.
      - V(original) puts back the values in O(originals), and ignores all other settings. If a profile was set to
        custom, this takes two boots, with a run before each. When all originals are active, a run removes the file.
    type: str
    choices: [present, original]
    default: present
  originals:
    description:
      - A file on the controller with the values before the first change of this machine, and the values that were sent
        last. The file is created with mode 0600 before settings are sent. Keep the file, as O(state=original) needs it.
    type: path
    required: true
  nps:
    description: How many NUMA nodes each socket has; V(0) is one node for two sockets.
    type: int
    choices: [0, 1, 2, 4]
  l3_as_numa:
    description: Whether each L3 domain is a NUMA node.
    type: bool
  smt:
    description: Whether cores have two threads.
    type: bool
  boost:
    description: Whether cores may run faster than their base frequency.
    type: bool
  determinism:
    description: Whether each CPU uses all its allowed power, or all CPUs of a SKU run at the same speed.
    type: str
    choices: [power, performance]
  power_profile:
    description: The aim of the power management of a socket.
    type: str
    choices: [high_performance, max_io, efficiency]
  c_states:
    description: Whether cores may sleep deeper than C1.
    type: bool
  df_c_states:
    description: Whether the data fabric may sleep.
    type: bool
  iommu:
    description:
      - Whether there is an IOMMU. Without one no device can be given to a guest, and interrupts reach 255 CPUs at most.
    type: bool
  apbdis:
    description: Whether the data fabric keeps its highest speed, instead of following the load.
    type: bool
  xgmi_width:
    description: The greatest width of the links between two sockets.
    type: str
    choices: [auto, x4, x8, x16]
  xgmi_speed:
    description: The highest speed of the links between two sockets, in GT/s.
    type: str
    choices: [auto, "16", "18", "25", "32"]
  cppc:
    description: Whether the firmware offers CPPC, which the driver amd-pstate needs.
    type: bool
  hsmp:
    description: Whether the host system management port answers.
    type: bool
  memory_encryption:
    description: Whether all memory is encrypted by the hardware (TSME), which costs latency.
    type: bool
  attributes:
    description:
      - Attributes of this machine by their exact names, with values of its registry, for settings without an option.
        Put words like C(On) in quotes. M(sovereign.epyc.epyc_bmc_bios_info) lists attributes and values.
    type: dict
    default: {}
  unlock:
    description:
      - Whether a profile of the vendor that locks a setting of this request is set to custom. Other settings of the
        profile may change with it; the next run shows the active values.
    type: bool
    default: true
  pending:
    description:
      - The treatment of pending settings and jobs of somebody else. V(refuse) changes nothing and lists them. V(keep)
        leaves them pending, and is refused where a job of Dell takes no further settings. V(clear) removes them.
    type: str
    choices: [refuse, keep, clear]
    default: refuse
  host_answers:
    description:
      - Whether the operating system of the server answers at this moment, as over SSH. Then the server is in no
        self-test, whatever the BMC says; the boot progress of some BMCs never ends.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Four nodes in each socket, one thread on each core
  sovereign.epyc.epyc_bmc_bios:
    bmc: "{{ epyc_bios_bmc }}"
    username: "{{ epyc_bios_username }}"
    password: "{{ epyc_bios_password }}"
    ca_path: bmc-ca.pem
    originals: "bios/{{ inventory_hostname }}.json"
    nps: 4
    smt: false
    boost: true
    determinism: power
  delegate_to: localhost

- name: Put back the values from before the first change
  sovereign.epyc.epyc_bmc_bios:
    bmc: "{{ epyc_bios_bmc }}"
    username: "{{ epyc_bios_username }}"
    password: "{{ epyc_bios_password }}"
    ca_path: bmc-ca.pem
    originals: "bios/{{ inventory_hostname }}.json"
    state: original
  delegate_to: localhost
"""

RETURN = r"""
reboot_required:
  description: Whether settings wait for a boot.
  returned: success
  type: bool
boots:
  description: The number of boots until all settings can be active; with V(2), the module must run between the boots.
  returned: success
  type: int
settings:
  description: A row for each requested attribute.
  returned: success, and where settings are blocked
  type: list
  elements: dict
  contains:
    option:
      description: The option that requests the attribute; or C(attributes), C(unlock) or C(original).
      type: str
    title:
      description: The name of the setting for people.
      type: str
    attribute:
      description: The name of the attribute on this machine, null where the machine has no such attribute.
      type: str
    wanted:
      description: The requested value.
      type: raw
    active:
      description: The active value, as the BMC says.
      type: raw
    pending:
      description: The value after the next boot, null where the boot does not change the value.
      type: raw
    verdict:
      description:
        - C(claimed by firmware), C(waits for a reboot), C(wrong), C(blocked) or C(not on this machine). Only the
          kernel can prove that a setting is active.
      type: str
    sentence:
      description: The row as a sentence, with the reason.
      type: str
text:
  description: The rows as a table.
  returned: success, and where settings are blocked
  type: str
complaints:
  description: The sentences of the rows that are not active as requested, without settings that the machine lacks.
  returned: success, and where settings are blocked
  type: list
  elements: str
pending_reboot:
  description: The sentences of the rows that wait for a reboot, without their full stops.
  returned: success, and where settings are blocked
  type: list
  elements: str
again:
  description:
    - Whether a later run may come to another result, because the server is in its self-test, or the BMC is busy or
      cannot be reached.
  returned: success, and where the BMC does not answer
  type: bool
claims:
  description:
    - By option, its C(title), the C(wanted), C(active) and C(pending) value as values of the option, and the
      C(attribute). The option of this name of M(sovereign.epyc.epyc_bios_check_info) takes these claims.
  returned: success
  type: dict
  sample: {nps: {title: NUMA nodes per socket, wanted: "4", attribute: NumaNodesPerSocket, active: "1", pending: "4"}}
pending:
  description: All settings that the next boot changes, including settings of somebody else.
  returned: success
  type: dict
jobs:
  description: Jobs of the BMC that wait for a boot.
  returned: success
  type: list
  elements: dict
machine:
  description: Maker, model, BIOS version, power state, and the state of a running self-test (or null).
  returned: success
  type: dict
diff:
  description:
    - The values that were sent, or would be sent, by attribute.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: success
  type: dict
  sample:
    prepared: "NumaNodesPerSocket: 1 (active), - (pending) -> 1 (active), 4 (pending)\n"
    changes:
      before: {NumaNodesPerSocket: "1 (active), - (pending)"}
      after: {NumaNodesPerSocket: "1 (active), 4 (pending)"}
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._bmc import run_bmc_module
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.attributes.catalogue import BIOS_OPTIONS
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.converge import BiosRequest, apply_bios_request
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.originals import Originals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.client import RedfishClient

CHOICES = dict(
    nps=dict(type="int", choices=[0, 1, 2, 4]),
    determinism=dict(type="str", choices=["power", "performance"]),
    power_profile=dict(type="str", choices=["high_performance", "max_io", "efficiency"]),
    xgmi_width=dict(type="str", choices=["auto", "x4", "x8", "x16"]),
    xgmi_speed=dict(type="str", choices=["auto", "16", "18", "25", "32"]),
)
#: All other BIOS options of the catalogue are switches.
SWITCHES = [name for name in BIOS_OPTIONS if name not in CHOICES]


def send_bios_settings(params: Mapping[str, Any], client: RedfishClient, check: bool) -> dict[str, Any]:
    """Send the requested BIOS settings to the BMC, and return the module's result."""
    options = {name: "on" if params[name] else "off" for name in SWITCHES if params[name] is not None}
    options.update({name: str(params[name]) for name in CHOICES if params[name] is not None})
    undo = params["state"] == "original"
    request = BiosRequest(
        options,
        params["attributes"],
        undo,
        params["unlock"],
        params["pending"],
        params["system"],
        params["host_answers"],
    )
    return apply_bios_request(client, request, Originals(params["originals"], check), check)


def main() -> None:
    spec = dict(
        state=dict(type="str", choices=["present", "original"], default="present"),
        originals=dict(type="path", required=True),
        attributes=dict(type="dict", default={}),
        unlock=dict(type="bool", default=True),
        pending=dict(type="str", choices=["refuse", "keep", "clear"], default="refuse"),
        host_answers=dict(type="bool", default=False),
        **CHOICES,
        **{name: dict(type="bool") for name in SWITCHES},
    )
    run_bmc_module(spec, send_bios_settings)


if __name__ == "__main__":
    main()
