#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_bios
short_description: Report what the kernel shows of the BIOS settings that matter on an EPYC
version_added: 0.1.0
description:
  - Compares what the running kernel shows of BIOS settings with what is expected, and says for each one that is wrong
    what it costs and where it is changed. It changes nothing itself.
  - A setting that is expected and cannot be seen is V(unknown), never fine. One without an expectation is
    V(unasked), with what is known of it.
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
  smt:
    description: Whether cores should have two threads. Off by the BIOS or by the kernel is the same here.
    type: bool
  kernel_smt:
    description:
      - What a later task of the same run has the kernel make of SMT, as O(sovereign.epyc.sysfs_settings#module:smt).
      - Where that is what O(smt) expects, SMT is V(pending) and not V(wrong).
    type: str
    choices: ["on", "off"]
  boost:
    description: Whether cores should be allowed to run faster than their base frequency.
    type: bool
  cppc:
    description: Whether the firmware should offer CPPC, which the driver amd-pstate needs.
    type: bool
  preferred_cores:
    description: Whether the firmware should rank cores. Visible only with the driver amd-pstate.
    type: bool
  determinism:
    description: Performance or power determinism. No kernel file shows it, so it is V(unknown) wherever it is expected.
    type: str
    choices: [performance, power]
  df_cstates:
    description: Whether the data fabric may sleep. No kernel file shows it, as with O(determinism).
    type: bool
  hsmp:
    description: Whether the host system management port should answer. Needs the driver amd_hsmp or hsmp_acpi loaded.
    type: bool
"""

EXAMPLES = r"""
- name: Look for four nodes per socket and no SMT
  sovereign.epyc.epyc_bios:
    nps: 4
    smt: false
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
      description: V(ok), V(wrong), V(unknown), V(unasked), or V(pending) with O(kernel_smt).
      type: str
    expected:
      description: What is expected, such as C(NPS4), C(off) or C(power).
      type: str
    found:
      description: What the kernel shows, null where it shows nothing.
      type: str
    sentence:
      description: What was found and how that is known, and if it is not as expected, the cost and where to change it.
      type: str
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
from ansible_collections.sovereign.epyc.plugins.module_utils._verify import bios
from ansible_collections.sovereign.epyc.plugins.module_utils._verify import items as checklist_items

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS

SWITCHES = ("l3_as_numa", "smt", "boost", "cppc", "preferred_cores", "df_cstates", "hsmp")


def read(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Return the findings as the module's result."""
    expected = {name: bios.ON if params[name] else bios.OFF for name in SWITCHES if params[name] is not None}
    if params["nps"] is not None:
        expected["nps"] = f"NPS{params['nps']}"
    if params["determinism"] is not None:
        expected["determinism"] = params["determinism"]
    soon = {} if params["kernel_smt"] is None else {"smt": params["kernel_smt"]}
    items = bios.check(fs, topology.discover(fs), expected, soon)
    return {
        "clean": all(item.clean for item in items),
        "settings": [item.to_dict() for item in items],
        "complaints": checklist_items.complaints(items),
        "text": checklist_items.render(items),
    }


def main() -> None:
    spec = dict(
        nps=dict(type="int", choices=[0, 1, 2, 4]),
        l3_as_numa=dict(type="bool"),
        smt=dict(type="bool"),
        kernel_smt=dict(type="str", choices=["on", "off"]),
        boost=dict(type="bool"),
        cppc=dict(type="bool"),
        preferred_cores=dict(type="bool"),
        determinism=dict(type="str", choices=["performance", "power"]),
        df_cstates=dict(type="bool"),
        hsmp=dict(type="bool"),
    )
    run_reader(spec, read)


if __name__ == "__main__":
    main()
