#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hugepages
short_description: Size the pools of huge pages on each NUMA node
version_added: 1.0.0
description:
  - Sets the number of huge pages of 2 MiB or 1 GiB on each node, by number, by amount of memory, or by the size of a
    file.
  - The kernel accepts any number, and makes as many pages as it can. This module counts the pages, has the kernel
    compact the node's memory, and tries again four times within about four seconds. If pages are missing after that,
    the module fails and restores all pools. The message has the pages of each node, and whether memory was in use or
    fragmented.
  - Pools of more than a node's memory, less O(reserve), are refused before any write. So are pools that would leave
    less than O(reserve) of the host's memory to the system, beside what kernel, drivers and running services hold.
  - Pages in use are never taken away. Shrinking a pool below its pages in use is refused, because such pages would
    belong to no pool.
  - The kernel makes pages of 1 GiB only of contiguous memory. If there is too little, the message has the boot
    parameters for these pages.
  - Only a program that requests pages of a pool uses them. llama.cpp maps its model as an ordinary file and takes no
    page of a pool, unless the model is on a hugetlbfs. Transparent huge pages (M(sovereign.epyc.sysfs_settings)) need
    no pool.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
options:
  pools:
    description: The pools. All other pools stay as they are.
    type: list
    elements: dict
    suboptions:
      node:
        description:
          - The nodes that get such a pool each, as V(2), V(0-3), V(0,2) or V(all).
          - V(all) are the nodes with memory and CPUs. A node without CPUs, as memory on a CXL device is, gets a pool
            only by its number; a remark names it.
        type: str
        default: all
      size:
        description: The size of a page, which the kernel must offer.
        type: str
        choices: [2MiB, 1GiB]
        default: 2MiB
      pages:
        description: The number of pages on each node. V(0) removes the pool. Excludes O(pools[].memory).
        type: int
      memory:
        description:
          - The memory of the pool on each node, as V(40GiB) or V(512MiB), rounded up to whole pages. A remark says so.
          - Excludes O(pools[].pages).
        type: str
  for_file:
    description:
      - A file on the host whose size the pools must have, such as V(/srv/models/model.gguf). The pages are spread
        evenly over O(nodes), rounded up to the same number on each node. A remark says so.
      - For a model in several files, such as C(NAME-00001-of-00003.gguf), name one of the files; all are counted.
    type: str
  size:
    description: The size of a page for O(for_file).
    type: str
    choices: [2MiB, 1GiB]
    default: 2MiB
  nodes:
    description: The nodes for O(for_file), as in O(pools[].node).
    type: str
    default: all
  headroom:
    description: The percentage by which the pools must be larger than O(for_file).
    type: int
    default: 0
  reserve:
    description:
      - The percentage of each node's memory that is left to the system, and of the host's memory that must still be
        available (C(MemAvailable)) after a pool has grown.
      - The pools of all sizes together may take the rest, including pools that no option names.
    type: int
    default: 5
  drop_caches:
    description:
      - Whether the kernel drops its clean caches before the second attempt, if a node gives too few pages.
      - Programs then read their files from the disk again, which can be slow on a busy host.
    type: bool
    default: false
  mount:
    description:
      - Whether to mount a hugetlbfs for each page size of the pools, unless one of this size is mounted. systemd mounts
        one of the default size, mostly 2 MiB. The mount of this module is V(/dev/hugepages-1GiB) or
        V(/dev/hugepages-2MiB).
      - A mount is not removed while files on it use pages.
    type: bool
    default: false
notes:
  - Needs root. Pools do not outlive a reboot, unless O(persistent) is set; memory is least fragmented early in a boot.
  - Addresses are C(hugepages:nodeN/2048kB) and C(hugepages:nodeN/1048576kB). A value is the number of pages
    without surplus pages, which the kernel makes beyond the pool and removes by itself.
  - The address of a mount is C(hugepages:mount/1048576kB), its value the folder.
  - O(state=original) refuses to take pages in use, too. Stop the service that uses these pages first.
seealso:
  - name: HugeTLB Pages
    description: The kernel's documentation of the pools.
    link: https://docs.kernel.org/admin-guide/mm/hugetlbpage.html
  - module: sovereign.epyc.sysfs_settings
"""

EXAMPLES = r"""
- name: Reserve 40 GiB in pages of 2 MiB on every node
  sovereign.epyc.hugepages:
    pools:
      - memory: 40GiB

- name: Reserve pages of 1 GiB on two nodes, mount a hugetlbfs for these pages, and remove all pools of 2 MiB
  sovereign.epyc.hugepages:
    mount: true
    pools:
      - {node: 2-3, size: 1GiB, pages: 30}
      - {node: all, size: 2MiB, pages: 0}

- name: Make room for a model and a tenth more, now and at every boot
  sovereign.epyc.hugepages:
    for_file: /srv/models/model.gguf
    headroom: 10
    persistent: true

- name: Put the pools back as they were before the first change
  sovereign.epyc.hugepages:
    state: original
"""

RETURN = r"""
diff:
  description:
    - The pools that differed, by address, in pages.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: success
  type: dict
  sample:
    prepared: "huge pages of 2 MiB, node 2: 0 -> 20480\n"
    changes:
      before: {"hugepages:node2/2048kB": "0"}
      after: {"hugepages:node2/2048kB": "20480"}
remarks:
  description: Amounts that were rounded.
  returned: success
  type: list
  elements: str
given:
  description: The pages of each pool after the last attempt, by address, before the pools were restored.
  returned: when a node gave too few pages
  type: dict
  sample: {"hugepages:node2/2048kB": 18211}
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_knob_module
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.hugepages import knob

SIZE = dict(type="str", choices=["2MiB", "1GiB"], default="2MiB")
SPEC = dict(
    pools=dict(
        type="list",
        elements="dict",
        options=dict(node=dict(type="str", default="all"), size=SIZE, pages=dict(type="int"), memory=dict(type="str")),
        mutually_exclusive=[("pages", "memory")],
        required_one_of=[("pages", "memory")],
    ),
    for_file=dict(type="str"),
    size=SIZE,
    nodes=dict(type="str", default="all"),
    headroom=dict(type="int", default=0),
    reserve=dict(type="int", default=5),
    drop_caches=dict(type="bool", default=False),
    mount=dict(type="bool", default=False),
)


def main() -> None:
    run_knob_module("hugepages", SPEC, knob, required_if=[("state", "present", ("pools", "for_file"), True)])


if __name__ == "__main__":
    main()
