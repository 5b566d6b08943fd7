#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_bios_check_info
short_description: Report what the kernel shows of the BIOS settings that matter on an EPYC
version_added: 0.1.0
description:
  - Compares what the running kernel shows of BIOS settings with what is expected. For each wrong setting it says what
    that costs and where it is changed. It changes nothing itself.
  - An expected setting that the kernel does not show is V(unknown), which is not clean. A setting without an
    expectation is V(unasked), with the value that the kernel shows.
  - Memory modules are those that the firmware describes to the kernel (SMBIOS), which only root may read.
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
      - V(all) expects every core that the CPU's name promises, and so every CCD of it.
    type: str
    choices: [all]
  smt:
    description: Whether cores should have two threads. Whether the BIOS or the kernel turned SMT off does not matter.
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
      - What the BMC says of the settings, as M(sovereign.epyc.epyc_bmc_bios) returns it. Values that were
        requested of the BMC are expected here too, and win over the other options.
      - Where the kernel shows a setting, it decides, and a BMC that says another value is V(wrong). Where the kernel
        shows nothing, the setting is V(claimed by firmware) if the BMC has it active.
    type: dict
    default: {}
  memory_channels:
    description:
      - V(all) expects a memory module on every channel of the CPU, 12 on an EPYC 9004 or 9005 and 8 on its
        predecessors. Each channel without one takes a twelfth or an eighth of the bandwidth of its socket.
      - Where the firmware's names of the slots do not have the channel in them, the module can only see whether there
        are too few modules.
    type: str
    choices: [all]
  memory_speed:
    description: V(rated) expects modules to run at the highest speed of which they and the CPU are capable.
    type: str
    choices: [rated]
  memory_sizes:
    description: V(equal) expects modules of one size.
    type: str
    choices: [equal]
  memory_encryption:
    description:
      - The encryption of memory to expect. V(tsme) is done by the BIOS alone, V(sme) by the kernel where the BIOS
        allows it. In the C(sentence) are the flags of the CPU for SME and SEV.
      - The driver ccp shows whether TSME is on, from Linux 5.19 on. Put V(off) in quotes.
    type: str
    choices: ["off", sme, tsme]
  prefetchers:
    description:
      - Whether the BIOS should start the machine with all prefetchers on, or with all off. For Zen 3 and later.
      - Changes by M(sovereign.epyc.msr_bits) since the boot do not count. Needs the drivers msr and cpuid loaded.
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
      - The power in watts that each socket should be allowed to take (PPT). Visible with HSMP, its driver, and Linux
        6.16 or newer.
    type: int
  determinism:
    description: Performance or power determinism. No kernel file shows it, so it is V(unknown) where it is expected.
    type: str
    choices: [performance, power]
  c_states:
    description:
      - Whether the firmware should offer the idle state C2 or a deeper one to cores. Visible with the driver acpi_idle.
        States that the kernel has disabled count as offered.
    type: bool
  df_cstates:
    description: Whether the data fabric may sleep. No kernel file shows it, as with O(determinism).
    type: bool
  iommu:
    description: Whether the firmware should offer an IOMMU, even if the kernel does not use it.
    type: bool
  hsmp:
    description: Whether the host system management port should answer. Needs the driver amd_hsmp or hsmp_acpi loaded.
    type: bool
"""

EXAMPLES = r"""
- name: Look for four nodes per socket and no SMT
  sovereign.epyc.epyc_bios_check_info:
    nps: 4
    smt: false
    memory_channels: all
    memory_speed: rated
  register: bios

- name: Show it
  ansible.builtin.debug:
    var: bios.text
"""

RETURN = r"""
clean:
  description: Whether every expected setting is as expected, and none of them unknown.
  returned: always
  type: bool
settings:
  description: One entry per setting.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: The option that expects it.
      type: str
    title:
      description: Its name for people.
      type: str
    verdict:
      description:
        - V(ok), V(wrong), V(unknown) or V(unasked); V(pending) with O(kernel_smt), or where the BMC says that the next
          boot makes it so; V(claimed by firmware) or V(not on this machine) with O(claims).
      type: str
    expected:
      description: What is expected, such as C(NPS4), C(off), C(all) or C(400 W).
      type: str
    found:
      description: What the kernel shows, such as C(NPS4) or C(11 of 12), null where it shows nothing.
      type: str
    bmc_attribute:
      description: With O(claims), the name of the attribute at the BMC.
      type: str
    bmc_active:
      description: With O(claims), what the BMC has active, in the words of RV(settings[].found).
      type: str
    bmc_pending:
      description: With O(claims), what the next boot makes it, null where it stays.
      type: str
    sentence:
      description: What was found and how that is known, and if it is not as expected, the cost and where to change it.
      type: str
table:
  description: What is wanted, what the BMC has active and pending, and what the kernel shows. Only with O(claims).
  returned: with claims
  type: str
iommu_users:
  description:
    - The devices that a driver of VFIO has, for a guest or a program. They are lost when the BIOS switches the IOMMU
      off.
  returned: always
  type: list
  elements: str
  sample: ["0000:41:00.0 (IOMMU group 23, driver vfio-pci)"]
complaints:
  description: A line for each setting that is expected and wrong or unknown.
  returned: always
  type: list
  elements: str
text:
  description: All of it as a page.
  returned: always
  type: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_reader
from ansible_collections.sovereign.epyc.plugins.module_utils._host import topology
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._verify import checklist_items as checklist_items
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios import bmc_claims
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.check import (
    check_bios_settings,
    expected_values,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.setting import KernelView
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.vfio_devices import list_vfio_devices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS


def check_bios(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Return the module's result."""
    look = KernelView(fs, topology.read_topology(fs), Ledger(Store(read_only=True), fs))
    soon = {} if params["kernel_smt"] is None else {"smt": params["kernel_smt"]}
    told = bmc_claims.parse_claims(params["claims"])
    asked = {name: claim.wanted for name, claim in told.items() if claim.wanted is not None}
    items = bmc_claims.judge_with_claims(check_bios_settings(look, {**expected_values(params), **asked}, soon), told)
    rows = bmc_claims.build_rows(items, told)
    return {
        "clean": all(item.is_clean for item in items),
        "settings": rows,
        **({"table": bmc_claims.render_table(rows)} if told else {}),
        "complaints": checklist_items.complaint_messages(items),
        "iommu_users": list_vfio_devices(fs),
        "text": checklist_items.render_checklist(items),
    }


def main() -> None:
    spec = dict(
        nps=dict(type="int", choices=[0, 1, 2, 4]),
        l3_as_numa=dict(type="bool"),
        cores=dict(type="str", choices=["all"]),
        smt=dict(type="bool"),
        kernel_smt=dict(type="str", choices=["on", "off"]),
        claims=dict(type="dict", default={}),
        memory_channels=dict(type="str", choices=["all"]),
        memory_speed=dict(type="str", choices=["rated"]),
        memory_sizes=dict(type="str", choices=["equal"]),
        memory_encryption=dict(type="str", choices=["off", "sme", "tsme"]),
        prefetchers=dict(type="bool"),
        boost=dict(type="bool"),
        cppc=dict(type="bool"),
        preferred_cores=dict(type="bool"),
        power_limit=dict(type="int"),
        determinism=dict(type="str", choices=["performance", "power"]),
        c_states=dict(type="bool"),
        df_cstates=dict(type="bool"),
        iommu=dict(type="bool"),
        hsmp=dict(type="bool"),
    )
    run_reader(spec, check_bios)


if __name__ == "__main__":
    main()
