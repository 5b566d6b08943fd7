#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cpuset_partition
short_description: Keep all other programs off some CPUs, without a reboot
version_added: 1.0.0
description:
  - Makes a cpuset partition of CPUs, in which only the units in C(llama.slice) run. The partition begins and ends at
    once.
  - M(sovereign.epyc.llama_server) puts an instance into C(llama.slice) if all its CPUs are in the partition. The
    setting C(Slice=llama.slice) of systemd puts any other unit there.
  - All other programs leave these CPUs, whatever their affinity is. Threads of the kernel that are bound to a CPU stay.
  - A partition does not stop the timer tick, and does not move RCU callbacks or interrupts. The boot parameters
    C(nohz_full) and C(rcu_nocbs) (M(sovereign.epyc.kernel_cmdline)) stop the tick and move the callbacks, and
    M(sovereign.epyc.irq_affinity) moves interrupts. All of these work together with a partition. C(isolcpus=domain) for
    the same CPUs does not, and is refused.
  - A refusal of the kernel is an error with its reason. The changes of one run are all made or all undone.
author: The sovereign.epyc authors (@sovereign-epyc)
requirements:
  - cgroup v2 with cpusets
  - systemd
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
  - sovereign.epyc.cpus
options:
  cpus:
    description:
      - The CPUs of the partition, see the notes. Required for O(state=present).
      - All CPUs of the host together are refused, and so are CPUs of another partition, CPUs in C(AllowedCPUs) of
        another unit, and CPUs that C(isolcpus) isolates.
    type: str
  type:
    description:
      - V(root) has the kernel spread threads over the CPUs of the partition, as it does elsewhere.
      - V(isolated) has the kernel spread no threads, and keeps its unbound work away. All threads of a program that
        does not pin each thread then run on one CPU. Instances of M(sovereign.epyc.llama_server) pin the threads that
        compute; their HTTP threads share one CPU with a thread that computes.
    type: str
    choices: [root, isolated]
    default: root
notes:
  - Needs root, systemd, and cgroup v2 with cpusets, as Linux 6.1 and later have. A partition does not outlive a reboot,
    unless O(persistent) is set.
  - A running instance is not moved into the partition. It leaves these CPUs until M(sovereign.epyc.llama_server) has
    placed and restarted it.
  - When a partition is made, changed or removed, Linux before 6.2 forgets the CPUs to which threads of running programs
    are pinned. Restart the units in C(llama.slice) after that.
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
- name: Reserve the CPUs that compute for the instances, now and at every boot
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
  description: Other units that have CPUs of the partition.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_knob_module
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import partition

SPEC = dict(cpus=dict(type="str"), type=dict(type="str", choices=["root", "isolated"], default="root"))


def main() -> None:
    run_knob_module("partition", SPEC, partition, required_if=[("state", "present", ("cpus",))])


if __name__ == "__main__":
    main()
