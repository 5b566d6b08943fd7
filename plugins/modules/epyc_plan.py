#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_plan
short_description: Read the topology of an EPYC host and plan the roles of its CPUs
version_added: 1.0.0
description:
  - Reads CPUs, L3 domains, CCDs, NUMA nodes and sockets from the running kernel, and the features of resctrl.
  - Plans from an intent without numbers of CPUs and without masks, so that one intent fits every SKU.
  - Returns topology and plan as facts, and as a page for people.
  - Fails with the reason if the intent does not fit the host. Features that the host lacks are named in the plan
    instead.
  - CPUs that are offline are in no role. CCDs and roles are computed as if these CPUs were online, so that the plan
    does not change with them. A remark names the offline CPUs of each role.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes.reader
options:
  housekeeping:
    description:
      - The cores that are left to the operating system, its interrupts and its daemons. A remark has their number where
        they are more than a tenth of all cores.
      - If empty, one core of each node where each node has 16 cores or more, else one of each socket where each socket
        has as many, else one of the host. A host with fewer than 8 cores keeps none, so that all of them compute.
    type: dict
    default: {}
    suboptions:
      cores:
        description:
          - The number of whole cores, the first ones of each place. V(0) leaves none to the operating system.
          - The default is 1 if O(housekeeping.per) is given.
        type: int
      per:
        description:
          - The place in which cores are counted. CPU 0 is always among them. The default is V(node) if
            O(housekeeping.cores) is given.
          - If the BIOS makes each L3 domain a NUMA node, V(node) means cores of each L3 domain.
        type: str
        choices: [node, socket, host]
  draft:
    description:
      - The place of the draft model of speculative decoding. Without a number it has no CPUs of its own.
      - CCDs or L3 domains without a housekeeping core are taken first. Of equal ones, the one with CPU 0 is the last.
    type: dict
    default: {}
    suboptions: &placement
      ccds:
        description: A number of whole CCDs (core complex dies).
        type: int
      l3_domains:
        description: A number of L3 domains (CCX). A CCD of a 9754 has two, a CCD of most other SKUs has one.
        type: int
      l3:
        description:
          - The reserved part of each L3 domain of the role, in whole ways from the highest down.
          - A text such as V(12MiB), V(12 ways) or V(75%); which is rounded up to whole ways.
        type: str
  verify:
    description: The place of the large model. Without a number it has all remaining CPUs.
    type: dict
    default: {}
    suboptions: *placement
  default:
    description: The default resctrl group, in which all other processes and the kernel run.
    type: dict
    default: {}
    suboptions:
      l3:
        description:
          - The part of each L3 domain in which a role has a reserved part, from the lowest way up, with values as in
            O(draft.l3).
          - Without this option the default group has all ways that no role has reserved.
        type: str
  sku:
    description:
      - The SKU of the intent, such as V(9754), which must be in the CPU's model name. A host of another SKU is refused
        before the plan. Empty accepts any SKU.
    type: str
    default: ""
  refuse:
    description:
      - Whether the module fails if the intent does not fit the host. With V(false), RV(refusals) has the reason, and
        C(ansible_facts), RV(map) and RV(text) are missing.
    type: bool
    default: true
notes:
  - As root and with the cpuid driver loaded, the module knows the width of L3 masks even without a mount of resctrl.
"""

EXAMPLES = r"""
- name: Plan one CCD for the draft model, and 12 MiB of every L3 domain for weights
  sovereign.epyc.epyc_plan:
    draft: {ccds: 1, l3: 12MiB}
    verify: {l3: 12MiB}
  register: planned

- name: Show the plan
  ansible.builtin.debug:
    msg: "{{ planned.text }}"
"""

RETURN = r"""
ansible_facts:
  description: The fact C(epyc), with the topology and the plan.
  returned: always
  type: dict
  contains:
    epyc:
      description: Topology, plan and intent.
      type: dict
      contains:
        intent:
          description: The options of this module, for the O(ignore:intent) of the other modules.
          type: dict
        topology:
          description:
            - The parts of the host. Sizes are in bytes, CPUs in the kernel's list notation.
            - C(missing) has a sentence for each feature that the host lacks or that could not be read.
          type: dict
        plan:
          description:
            - The CPUs of each role, and C(resctrl) with the options for M(sovereign.epyc.resctrl_schemata).
            - C(cannot) maps a layer to the reason why this host cannot have it. It has V(prefetch) also if registers
              can only be read, even if they have the wanted values already.
          type: dict
        memory:
          description:
            - The read bandwidth of the memory in GB/s. C(theoretical_gbps) is what the modules and the links of the
              CCDs allow, from C(theoretical_source), which is V(dimms), V(data sheet) or V(unknown).
            - C(measured_gbps), C(measured_by_node) and C(measured_at) are what M(sovereign.epyc.epyc_memory_speed) or a
              benchmark measured, and C(share) is measured over theoretical. C(stale_reason) says why a measurement does
              not count any more.
            - C(faults) are sentences on missing modules and on memory that is slower than it should be, and C(is_slow)
              is whether so much bandwidth is lost that tuning this host is of little use.
          type: dict
map:
  description:
    - The host and its plan as data for a drawing. P(sovereign.epyc.plan#callback) makes a page of the hosts of a fleet.
    - Lists of CPUs are in the kernel's notation. Unknown values are empty or null.
  returned: always
  type: dict
  contains:
    model:
      description: The model name of the CPU.
      type: str
    kernel:
      description: The release of the running kernel.
      type: str
    parts:
      description: A line with the numbers of the host's parts.
      type: str
      sample: "1 socket, 4 nodes, 128 cores, SMT on, 8 CCDs, L3: 16 x 16 MiB"
    roles:
      description: The CPUs of each role with CPUs, and those that are V(offline).
      type: dict
      sample: {housekeeping: "0,4", draft: 1-3, verify: 5-7}
    nodes:
      description: The NUMA nodes.
      type: list
      elements: dict
      contains:
        id:
          description: The number of the node.
          type: int
        memory:
          description: The memory of the node, for people.
          type: str
          sample: 188.6 GiB
        hugepages:
          description: The number of pages in the pool of each size, free pages included.
          type: dict
          sample: {2048kB: 5120}
    domains:
      description: The L3 domains; on a host without known L3 domains, its nodes.
      type: list
      elements: dict
      contains:
        l3:
          description: The kernel's id of the L3 domain.
          type: int
        bytes:
          description: The size of its cache in bytes.
          type: int
        socket:
          description: The socket of the domain.
          type: int
        node:
          description: The node of the domain.
          type: int
        ccd:
          description: The CCD of the domain.
          type: int
        cores:
          description: The cores of the domain, each a list of its CPUs.
          type: list
          elements: list
        roles:
          description: >-
            For each core, a letter for each of its CPUs; V(h) housekeeping, V(d) draft, V(v) verify, V(i) idle, V(x)
            offline.
          type: list
          elements: str
        ways:
          description: >-
            A letter for each way of the cache, from the highest down; V(d) for the draft, V(v) for verify, V(.) for
            the default group. Empty if the plan divides no cache.
          type: str
          sample: dddddddddddd....
    faults:
      description: Sentences on what is wrong with the frequencies and the memory of the host, the worst first.
      type: list
      elements: str
    instances:
      description: The instances of llama.cpp that are installed on the host.
      type: list
      elements: dict
      contains:
        name:
          description: The name of the instance.
          type: str
        cpus:
          description: The CPUs of the instance; empty if its unit does not name them.
          type: str
        nodes:
          description: The nodes of the instance's memory.
          type: str
        draft_cpus:
          description: The CPUs of the instance's draft model, if it runs in a process of its own.
          type: str
        url:
          description: The address at which this host reaches the instance.
          type: str
    notes:
      description: A line for each remark, each layer that the host cannot have, and each missing feature.
      type: list
      elements: str
refusals:
  description: The reason why the intent does not fit this host, in a sentence; empty if it fits.
  returned: when O(refuse=false)
  type: list
  elements: str
remarks:
  description:
    - Remarks on the plan, which are also warnings. A remark names offline CPUs of a role, an amount that was rounded,
      housekeeping cores that are more than a tenth of all or none at all, and nodes without CPUs or without memory.
    - The first remark names a run of C(sovereign.epyc.site) that did not end on this host, if there is one. A fault of
      the memory that makes tuning the host useless comes next.
  returned: always
  type: list
  elements: str
stored:
  description: The requests that are stored on the host for its boot service, as C(KNOB/LABEL).
  returned: always
  type: list
  elements: str
  sample: [resctrl/resctrl, sysfs/numa]
text:
  description: The plan as a page, with a map of the L3 domains.
  returned: always
  type: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_read_only_module
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host import map_data, plan_text
from ansible_collections.sovereign.epyc.plugins.module_utils._host import plan as planner
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.history.history_file import load_unfinished_run
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import load_stored_requests
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.installed import list_instance_placements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._host.topology import Topology
    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS


def build_placement_spec() -> dict[str, Any]:
    """Return a new spec of the options draft and verify, because Ansible fills the default of a spec in place."""
    return dict(
        type="dict",
        default={},
        options=dict(ccds=dict(type="int"), l3_domains=dict(type="int"), l3=dict(type="str")),
        mutually_exclusive=[("ccds", "l3_domains")],
    )


SPEC = dict(
    housekeeping=dict(
        type="dict",
        default={},
        options=dict(cores=dict(type="int"), per=dict(type="str", choices=["node", "socket", "host"])),
    ),
    draft=build_placement_spec(),
    verify=build_placement_spec(),
    default=dict(type="dict", default={}, options=dict(l3=dict(type="str"))),
    sku=dict(type="str", default=""),
    refuse=dict(type="bool", default=True),
)
#: The options that are not part of the intent.
OTHER_OPTIONS = ("sku", "refuse")


def build_plan_or_refusals(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Return the plan of this host as the module's result, or why the intent does not fit."""
    store = Store(fs.root, read_only=True)
    unfinished = load_unfinished_run(store)
    remarks = [f"{unfinished.unfinished_message()}."] if unfinished else []
    intent = {key: value for key, value in params.items() if key not in OTHER_OPTIONS}
    try:
        host = Host(fs, intent)
        top = host.topology
        require_sku(top, params["sku"])
        plan, memory = host.plan, host.memory_speed
    except BadRequest as error:
        if params["refuse"]:
            raise
        return {"refusals": [str(error)], "remarks": remarks, "stored": sorted(load_stored_requests(store)[1])}
    return {
        "ansible_facts": {"epyc": planner.plan_facts(intent, plan, top, memory)},
        "refusals": [],
        "map": map_data.build_map_data(plan, top, list_instance_placements(fs.root), memory),
        "remarks": [
            *remarks,
            *([top.frequency_fault] if top.frequency_fault else []),
            *(memory.faults if memory.is_slow else []),
            *plan.remarks,
        ],
        "stored": sorted(load_stored_requests(store)[1]),
        "text": plan_text.render_plan(plan, top, memory),
    }


def require_sku(top: Topology, sku: str) -> None:
    """Raise BadRequest if the CPU has another number than the SKU."""
    if sku and top.sku != sku:
        raise BadRequest(
            f"The CPU calls itself '{top.model}', but the variables of this host are for an EPYC {sku} "
            "(epyc_plan_sku). Move the host to the group of its SKU in the inventory, or set epyc_plan_sku_check to "
            "false to go on with these variables."
        )


def main() -> None:
    run_read_only_module(SPEC, build_plan_or_refusals)


if __name__ == "__main__":
    main()
