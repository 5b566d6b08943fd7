#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_bios_check_info
short_description: Report what the kernel shows of the BIOS settings that matter on an EPYC
version_added: 1.0.0
description:
  - Compares the values of BIOS settings that the running kernel shows with the expected values. For each wrong setting,
    the module returns its cost and its place in the BIOS setup. The module changes nothing.
  - An expected setting that the kernel does not show is V(unknown), which is not clean. A setting without an
    expectation is V(not asked for), with the value that the kernel shows.
  - The firmware describes the memory modules to the kernel (SMBIOS). Only root may read this description.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes.reader
options:
  nps:
    description: The NUMA nodes per socket to expect; V(0) is one node for two sockets.
    type: int
    choices: [0, 1, 2, 4]
  l3_as_numa:
    description: Whether each L3 domain should be a NUMA node.
    type: bool
  cores:
    description:
      - V(all) expects as many cores as the name of the CPU says, and so all its CCDs.
    type: str
    choices: [all]
  smt:
    description: Whether cores should have two threads. SMT may be turned off by the BIOS or by the kernel.
    type: bool
  kernel_smt:
    description:
      - The value to which a later task of the same run sets SMT in the kernel, as
        O(sovereign.epyc.sysfs_settings#module:smt).
      - Where O(smt) expects the same value, SMT is V(pending) and not V(wrong).
    type: str
    choices: ["on", "off"]
  claims:
    description:
      - The claims of the BMC about the settings, as M(sovereign.epyc.epyc_bmc_bios) returns them. Values that were
        requested of the BMC are expected here too, and override the other options.
      - Where the kernel shows a setting, the kernel decides, and a different value of the BMC is V(wrong). Where the
        kernel does not show a setting, it is V(claimed by firmware) if the expected value is active at the BMC.
    type: dict
    default: {}
  memory_channels:
    description:
      - V(all) expects a memory module on every channel of the CPU, 12 on an EPYC 9004 or 9005 and 8 on its
        predecessors. Each channel without one takes a twelfth or an eighth of the bandwidth of its socket.
      - If the names of the slots do not contain their channels, the module can only find that a host has too few
        modules.
    type: str
    choices: [all]
  memory_speed:
    description: V(rated) expects modules to run at the highest speed of the modules and the CPU.
    type: str
    choices: [rated]
  memory_sizes:
    description: V(equal) expects modules of one size.
    type: str
    choices: [equal]
  memory_encryption:
    description:
      - The encryption of memory to expect. V(tsme) is encryption by the BIOS alone, V(sme) encryption by the kernel,
        which the BIOS must allow. The C(sentence) has the flags of the CPU for SME and SEV.
      - Since Linux 5.19, the driver ccp shows whether TSME is on. Put V(off) in quotes.
    type: str
    choices: ["off", sme, tsme]
  prefetchers:
    description:
      - Whether the BIOS should start the machine with all prefetchers on, or with all prefetchers off. For Zen 3 and
        later. The drivers msr and cpuid must be loaded.
      - Changes by M(sovereign.epyc.msr_bits) since the boot do not count.
    type: bool
  boost:
    description: Whether cores should be allowed to run faster than their base frequency.
    type: bool
  cppc:
    description: Whether the firmware should offer CPPC, which the driver amd-pstate needs.
    type: bool
  preferred_cores:
    description: Whether the firmware should rank cores. Visible only with the driver amd-pstate.
    type: bool
  power_limit:
    description:
      - The power in watts that each socket should be allowed to take (PPT). Visible with HSMP, its driver, which the
        kernels of Debian do not have, and Linux 6.16 or newer.
    type: int
  determinism:
    description: Performance or power determinism. No kernel file shows it, so without O(claims) it is V(unknown).
    type: str
    choices: [performance, power]
  c_states:
    description:
      - Whether the firmware should offer the idle state C2 or a deeper one to cores. Visible with the driver acpi_idle.
        States that the kernel has disabled count as offered.
    type: bool
  df_cstates:
    description: Whether the data fabric may sleep. No kernel file shows this setting.
    type: bool
  iommu:
    description: Whether the firmware should offer an IOMMU, even if the kernel does not use it.
    type: bool
  hsmp:
    description:
      - Whether the host system management port should answer. Needs the driver amd_hsmp or hsmp_acpi loaded, which the
        kernels of Debian do not have.
    type: bool
"""

EXAMPLES = r"""
- name: Check for four nodes per socket and no SMT
  sovereign.epyc.epyc_bios_check_info:
    nps: 4
    smt: false
    memory_channels: all
    memory_speed: rated
  register: bios

- name: Show the settings
  ansible.builtin.debug:
    var: bios.text
"""

RETURN = r"""
clean:
  description: Whether every setting with an expectation has the expected value, and none of these is unknown.
  returned: always
  type: bool
settings:
  description: One entry per setting.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: The option of the setting.
      type: str
    title:
      description: The name of the setting for people.
      type: str
    verdict:
      description:
        - V(ok), V(wrong), V(unknown) or V(not asked for); V(pending) with O(kernel_smt), or if the expected value is
          pending at the BMC; V(claimed by firmware) or V(not on this machine) with O(claims).
      type: str
    expected:
      description: The expected value, such as C(NPS4), C(off), C(all) or C(400 W).
      type: str
    found:
      description: The value in the kernel, such as C(NPS4) or C(11 of 12), null if the kernel shows no value.
      type: str
    bmc_attribute:
      description: With O(claims), the name of the attribute at the BMC.
      type: str
    bmc_active:
      description: With O(claims), the active value of the BMC, in the notation of RV(settings[].found).
      type: str
    bmc_pending:
      description: With O(claims), the value after the next boot, null where the boot does not change the value.
      type: str
    sentence:
      description: The found value and its source; for a wrong value also its cost and the place in the BIOS setup.
      type: str
table:
  description: The wanted value, the active and pending value of the BMC, and the value in the kernel, as a table.
  returned: with claims
  type: str
iommu_users:
  description:
    - The devices of VFIO drivers, for a guest or a program. Without an IOMMU, guests and programs lose these devices.
  returned: always
  type: list
  elements: str
  sample: ["0000:41:00.0 (IOMMU group 23, driver vfio-pci)"]
complaints:
  description: A line for each setting with an expectation that is wrong or unknown.
  returned: always
  type: list
  elements: str
text:
  description: All settings as a page.
  returned: always
  type: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_read_only_module
from ansible_collections.sovereign.epyc.plugins.module_utils._host import topology
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._verify import checklist_items
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios import bmc_claims
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.check import (
    check_bios_settings,
    expected_values_from_options,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.setting import KernelView
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.settings_table import SETTINGS
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.vfio_devices import list_vfio_devices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS


def check_bios_without_bmc(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Compare BIOS settings with what the kernel shows of them, and return the verdicts as the module's result."""
    view = KernelView(fs, topology.read_topology(fs), Ledger(Store(read_only=True), fs))
    later_values = {} if params["kernel_smt"] is None else {"smt": params["kernel_smt"]}
    claims = bmc_claims.parse_bmc_claims(params["claims"])
    requested = {name: claim.wanted for name, claim in claims.items() if claim.wanted is not None}
    items = check_bios_settings(view, {**expected_values_from_options(params), **requested}, later_values)
    items = bmc_claims.judge_items_with_bmc_claims(items, claims)
    rows = bmc_claims.items_with_bmc_values(items, claims)
    return {
        "clean": all(item.is_clean for item in items),
        "settings": rows,
        **({"table": bmc_claims.render_bmc_table(rows)} if claims else {}),
        "complaints": checklist_items.messages_of_unclean_items(items),
        "iommu_users": list_vfio_devices(fs),
        "text": checklist_items.render_checklist(items),
    }


def main() -> None:
    spec = dict(
        nps=dict(type="int", choices=[0, 1, 2, 4]),
        cores=dict(type="str", choices=["all"]),
        kernel_smt=dict(type="str", choices=["on", "off"]),
        claims=dict(type="dict", default={}),
        memory_channels=dict(type="str", choices=["all"]),
        memory_speed=dict(type="str", choices=["rated"]),
        memory_sizes=dict(type="str", choices=["equal"]),
        memory_encryption=dict(type="str", choices=["off", "sme", "tsme"]),
        power_limit=dict(type="int"),
        determinism=dict(type="str", choices=["performance", "power"]),
    )
    # All other settings of the table are switches.
    switches = {name: dict(type="bool") for name in SETTINGS if name not in spec}
    run_read_only_module({**spec, **switches}, check_bios_without_bmc)


if __name__ == "__main__":
    main()
