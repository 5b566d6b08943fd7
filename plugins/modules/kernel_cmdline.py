#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_cmdline
short_description: Merge boot parameters into the kernel's command line
version_added: 0.1.0
description:
  - Sets and removes parameters of the kernel's command line for the next boot. Parameters that are not named stay, in
    their order. It never reboots; RV(reboot_required) says whether one is needed.
  - After a change each named parameter is there exactly once, with the value asked for, even when other files set it. A
    remark says whose value was overridden.
  - On Debian and Ubuntu all of it is one file, C(/etc/default/grub.d/95-sovereign-epyc.cfg), which takes the named
    parameters out of C(GRUB_CMDLINE_LINUX) and C(GRUB_CMDLINE_LINUX_DEFAULT) as other files set them, and adds its own
    to the latter. No other file is edited. The module then runs C(update-grub) and reads C(/boot/grub/grub.cfg) back.
    It fails, and puts everything back, when that does not carry the parameters, naming the file that stands in the way.
  - The entries for recovery in the menu of GRUB get none of them, so they are the way out of a parameter that a host
    does not boot with. A parameter that other files give to all entries, and that this module takes over, is missing
    there; a remark says so.
  - What GRUB reads is on the disk for good when the module ends, by freezing and thawing the file system of C(/boot)
    for a moment, because GRUB does not read the journal of a file system. A remark says where that was not possible.
  - On the RHEL family it uses C(grubby) for all boot entries. That part was written after recorded output of grubby and
    was not run on such a host yet.
  - Hosts that boot by systemd-boot, ostree or proxmox-boot-tool are refused with the place where they keep parameters.
  - With O(state=original) the parameters are as the other files say by then, also where these were edited since. On
    Debian and Ubuntu the file is removed and C(grub.cfg) made anew. Lines that somebody else put into the file go with
    it, and are named in a remark.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
options:
  parameters:
    description:
      - The parameters to have, each a text such as V(nohz_full=1-3) or V(nokaslr). A value with spaces stands in double
        quotes, as in V(dyndbg="file a.c +p").
      - CPUs may be given in braces, by role, place or number as in the other modules. On each host,
        V(isolcpus=managed_irq,{draft,verify}) becomes a list of numbers in the kernel's notation.
      - A name may be given several times; the order is kept. All of C(default_hugepagesz), C(hugepagesz) and
        C(hugepages) are one setting, because they mean something only together. Naming one of them means having no
        others than those named.
      - CPU lists of C(isolcpus), C(nohz_full), C(rcu_nocbs), C(irqaffinity) and C(kthread_cpus) must be online, and the
        first two must leave CPU 0. They may be written in all ways that the kernel knows, as V(all), V(8-N) up to the
        last CPU, and V(1-15:1/2) for every other one. Huge pages must exist in the size asked for and leave memory to
        boot with. A line that the kernel would cut off (2047 characters) is refused.
      - Not with the parameters that the boot loader writes itself, such as C(root) and C(ro).
    type: list
    elements: str
    default: []
  absent:
    description: Names of parameters to remove, with any value.
    type: list
    elements: str
    default: []
notes:
  - Needs root. The parameters outlive reboots by themselves. O(persistent) in addition has the boot service set them
    again when another program removed them.
  - Isolating CPUs by C(isolcpus) without a flag, or with its flag V(domain), makes a program with many threads run all
    of them on one CPU unless each is pinned by itself. The module says so in a remark.
  - Like C(update-grub), the module runs C(/etc/default/grub) and the files of C(/etc/default/grub.d) as shell to learn
    what they set. It does so in check mode too, and throws away what they print.
seealso:
  - module: sovereign.epyc.irq_affinity
  - module: sovereign.epyc.hugepages
  - name: Kernel parameters
    description: All parameters, and how lists of CPUs are written.
    link: https://docs.kernel.org/admin-guide/kernel-parameters.html
"""

EXAMPLES = r"""
- name: Keep the timer tick and managed interrupts off the CPUs that compute
  sovereign.epyc.kernel_cmdline:
    parameters:
      - nohz_full={draft,verify}
      - isolcpus=managed_irq,{draft,verify}
    intent:
      draft: {ccds: 1}
      housekeeping: {cores: 1, per: node}
  register: boot

- name: Reserve pages of 1 GiB and of 2 MiB at boot
  sovereign.epyc.kernel_cmdline:
    parameters:
      - default_hugepagesz=2M
      - hugepagesz=1G
      - hugepages=0:64,1:64
      - hugepagesz=2M
      - hugepages=4096
    absent: [quiet]

- name: Say who has to be rebooted
  ansible.builtin.debug:
    msg: "{{ inventory_hostname }} waits for a reboot: {{ boot.pending | join(', ') }}"
  when: boot.reboot_required

- name: Put the boot parameters back as they were
  sovereign.epyc.kernel_cmdline:
    state: original
"""

RETURN = r"""
diff:
  description:
    - What differed, by address.
    - An address is C(cmdline:NAME). A value is what stands behind the name, an empty text for a parameter without one,
      and all words in their order where a name stands several times.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "boot parameter, nohz_full: nothing -> 1-31,33-63\n"
    changes:
      before: {"cmdline:nohz_full": null}
      after: {"cmdline:nohz_full": "1-31,33-63"}
remarks:
  description: Hazards of what was asked, and whose settings were overridden.
  returned: always
  type: list
  elements: str
running:
  description: What the running kernel was started with, by name; null for what it was not given.
  returned: always
  type: dict
  sample: {"nohz_full": null}
configured:
  description: What the next boot brings once this run is done, by name; null for what is not there.
  returned: always
  type: dict
  sample: {"nohz_full": "1-31,33-63"}
pending:
  description: Names in which the two differ.
  returned: always
  type: list
  elements: str
  sample: [nohz_full]
reboot_required:
  description: Whether anything is pending.
  returned: always
  type: bool
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_knob_module
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import knob

SPEC = dict(
    parameters=dict(type="list", elements="str", default=[]),
    absent=dict(type="list", elements="str", default=[]),
)


def main() -> None:
    run_knob_module("cmdline", SPEC, knob)


if __name__ == "__main__":
    main()
