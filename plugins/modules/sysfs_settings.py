#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sysfs_settings
short_description: Set SMT, transparent huge pages, NUMA balancing, cache-aware scheduling and work queues
version_added: 1.0.0
description:
  - Sets the plain settings of the kernel that a tuned host needs, one file each. A setting without an option stays as
    it is.
  - Values that this kernel does not offer are refused before any write. Every write is read back, and the changes of
    one run are all made or all undone.
  - A feature that the kernel does not have counts as off. V(off), V(never) and V(false) then change nothing, and
    switching the feature on is refused with the cause.
  - A remark warns if TuneD runs, which can change the same settings.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
  - sovereign.epyc.cpus
options:
  smt:
    description:
      - Simultaneous multithreading. V(off) takes the second thread of each core offline, V(on) takes it online.
      - CPUs that come online start with the kernel's defaults, so set registers, frequency limits and resctrl groups
        later than SMT.
      - V(forceoff) cannot be undone before the next boot, even by O(state=original). It is written after all other
        settings of the run.
      - V(on) is refused if SMT is off in the BIOS, or if the CPU has one thread per core.
    type: str
    choices: ["on", "off", forceoff]
  thp:
    description:
      - The memory that may become transparent huge pages. It is all memory, memory for which a program requests it by
        madvise, or none.
      - Takes effect for memory that is touched later, so restart a running service.
    type: str
    choices: [always, madvise, never]
  thp_defrag:
    description: How long the kernel tries to make a transparent huge page when memory is touched.
    type: str
    choices: [always, defer, defer+madvise, madvise, never]
  numa_balancing:
    description:
      - Whether the kernel moves memory to the nodes of the threads that use it. V(false) suits programs that bind
        threads and memory by themselves.
      - V(true) leaves memory tiering as it is. V(false) also switches memory tiering off.
    type: bool
  cache_aware_scheduling:
    description:
      - Whether the kernel draws the threads of a process to one L3 domain, as Linux does since 7.2. It does so only
        with a process of which about as many threads run as a domain has cores, or fewer, and only with threads that
        may run in several domains.
      - V(false) suits programs that are spread over L3 domains for their links to memory and do not pin each thread.
        Linux before 7.2 has no such scheduling, which counts as off.
      - The switch is in debugfs. It is refused if debugfs is not mounted on C(/sys/kernel/debug), and a locked-down
        kernel lets nobody read or write it.
    type: bool
  workqueue_cpus:
    description:
      - The CPUs that may run the kernel's unbound work, see the notes. Work that is bound to a CPU stays there.
    type: str
  writeback_cpus:
    description:
      - The CPUs that may write dirty pages to disks.
      - At least one of them must be a CPU of unbound work, because the kernel silently ignores the setting otherwise.
    type: str
  nmi_watchdog:
    description:
      - Whether a performance counter detects CPUs that hang with interrupts off. V(false) frees the counter and saves
        an occasional interrupt on each CPU.
      - V(true) is refused if the kernel has no counter for the watchdog, as in most guests.
    type: bool
notes:
  - Needs root. Settings do not outlive a reboot, unless O(persistent) is set.
  - Addresses are C(sysfs:smt/control), C(sysfs:thp/enabled), C(sysfs:thp/defrag), C(sysfs:numa_balancing),
    C(sysfs:cache_aware_scheduling), C(sysfs:workqueue/cpumask), C(sysfs:writeback/cpumask) and C(sysfs:nmi_watchdog).
    CPUs are shown as lists.
  - Tested on kernels 6.1 and 6.12 of Debian, and on the newest one of its backports.
seealso:
  - name: Transparent Hugepage Support
    description: The kernel's documentation of the values of O(thp) and O(thp_defrag).
    link: https://docs.kernel.org/admin-guide/mm/transhuge.html
  - name: Workqueue
    description: The kernel's documentation of bound and unbound work.
    link: https://docs.kernel.org/core-api/workqueue.html
"""

EXAMPLES = r"""
- name: Make the settings for an inference server whose threads are bound to CPUs
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
  description: Warnings, such as that another program changes the same settings.
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
    cache_aware_scheduling=dict(type="bool"),
    workqueue_cpus=dict(type="str"),
    writeback_cpus=dict(type="str"),
    nmi_watchdog=dict(type="bool"),
)


def main() -> None:
    run_knob_module("sysfs", SPEC, sysfs)


if __name__ == "__main__":
    main()
