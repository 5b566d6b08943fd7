#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: resctrl_schemata
short_description: Partition L3 caches and memory bandwidth through the kernel's resctrl
version_added: 1.0.0
description:
  - Makes resctrl groups with L3 masks, bandwidth limits, CPUs, threads, modes and monitor groups.
  - Amounts of cache may be masks, ways, bytes or a share. Bandwidth is in GB/s, in AMD's steps of an eighth.
  - Every write is read back. The changes of one run are all made or all undone.
  - Ids, CPUs, sums and names are checked before the first write. A refusal of the kernel is quoted.
  - Groups that this module made carry a label, so that O(purge=own) never removes groups of other programs.
author: The sovereign.epyc authors (@sovereign-epyc)
requirements:
  - a kernel with resctrl
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
options:
  from_plan:
    description:
      - Make the groups of the plan that O(intent) has on this host, each role with its CPUs and masks.
      - O(groups) are made in addition. O(default) replaces the default group of the plan.
    type: bool
    default: false
  mount:
    description: Mount resctrl on C(/sys/fs/resctrl) if it is not mounted. An existing mount is used as it is.
    type: bool
    default: false
  mount_options:
    description:
      - Options of the mount. Fails if resctrl is mounted with other options, because a new mount resets all groups.
      - V(cdp) splits L3 into code and data and halves the number of groups.
      - V(mba_mbps) is refused on AMD, whose bandwidth scale is not linear.
    type: list
    elements: str
    choices: [cdp, mba_mbps, debug]
  groups:
    description: The control groups. A setting without a value here stays as it is.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: The group's name.
        type: str
        required: true
      state:
        description: Whether the group should exist. The default group gets the CPUs and threads of a removed group.
        type: str
        choices: [present, absent]
        default: present
      cpus:
        description: The CPUs, as a list in the kernel's notation such as V(16-31). All must be online.
        type: str
      l3: &l3
        description:
          - The part of each L3 domain that the group may fill. A key is a domain id, ids such as V(0-3,8), or V(all)
            for all other domains.
          - A value is an exact mask such as V(fff0), or an amount such as V(12 ways), V(12MiB) or V(75%). Quote a
            mask of digits, because YAML reads it as a number.
          - Exact masks may overlap. Amounts never overlap; they are stacked from the highest way down in the order of
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
          - The limit of reads from memory in GB/s for each L3 domain, with keys as in O(groups[].l3). V(max) is no
            limit. A limit is rounded up to an eighth of a GB/s.
        type: dict
      smba:
        description: As O(groups[].mb), for slow (CXL) memory.
        type: dict
      mode:
        description: Whether other groups may share ways with this group. V(exclusive) needs a smaller default group.
        type: str
        choices: [shareable, exclusive]
      tasks_of:
        description:
          - Units such as V(llama.service), or process ids, whose threads must all be in the group.
          - A thread uses the masks of its group, whichever CPU it runs on.
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
              - The monitored CPUs of the group. A monitor group without CPUs monitors the threads in it.
              - When the CPUs of a group change, the kernel takes all CPUs from its monitor groups. This module gives
                them those back that the group still has, even to monitor groups of other programs.
            type: str
  default:
    description:
      - The default group. While the default group has all ways, it may also fill the ways of all other groups.
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
      - V(own) removes such groups that this module made, V(all) all such groups, V(none) none.
      - The default group gets the threads of a removed group. An undo makes the group again, with the threads that
        still live.
    type: str
    choices: [none, own, all]
    default: none
notes:
  - Needs root. Holds the lock on the mount point that the kernel's documentation prescribes for users of resctrl.
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
    - The settings that differed, by address.
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
  description: Amounts that were rounded, and groups whose ways the default group may fill too.
  returned: always
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_knob_module
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.resctrl import knob

MONITORS = dict(type="list", elements="dict", options=dict(name=dict(type="str", required=True), cpus=dict(type="str")))
SHARES = {**{name: dict(type="dict") for name in ("l3", "l3_code", "l3_data", "mb", "smba")}, "monitors": MONITORS}
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
