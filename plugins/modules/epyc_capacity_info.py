#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_capacity_info
short_description: Read what decides how many users a host can serve
version_added: 1.0.0
description:
  - Reads the sockets, the memory and its bandwidth, the installed instances with the headers of their models, and the
    newest stored run of each instance.
  - Measures nothing. The bandwidth is the stored measurement of this host if it still counts, or else a figure of the
    data sheet, and is marked so.
  - C(sovereign.epyc.capacity) keeps the facts on the controller, and counts the capacity of a fleet from them.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes.reader
options: {}
notes:
  - Without root, the stored bandwidth and the stored runs cannot be read.
seealso:
  - module: sovereign.epyc.epyc_plan
  - module: sovereign.epyc.epyc_recommend_info
  - module: sovereign.epyc.llama_benchmark
"""

EXAMPLES = r"""
- name: Read the facts of a host
  sovereign.epyc.epyc_capacity_info:
  become: true
  register: capacity

- name: Show its bandwidth
  ansible.builtin.debug:
    msg: "{{ capacity.facts.sockets | map(attribute='gbps') | sum }} GB/s"
"""

RETURN = r"""
facts:
  description: The facts of the host as plain data.
  returned: success
  type: dict
  contains:
    version:
      description: The version of these facts.
      type: int
    time:
      description: The time at which they were read, in UTC.
      type: str
      sample: "2026-11-30T10:40:00Z"
    model:
      description: The model name of the CPU.
      type: str
    sku:
      description: The SKU, empty if the name of the CPU does not contain it.
      type: str
      sample: "9754"
    family:
      description: The CPU family.
      type: int
    model_number:
      description: The number of the CPU model.
      type: int
    kernel:
      description: The release of the running kernel.
      type: str
    bytes:
      description: The memory of all nodes.
      type: int
    memory:
      description: The bandwidth of the memory in GB/s, theoretical and measured, and C(faults), the worst first.
      type: dict
    sockets:
      description:
        - For each socket its nodes, memory, CCDs and threads, and the GB/s of its nodes with their source, V(measured)
          or V(paper).
      type: list
      elements: dict
    instances:
      description:
        - For each instance its model with the numbers that decide its speed, slots, context, nodes and threads, the
          GB/s of its nodes, and C(run), the summary of its newest run.
      type: list
      elements: dict
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_read_only_module
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.capacity_facts import read_capacity_facts
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.run import FOLDER
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io import textfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS


def read_facts(dummy: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Return the facts of the host as the module's result."""
    return {"facts": read_capacity_facts(Host(fs), textfile.path_in_tree(fs.root, FOLDER))}


def main() -> None:
    run_read_only_module({}, read_facts)


if __name__ == "__main__":
    main()
