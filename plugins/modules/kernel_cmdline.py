#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_cmdline
short_description: Merge boot parameters into the kernel's command line
version_added: 1.0.0
description:
  - Sets and removes parameters of the kernel's command line for the next boot. All other parameters stay, in their
    order. The module never reboots; RV(reboot_required) says whether a reboot is needed.
  - After a change each named parameter is there exactly once, with the wanted value, even if other files set it. A
    remark names the files whose values were overridden.
  - On Debian and Ubuntu the module writes one file, C(/etc/default/grub.d/zzz-sovereign-epyc.cfg). The file removes the
    named parameters from C(GRUB_CMDLINE_LINUX) and C(GRUB_CMDLINE_LINUX_DEFAULT), which other files set, and adds them
    to the latter with the wanted values. Its name sorts last, because files of providers and packages, such as
    C(hetzner.cfg), set these variables anew. It replaces C(95-sovereign-epyc.cfg) of earlier versions.
    The module then runs C(update-grub) and reads C(/boot/grub/grub.cfg) back. If a parameter is missing there, the
    module names the file that prevents it, restores everything, and fails.
  - A file in C(/etc/default/grub.d) that ends C(update-grub), as one whose last command is a test that is not true, is
    named with its line, and nothing is changed.
  - The entries for recovery in the menu of GRUB get no parameters of the module, so that a host that does not boot with
    a parameter still boots with these entries. If other files give a parameter to all entries, and the module sets
    it, it is removed from the entries for recovery, too. A remark says so.
  - GRUB does not read the journal of a file system. So the module freezes and thaws the file system of C(/boot) for a
    moment, after which the files of GRUB are on the disk. A remark says if that was not possible.
  - On the RHEL family the module uses C(grubby) for all boot entries. This part was written after recorded output of
    grubby and was not yet run on such a host.
  - On hosts that systemd-boot has started, the module changes C(/etc/kernel/cmdline), which kernels get that are
    installed later, and the boot entries that C(kernel-install) has made for the kernels of the host. Of an entry in
    C(loader/entries), it changes the options and nothing else. A unified kernel image is built anew by
    C(kernel-install), beside the present one; the module reads the command line in it before it takes its place. So
    an image that cannot be built, or lacks a parameter, changes nothing. The same holds for unified kernel images that
    the firmware starts without a boot loader.
  - On hosts whose partitions C(proxmox-boot-tool) fills, the module changes C(/etc/kernel/cmdline) and runs
    C(proxmox-boot-tool refresh), or with GRUB, writes its file and runs C(update-grub). Then it reads what each
    partition holds. This part was written after the scripts of C(proxmox-boot-tool) and was not yet run on such a host.
  - The firmware tells which boot loader has started the host, and only that one is changed. If two are installed, a
    remark says so; if nothing tells which one has started the host, it is refused. So are hosts that boot by ostree or
    by another boot loader, and boot entries that C(kernel-install) has not made.
  - With O(state=original) the parameters are those of the other files at that time, even if these were edited since. On
    Debian and Ubuntu the file of the module is removed and C(grub.cfg) made again. A remark names lines of other
    people in the removed file. C(/etc/kernel/cmdline) and boot entries get back the bytes from before the first change,
    and a file that did not exist is removed, unless other people have changed them since; then only the parameters of
    the module go. C(/etc/kernel/sovereign-epyc.json) holds these bytes until then.
author: The sovereign.epyc authors (@sovereign-epyc)
requirements:
  - With GRUB, update-grub or grubby. With unified kernel images, kernel-install of systemd 254 or later
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
options:
  parameters:
    description:
      - The wanted parameters, each a text such as V(nohz_full=1-3) or V(nokaslr). A value with spaces is in double
        quotes, as in V(dyndbg="file a.c +p").
      - CPUs may be roles, places or numbers in braces, as in the other modules. On each host,
        V(isolcpus=managed_irq,{draft,verify}) becomes a list of numbers in the kernel's notation.
      - A name may occur several times; the order stays. C(default_hugepagesz), C(hugepagesz) and C(hugepages) depend on
        each other, so all of them are one setting. Naming one of them removes all of them that are not named.
      - CPUs of C(isolcpus), C(nohz_full), C(rcu_nocbs), C(irqaffinity) and C(kthread_cpus) must be online, and the
        first two must not have CPU 0. All notations of the kernel are allowed, as V(all), V(8-N) up to the last CPU,
        and V(1-15:1/2) for every second CPU. Huge pages must have a size of this host and leave enough memory for a
        boot. A line that the kernel would truncate (2047 characters) is refused.
      - Parameters that the boot loader writes itself, such as C(root) and C(ro), are refused.
    type: list
    elements: str
    default: []
  absent:
    description: Names of parameters to remove, with any value.
    type: list
    elements: str
    default: []
notes:
  - Needs root. The parameters outlive reboots by themselves. With O(persistent), the boot service also sets
    parameters again that another program has removed.
  - Isolating CPUs by C(isolcpus) without a flag, or with its flag V(domain), makes all threads of a program run on
    one CPU, unless each thread is pinned. A remark says so.
  - Like C(update-grub), the module runs C(/etc/default/grub) and the files of C(/etc/default/grub.d) as shell to find
    the parameters that they set, in check mode too. The output of these files is discarded.
seealso:
  - module: sovereign.epyc.irq_affinity
  - module: sovereign.epyc.hugepages
  - name: Kernel parameters
    description: All parameters, and the notation of lists of CPUs.
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

- name: Show hosts that wait for a reboot
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
    - The settings that differed, by address.
    - An address is C(cmdline:NAME). A value is the text after C(NAME=), an empty text for a parameter without a value,
      and all words in their order for a name that occurs several times.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "boot parameter, nohz_full: nothing -> 1-31,33-63\n"
    changes:
      before: {"cmdline:nohz_full": null}
      after: {"cmdline:nohz_full": "1-31,33-63"}
remarks:
  description: Risks of the parameters, and files whose values were overridden.
  returned: always
  type: list
  elements: str
running:
  description: The values with which the running kernel was started, by name; null for a missing parameter.
  returned: always
  type: dict
  sample: {"nohz_full": null}
configured:
  description: The values of the next boot after this run, by name; null for a missing parameter.
  returned: always
  type: dict
  sample: {"nohz_full": "1-31,33-63"}
pending:
  description: Names whose values in RV(running) and RV(configured) differ.
  returned: always
  type: list
  elements: str
  sample: [nohz_full]
reboot_required:
  description: Whether RV(pending) has names.
  returned: always
  type: bool
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_knob_module
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import knob

SPEC = dict(
    parameters=dict(type="list", elements="str", default=[]), absent=dict(type="list", elements="str", default=[])
)


def main() -> None:
    run_knob_module("cmdline", SPEC, knob)


if __name__ == "__main__":
    main()
