#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: irq_affinity
short_description: Keep device interrupts off the CPUs that compute
version_added: 1.0.0
description:
  - Sends the interrupts (IRQs) of devices to certain CPUs, so that the threads of a model are not interrupted. The
    module also configures irqbalance, which would undo that within ten seconds.
  - Managed interrupts, as those of NVMe queues and of many network cards, are placed by the kernel alone. They are
    returned in RV(managed) and are no failure, in check mode neither. Only the boot parameter C(isolcpus=managed_irq)
    keeps managed interrupts off CPUs, see M(sovereign.epyc.kernel_cmdline).
  - Interrupts that no driver has requested are not moved. With O(persistent), a service of the role
    P(sovereign.epyc.epyc_base#role) moves interrupts that appear later, as after a driver was loaded or a link was
    switched on, within seconds. Before that, such interrupts have the default affinity, see O(default).
  - An interrupt that vanishes while the module runs is no failure. If a CPU has no free vector left, the module fails
    and moves all interrupts back.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
  - sovereign.epyc.cpus
options:
  cpus:
    description:
      - The CPUs that may be interrupted, see the notes. Required unless O(state=original).
    type: str
  which:
    description:
      - The interrupts to move. V(all) means every movable interrupt.
      - A number such as V(41) means that interrupt. Numbers change from boot to boot, so prefer the other forms.
      - A PCI address such as V(0000:41:00.0) means the interrupts of that device, and V(driver:mlx5_core) those of all
        devices of that PCI driver.
      - Any other word, such as V(eth0-*), is a pattern with V(*) and V(?) for the drivers' names of interrupts, which
        are in C(/sys/kernel/irq/N/actions) and at the end of the lines of C(/proc/interrupts).
      - A word that names no interrupt now is a remark and no failure, because a driver may request one later.
    type: list
    elements: str
    default: [all]
  spread:
    description:
      - With V(false) each interrupt may go to any of O(cpus), and the kernel chooses.
      - With V(true) each interrupt gets one CPU, evenly over O(cpus). An interrupt that has one of these CPUs for
        itself stays there while the spread is even, so that new interrupts do not move the old ones.
      - Refused together with O(irqbalance=ban) if irqbalance runs, because irqbalance spreads interrupts by itself.
    type: bool
    default: false
  default:
    description:
      - Set C(/proc/irq/default_smp_affinity) to O(cpus) too. Interrupts that a driver requests later, as after a reload
        or when a link comes up, start on these CPUs.
    type: bool
    default: false
  irqbalance:
    description:
      - The setting of the daemon irqbalance, if it is installed.
      - With V(ban) the daemon may choose among O(cpus) only, by C(IRQBALANCE_BANNED_CPULIST) in the file that its unit
        reads (C(/etc/default/irqbalance) on Debian, C(/etc/sysconfig/irqbalance) on the RHEL family). The rest of the
        file stays as it is, byte for byte, and a running daemon is restarted. An interrupt on any of O(cpus) then
        counts as it should be. V(ban) is refused if the file sets the older C(IRQBALANCE_BANNED_CPUS), which takes
        precedence.
      - V(stop) disables and stops the daemon.
      - V(ignore) does not change the daemon. A remark warns if it runs.
      - V(ban) and V(stop) outlive a reboot even without O(persistent).
    type: str
    choices: [ban, stop, ignore]
    default: ignore
notes:
  - Needs root. Affinities do not outlive a reboot, unless O(persistent) is set.
  - A new affinity takes effect at the next interrupt. Until then the interrupt is in RV(pending).
seealso:
  - module: sovereign.epyc.kernel_cmdline
  - name: SMP IRQ affinity
    description: The kernel's documentation of the files that this module writes.
    link: https://docs.kernel.org/core-api/irq/irq-affinity.html
"""

EXAMPLES = r"""
- name: Send every movable interrupt to the housekeeping CPUs of the plan, now and at every boot
  sovereign.epyc.irq_affinity:
    cpus: housekeeping
    default: true
    irqbalance: ban
    intent:
      draft: {ccds: 1}
      housekeeping: {cores: 1, per: node}
    persistent: true

- name: Give each queue of the network card a CPU of its own on the card's node
  sovereign.epyc.irq_affinity:
    cpus: node1
    which: ["driver:mlx5_core"]
    spread: true
    irqbalance: stop

- name: Put every interrupt back on its former CPUs, and irqbalance too
  sovereign.epyc.irq_affinity:
    state: original
"""

RETURN = r"""
diff:
  description:
    - The settings that differed, by address.
    - An address is C(irq:NUMBER/affinity) for a CPU list, C(irq:default) for the mask of later interrupts,
      C(irq:irqbalance/banned_cpus) or C(irq:irqbalance/service).
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "CPUs, interrupt 41: 0-127 -> 0,32,64,96\n"
    changes:
      before: {"irq:41/affinity": "0-127"}
      after: {"irq:41/affinity": "0,32,64,96"}
remarks:
  description: Words without an interrupt, interrupts still at their old place, and whether irqbalance will undo this.
  returned: always
  type: list
  elements: str
movable:
  description: The interrupts of O(which) that can be moved, with the drivers' names and the wanted CPUs.
  returned: always
  type: list
  elements: dict
  sample: [{"irq": 41, "actions": ["eth0-TxRx-0"], "cpus": "0,32,64,96"}]
managed:
  description: The interrupts of O(which) that only the kernel can move, with their CPUs.
  returned: always
  type: list
  elements: dict
  sample: [{"irq": 57, "actions": ["nvme0q1"], "cpus": "0-7"}]
pending:
  description:
    - Numbers of interrupts that still go to other CPUs (C(effective_affinity_list)), until the next interrupt. An
      interrupt that stays pending after that found no free vector on the wanted CPUs.
  returned: always
  type: list
  elements: int
irqbalance:
  description: V(running), V(stopped) or V(not installed).
  returned: always
  type: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_knob_module
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.irq import knob

SPEC = dict(
    cpus=dict(type="str"),
    which=dict(type="list", elements="str", default=["all"]),
    spread=dict(type="bool", default=False),
    default=dict(type="bool", default=False),
    irqbalance=dict(type="str", choices=["ban", "stop", "ignore"], default="ignore"),
)


def main() -> None:
    run_knob_module("irq", SPEC, knob)


if __name__ == "__main__":
    main()
