#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: resctrl_schemata
short_description: Partition L3 caches and memory bandwidth through the kernel's resctrl
version_added: 0.1.0
description:
  - Makes resctrl groups with L3 masks, bandwidth limits, CPUs, threads, modes and monitor groups.
  - Amounts may be given as masks, ways, bytes or a share. Bandwidth is in GB/s, in AMD's own steps of an eighth.
  - Every write is read back. The changes of one run are all made or all undone.
  - Ids, CPUs, sums and names are checked before the first write; the kernel's own words are quoted when it refuses.
  - Groups made by this module carry a label, so that O(purge=own) never removes those of others.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
options:
  from_plan:
    description:
      - Make the groups that the plan of O(intent) has on this host, each role with its CPUs and masks.
      - O(groups) are made beside them, and O(default) wins over the plan's.
    type: bool
    default: false
  mount:
    description: Mount resctrl on C(/sys/fs/resctrl) when it is not mounted. A mount that exists is used as it is.
    type: bool
    default: false
  mount_options:
    description:
      - Options for the mount. Fails when resctrl is mounted with others, because a new mount resets all groups.
      - V(cdp) splits L3 into code and data and halves the number of groups.
      - V(mba_mbps) is refused on AMD, whose bandwidth scale is not linear.
    type: list
    elements: str
    choices: [cdp, mba_mbps, debug]
  groups:
    description: The control groups. Settings that are left out stay as they are.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: The group's name.
        type: str
        required: true
      state:
        description: Whether the group should exist. The CPUs and threads of a removed one fall to the default group.
        type: str
        choices: [present, absent]
        default: present
      cpus:
        description: The CPUs, as a list in the kernel's notation such as V(16-31). All must be online.
        type: str
      l3: &l3
        description:
          - What the group may fill, per L3 domain. A key is a domain id, ids such as V(0-3,8), or V(all) for the rest.
          - A value is a text, an exact mask such as V(fff0), or V(12 ways), V(12MiB) or V(75%). Quote masks made of
            digits, because YAML reads them as numbers.
          - Exact masks may overlap. Amounts do not; they are stacked from the highest way down in the order of
            O(groups).
          - A new group gets all ways of the domains that are not named here.
        type: dict
      l3_code:
        description: As O(groups[].l3), for code only. Needs the mount option V(cdp).
        type: dict
      l3_data:
        description: As O(groups[].l3), for data only. Needs the mount option V(cdp).
        type: dict
      mb: &mb
        description:
          - The limit of reads from memory in GB/s for each L3 domain, keys as in O(groups[].l3); V(max) for none.
          - Rounded up to an eighth of a GB/s.
        type: dict
      smba:
        description: As O(groups[].mb), for slow (CXL) memory.
        type: dict
      mode:
        description: Whether other groups may share the ways of this one. V(exclusive) needs a shrunk default group.
        type: str
        choices: [shareable, exclusive]
      tasks_of:
        description:
          - Units such as V(llama.service), or process ids, all of whose threads must be in the group.
          - Membership of a thread wins over the CPU it runs on.
        type: list
        elements: str
      monitors: &monitors
        description: Monitor groups in this group.
        type: list
        elements: dict
        suboptions:
          name:
            description: The monitor group's name.
            type: str
            required: true
          cpus:
            description:
              - CPUs of the group to be monitored. Without them it monitors the threads put into it.
              - When the CPUs of a group change, the kernel takes all CPUs from its monitor groups. This module gives
                them back what is still the group's, also to those of others.
            type: str
  default:
    description:
      - The default group. While it keeps all ways, shares of other groups protect nothing.
    type: dict
    suboptions:
      l3: *l3
      l3_code:
        description: As O(default.l3), for code only.
        type: dict
      l3_data:
        description: As O(default.l3), for data only.
        type: dict
      mb: *mb
      smba:
        description: As O(default.mb), for slow (CXL) memory.
        type: dict
      monitors: *monitors
  purge:
    description:
      - Whether groups that O(groups) does not name are removed.
      - V(own) removes those that this module made, V(all) all of them, V(none) none.
      - Threads of a removed group are in the default group then. An undo makes the group again, with those of its
        threads that still live.
    type: str
    choices: [none, own, all]
    default: none
notes:
  - Needs root. Holds the lock on the mount point that the kernel's documentation asks of resctrl users.
  - Settings do not outlive a reboot, unless O(persistent) is set.
"""

EXAMPLES = r"""
- name: Keep 12 MiB of every L3 domain for the threads on CPUs 16-31
  sovereign.epyc.resctrl_schemata:
    mount: true
    groups:
      - name: draft
        cpus: 16-31
        l3: {all: 12MiB}
    default:
      l3: {all: 4 ways}

- name: Limit a batch job to 20 GB/s in each L3 domain, wherever its threads run
  sovereign.epyc.resctrl_schemata:
    groups:
      - name: batch
        mb: {all: 20}
        tasks_of: [nightly-report.service]

- name: Make the groups of the plan, now and at every boot
  sovereign.epyc.resctrl_schemata:
    mount: true
    purge: own
    from_plan: true
    intent:
      draft: {ccds: 1, l3: 12MiB}
      verify: {l3: 12MiB}
    persistent: true

- name: Put everything back that this module ever changed on the host
  sovereign.epyc.resctrl_schemata:
    state: original
"""

RETURN = r"""
diff:
  description:
    - What differed, by address.
    - An address is C(resctrl:GROUP) for a group, C(resctrl:GROUP/L3/ID) for a mask, C(resctrl:GROUP/cpus) and so on.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "L3 share of group draft, L3 domain 2: ffff -> fff0\n"
    changes:
      before: {"resctrl:draft/L3/2": "ffff"}
      after: {"resctrl:draft/L3/2": "fff0"}
remarks:
  description: What was rounded, and where a share protects nothing.
  returned: always
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_knob_module
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.resctrl import knob

MONITORS = dict(
    type="list",
    elements="dict",
    options=dict(name=dict(type="str", required=True), cpus=dict(type="str")),
)
SHARES = dict(
    l3=dict(type="dict"),
    l3_code=dict(type="dict"),
    l3_data=dict(type="dict"),
    mb=dict(type="dict"),
    smba=dict(type="dict"),
    monitors=MONITORS,
)
SPEC = dict(
    from_plan=dict(type="bool", default=False),
    mount=dict(type="bool", default=False),
    mount_options=dict(type="list", elements="str", choices=["cdp", "mba_mbps", "debug"]),
    groups=dict(
        type="list",
        elements="dict",
        default=[],
        options=dict(
            name=dict(type="str", required=True),
            state=dict(type="str", choices=["present", "absent"], default="present"),
            cpus=dict(type="str"),
            mode=dict(type="str", choices=["shareable", "exclusive"]),
            tasks_of=dict(type="list", elements="str"),
            **SHARES,
        ),
    ),
    default=dict(type="dict", options=SHARES),
    purge=dict(type="str", choices=["none", "own", "all"], default="none"),
)


def main() -> None:
    run_knob_module("resctrl", SPEC, knob)


if __name__ == "__main__":
    main()
