#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cpuset_partition
short_description: Keep all other programs off some CPUs, without a reboot
version_added: 0.1.0
description:
  - Makes a cpuset partition of CPUs, in which only the units in C(llama.slice) run. It takes effect at once, and so
    does its end.
  - M(sovereign.epyc.llama_server) puts an instance into C(llama.slice) when all its CPUs are in the partition. Any
    other unit is put there by the setting C(Slice=llama.slice) of systemd.
  - All other programs leave these CPUs, whatever their affinity says. Threads of the kernel that are bound to a CPU
    stay.
  - It does not stop the timer tick, and does not move RCU callbacks or interrupts. The boot parameters C(nohz_full) and
    C(rcu_nocbs) (M(sovereign.epyc.kernel_cmdline)) do the former, M(sovereign.epyc.irq_affinity) moves interrupts. Both
    work together with a partition, while C(isolcpus=domain) for the same CPUs is refused.
  - What the kernel does not accept is refused with its reason, and the changes of one run are all made or all undone.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
  - sovereign.epyc.cpus
options:
  cpus:
    description:
      - The CPUs of the partition, see the notes. Required for O(state=present).
      - Refused are all CPUs of the host, those of another partition, those that another unit has in its C(AllowedCPUs),
        and those that C(isolcpus) isolates.
    type: str
  type:
    description:
      - V(root) has the kernel spread threads over the CPUs of the partition, as it does elsewhere.
      - "V(isolated) also ends that, and keeps unbound work of the kernel away: all threads of a program that does not
        pin each of them run on one CPU then. Instances of M(sovereign.epyc.llama_server) pin the threads that compute;
        those for HTTP stay together with one of these."
    type: str
    choices: [root, isolated]
    default: root
notes:
  - Needs root, systemd, and cgroup v2 with cpusets, as Linux 6.1 and later have. A partition does not outlive a reboot,
    unless O(persistent) is set.
  - An instance that runs is not moved into the partition. It leaves these CPUs until M(sovereign.epyc.llama_server) has
    placed it anew, which starts it anew.
  - Linux before 6.2 forgets to which CPUs the threads of a running program are pinned when a partition comes, changes
    or goes. Restart the units in C(llama.slice) then.
  - Addresses are C(partition:llama.slice/cpus) and C(partition:llama.slice/type).
  - Tested on kernels 6.1 and 6.12 of Debian.
seealso:
  - name: Control Group v2
    description: The kernel's documentation of C(cpuset.cpus.partition).
    link: https://docs.kernel.org/admin-guide/cgroup-v2.html#cpuset
  - module: sovereign.epyc.kernel_cmdline
  - module: sovereign.epyc.llama_server
"""

EXAMPLES = r"""
- name: Give the CPUs that compute to the instances alone, now and at every boot
  sovereign.epyc.cpuset_partition:
    cpus: draft,verify
    intent:
      housekeeping: {cores: 1, per: node}
      draft: {ccds: 1}
    persistent: true

- name: End the partition
  sovereign.epyc.cpuset_partition:
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
    prepared: "CPUs of llama.slice: nothing -> 1-31,33-63\npartition of llama.slice: nothing -> root\n"
    changes:
      before: {"partition:llama.slice/cpus": null, "partition:llama.slice/type": null}
      after: {"partition:llama.slice/cpus": "1-31,33-63", "partition:llama.slice/type": "root"}
remarks:
  description: Which units are concerned.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_knob_module
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import partition

SPEC = dict(
    cpus=dict(type="str"),
    type=dict(type="str", choices=["root", "isolated"], default="root"),
)


def main() -> None:
    run_knob_module("partition", SPEC, partition, required_if=[("state", "present", ("cpus",))])


if __name__ == "__main__":
    main()
