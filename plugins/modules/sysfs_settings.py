#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sysfs_settings
short_description: Set SMT, transparent huge pages, NUMA balancing, work queues and the NMI watchdog
version_added: 0.1.0
description:
  - Sets the plain settings of the kernel that a tuned host needs, one file each. Options that are left out are not
    touched.
  - Each value is checked against what this kernel offers before anything is written, every write is read back, and the
    changes of one run are all made or all undone.
  - What the kernel does not have is as good as off. So asking for V(off), V(never) or V(false) there changes nothing
    and fails nothing, while asking for it to be on is refused with the cause.
  - Says so when TuneD runs, which can set the same again.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
  - sovereign.epyc.cpus
options:
  smt:
    description:
      - Simultaneous multithreading. V(off) takes the second thread of each core offline, V(on) brings it back.
      - CPUs that come online start with the kernel's defaults, so set registers, frequency limits and resctrl groups
        after this.
      - V(forceoff) cannot be undone before the next boot, not by O(state=original) either. It is written after all
        other settings of the run.
      - V(on) is refused where the BIOS has SMT off or the CPU has one thread per core.
    type: str
    choices: ["on", "off", forceoff]
  thp:
    description:
      - Which memory may become transparent huge pages, all of it, only where programs ask by madvise, or none.
      - Concerns memory that is touched from now on. Restart a service that runs.
    type: str
    choices: [always, madvise, never]
  thp_defrag:
    description: How hard the kernel tries to make a transparent huge page when memory is touched.
    type: str
    choices: [always, defer, defer+madvise, madvise, never]
  numa_balancing:
    description:
      - Whether the kernel moves memory between nodes after the threads that use it. V(false) suits programs that bind
        threads and memory by themselves.
      - V(true) leaves memory tiering as it is. V(false) ends both.
    type: bool
  workqueue_cpus:
    description:
      - The CPUs that may run the kernel's unbound work, see the notes.
      - Work that is bound to a CPU is not concerned.
    type: str
  writeback_cpus:
    description:
      - The CPUs that may run the writing of dirty pages to disks.
      - Must have a CPU in common with those of unbound work, because the kernel silently ignores it otherwise.
    type: str
  nmi_watchdog:
    description:
      - Whether a performance counter watches for CPUs that hang with interrupts off. V(false) frees the counter and
        spares an interrupt on each CPU now and then.
      - V(true) is refused where the kernel found no counter for it, as in most guests.
    type: bool
notes:
  - Needs root. Settings do not outlive a reboot, unless O(persistent) is set.
  - Addresses are C(sysfs:smt/control), C(sysfs:thp/enabled), C(sysfs:thp/defrag), C(sysfs:numa_balancing),
    C(sysfs:workqueue/cpumask), C(sysfs:writeback/cpumask) and C(sysfs:nmi_watchdog). CPUs are shown as lists.
  - Tested on kernels 6.1 and 6.12 of Debian.
seealso:
  - name: Transparent Hugepage Support
    description: The kernel's documentation of what O(thp) and O(thp_defrag) mean.
    link: https://docs.kernel.org/admin-guide/mm/transhuge.html
  - name: Workqueue
    description: The kernel's documentation of bound and unbound work.
    link: https://docs.kernel.org/core-api/workqueue.html
"""

EXAMPLES = r"""
- name: Settings for an inference server whose threads are bound to CPUs
  sovereign.epyc.sysfs_settings:
    smt: "off"
    thp: madvise
    thp_defrag: defer+madvise
    numa_balancing: false
    nmi_watchdog: false

- name: Keep the kernel's own work on one core of each node, now and at every boot
  sovereign.epyc.sysfs_settings:
    workqueue_cpus: housekeeping
    writeback_cpus: housekeeping
    intent:
      housekeeping: {cores: 1, per: node}
    persistent: true

- name: Put everything back that this module ever changed on the host
  sovereign.epyc.sysfs_settings:
    state: original
"""

RETURN = r"""
diff:
  description:
    - The settings that differed, by address.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: success
  type: dict
  sample:
    prepared: "transparent huge pages: always -> madvise\nCPUs of unbound kernel work: 0-127 -> 0,32,64,96\n"
    changes:
      before: {"sysfs:thp/enabled": "always", "sysfs:workqueue/cpumask": "0-127"}
      after: {"sysfs:thp/enabled": "madvise", "sysfs:workqueue/cpumask": "0,32,64,96"}
remarks:
  description: What else the operator should know, such as another program that sets the same.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_knob_module
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import sysfs

SPEC = dict(
    smt=dict(type="str", choices=["on", "off", "forceoff"]),
    thp=dict(type="str", choices=["always", "madvise", "never"]),
    thp_defrag=dict(type="str", choices=["always", "defer", "defer+madvise", "madvise", "never"]),
    numa_balancing=dict(type="bool"),
    workqueue_cpus=dict(type="str"),
    writeback_cpus=dict(type="str"),
    nmi_watchdog=dict(type="bool"),
)


def main() -> None:
    run_knob_module("sysfs", SPEC, sysfs)


if __name__ == "__main__":
    main()
