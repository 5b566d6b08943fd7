#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_plan
short_description: Read the topology of an EPYC host and plan who works where on it
version_added: 0.1.0
description:
  - Reads CPUs, L3 domains, CCDs, NUMA nodes and sockets from the running kernel, and what resctrl can do there.
  - Plans from an intent that names no CPU and no mask, so that one intent fits every SKU.
  - Returns both as facts and as a page for people.
  - Fails with the reason when the intent does not fit the host. What the host lacks is named in the plan instead.
  - CPUs that are offline are in no role, but they count as there, so that CCDs keep their numbers and roles stay where
    they are. A remark says which CPUs a role is without.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes.reader
options:
  housekeeping:
    description: The cores that are left to the operating system, its interrupts and its daemons.
    type: dict
    default: {}
    suboptions:
      cores:
        description: How many whole cores, the first ones of each place.
        type: int
        default: 1
      per:
        description:
          - The place that they are counted in. CPU 0 is always among them.
          - Where the BIOS makes each L3 domain a NUMA node, V(node) means a core of each L3 domain, and a remark says
            how much that is.
        type: str
        choices: [node, socket, host]
        default: node
  draft:
    description:
      - Where the draft model of speculative decoding runs. Without a number it has no CPUs of its own.
      - Units without a housekeeping core are taken first.
    type: dict
    default: {}
    suboptions: &placement
      ccds:
        description: A number of whole CCDs (core complex dies).
        type: int
      l3_domains:
        description: A number of L3 domains (CCX). A CCD of a 9754 has two, one of most others has one.
        type: int
      l3:
        description:
          - How much of each of its L3 domains is reserved, in whole ways from the highest down.
          - A text such as V(12MiB), V(12 ways) or V(75%); rounded up to whole ways, which the plan shows.
        type: str
  verify:
    description: Where the large model runs. Without a number it takes every CPU that is left.
    type: dict
    default: {}
    suboptions: *placement
  default:
    description: What the default resctrl group keeps; all other processes and the kernel run in it.
    type: dict
    default: {}
    suboptions:
      l3:
        description:
          - How much of each L3 domain that a role has a share of, from the lowest way up. Written as O(draft.l3).
          - Without it the default group keeps all that is left.
        type: str
  sku:
    description:
      - The SKU that the intent is for, such as V(9754), as the CPU calls itself. It is compared before anything is
        planned, and a host of another one is refused. Empty accepts any.
    type: str
    default: ""
  refuse:
    description:
      - Whether the module fails where the intent does not fit the host. With V(false) RV(refusals) has the reason, and
        C(ansible_facts), RV(map) and RV(text) are not returned then.
    type: bool
    default: true
notes:
  - Run as root with the cpuid driver loaded, the module knows the width of L3 masks even while resctrl is not mounted.
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
            - What the host is made of. Sizes are in bytes, CPUs in the kernel's list notation.
            - C(missing) names what could not be read, with the reason.
          type: dict
        plan:
          description:
            - The CPUs of each role, and C(resctrl) with the options for M(sovereign.epyc.resctrl_schemata).
            - C(cannot) maps a layer to the reason that it cannot be had on this host. V(prefetch) is in it also
              where registers can only be read, which may hold what is asked of them already.
          type: dict
map:
  description:
    - The host under its plan, for a drawing of it. P(sovereign.epyc.plan#callback) makes a page of those of a fleet.
    - Lists of CPUs are in the kernel's notation. What is not known is empty or null.
  returned: always
  type: dict
  contains:
    model:
      description: What the CPU calls itself.
      type: str
    kernel:
      description: The release of the running kernel.
      type: str
    parts:
      description: A line on what the host is made of.
      type: str
      sample: "1 socket, 4 nodes, 128 cores, SMT on, 8 CCDs, L3: 16 x 16 MiB"
    roles:
      description: The CPUs of each role that has some, and those that are V(offline).
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
          description: How much memory it has, for people.
          type: str
          sample: 188.6 GiB
        hugepages:
          description: How many pages there are in the pool of each size, used or not.
          type: dict
          sample: {2048kB: 5120}
    domains:
      description: The L3 domains; on a host that shows none, its nodes in their place.
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
          description: The socket that it is on.
          type: int
        node:
          description: The node that it belongs to.
          type: int
        ccd:
          description: The CCD that it is on.
          type: int
        cores:
          description: Its cores, each the numbers of its CPUs.
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
            the default group. Empty where the plan divides no cache.
          type: str
          sample: dddddddddddd....
    instances:
      description: The instances of llama.cpp that are installed on the host.
      type: list
      elements: dict
      contains:
        name:
          description: The name of the instance.
          type: str
        cpus:
          description: The CPUs that it was placed on; empty where its unit does not tell.
          type: str
        nodes:
          description: The nodes that its memory was placed on.
          type: str
        draft_cpus:
          description: The CPUs of its draft, where that runs in a process of its own.
          type: str
        url:
          description: Where this host reaches it.
          type: str
    notes:
      description: A line for each remark, for each layer that cannot be had, and for what could not be read.
      type: list
      elements: str
refusals:
  description: Why the intent is not for this host, a sentence; empty where it was planned.
  returned: when O(refuse=false)
  type: list
  elements: str
remarks:
  description:
    - What a person should know of the plan, also as warnings. That a role is without CPUs that are offline, that an
      amount was rounded, or that housekeeping takes a core of each L3 domain where the BIOS makes nodes of those.
    - A run of C(sovereign.epyc.site) that did not end on this host is the first one.
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

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_reader
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host import map_data, plan_text, topology
from ansible_collections.sovereign.epyc.plugins.module_utils._host import plan as planner
from ansible_collections.sovereign.epyc.plugins.module_utils._host.intent import Intent
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.history.history_file import load_unfinished_run
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import load_stored_requests
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.installed import list_instance_placements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS


def placement() -> dict[str, Any]:
    """Return a spec of its own each time: Ansible fills the very default it is given, and two must not share one."""
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
        options=dict(
            cores=dict(type="int", default=1),
            per=dict(type="str", choices=["node", "socket", "host"], default="node"),
        ),
    ),
    draft=placement(),
    verify=placement(),
    default=dict(type="dict", default={}, options=dict(l3=dict(type="str"))),
    sku=dict(type="str", default=""),
    refuse=dict(type="bool", default=True),
)
#: The options that are no part of the intent.
OF_THE_REQUEST = ("sku", "refuse")


def read(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Return the plan of this host as the module's result, or why there is none."""
    store = Store(fs.root, read_only=True)
    unfinished = load_unfinished_run(store)
    remarks = [f"{unfinished.unfinished_message()}."] if unfinished else []
    intent = {key: value for key, value in params.items() if key not in OF_THE_REQUEST}
    try:
        top = topology.read_topology(fs)
        refuse_other_sku(top, params["sku"])
        plan = planner.build_plan(Intent.from_options(intent), top)
    except BadRequest as error:
        if params["refuse"]:
            raise
        return {"refusals": [str(error)], "remarks": remarks, "stored": sorted(load_stored_requests(store)[1])}
    return {
        "ansible_facts": {"epyc": planner.plan_facts(intent, plan, top)},
        "refusals": [],
        "map": map_data.build_map(plan, top, list_instance_placements(fs.root)),
        "remarks": [*remarks, *plan.remarks],
        "stored": sorted(load_stored_requests(store)[1]),
        "text": plan_text.render_plan(plan, top),
    }


def refuse_other_sku(top: topology.Topology, sku: str) -> None:
    """Raise BadRequest where the CPU calls itself by another number than that of this SKU."""
    if sku and top.sku != sku:
        raise BadRequest(
            f"The CPU calls itself '{top.model}', but the variables of this host are for an EPYC {sku} "
            "(epyc_plan_sku). "
            "Move the host to the group of its SKU in the inventory, or set epyc_plan_sku_check to false to go on with "
            "these variables."
        )


def main() -> None:
    run_reader(SPEC, read)


if __name__ == "__main__":
    main()
