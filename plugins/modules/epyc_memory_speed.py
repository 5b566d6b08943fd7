#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_memory_speed
short_description: Measure how fast a host reads its memory
version_added: 1.0.0
description:
  - Measures the read bandwidth of each NUMA node and of all nodes together, with the first CPU of each core, and stores
    it on the host. It takes some seconds for each node. C(likwid-bench) measures if it is installed, else a small
    program that is compiled on the host.
  - Plans, predictions and M(sovereign.epyc.epyc_verify) use the stored bandwidth until the kernel, the version of the
    BIOS, the memory modules or the NUMA nodes change.
  - The bandwidth is compared with what the memory modules and the links of the CCDs allow. A host that reads less than
    0.6 of that has a fault that no setting of software mends.
  - Programs that work read memory too, so the module waits up to a minute until the CPUs are idle, and fails if they
    stay busy. Page cache is dropped from a node if the node has too few free pages to be measured.
  - In check mode nothing is measured.
author: The sovereign.epyc authors (@sovereign-epyc)
requirements:
  - likwid-bench or a C compiler
extends_documentation_fragment: sovereign.epyc.attributes
attributes:
  diff_mode:
    support: none
    details: Only the stored bandwidth differs on the host.
  idempotent:
    support: none
    details: Each run measures again.
options:
  wait:
    description: How many seconds to wait until the CPUs are idle.
    type: int
    default: 60
"""

EXAMPLES = r"""
- name: Measure how fast this host reads its memory
  sovereign.epyc.epyc_memory_speed:
  register: measured

- name: Refuse a host with slow memory
  ansible.builtin.assert:
    that: not measured.memory.is_slow
    fail_msg: "{{ measured.text }}"
"""

RETURN = r"""
memory:
  description:
    - The bandwidth in GB/s, as the fact C(epyc.memory) of M(sovereign.epyc.epyc_plan) has it. In check mode it is what
      was known before.
  returned: always
  type: dict
clean:
  description: Whether the host reads at least 0.6 of what its modules and CCDs allow. In check mode always V(true).
  returned: always
  type: bool
text:
  description: The result in sentences; in check mode what would be measured.
  returned: always
  type: str
  sample: "400 of 461 GB/s were read, 87%. Node 0: 101 GB/s, node 1: 100 GB/s."
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_changing_module
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.host_memory import (
    format_memory_speed,
    measure_host_memory,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store


def measure_or_describe_memory(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
    """Measure and return the result of the module; in check mode return what would be measured."""
    host = Host(KernelFS(read_only=check))
    if check:
        text = "The read bandwidth of each node and of all nodes would be measured, which takes some seconds for each."
        return {"changed": True, "clean": True, "memory": host.memory_speed.to_dict(), "text": text}
    speed = measure_host_memory(host, wait_seconds=params["wait"])
    return {
        "changed": True,
        "clean": not speed.is_slow,
        "memory": speed.to_dict(),
        "text": format_memory_speed(speed),
    }


def main() -> None:
    run_changing_module(dict(wait=dict(type="int", default=60)), measure_or_describe_memory)


if __name__ == "__main__":
    main()
