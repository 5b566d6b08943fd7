#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hugepages
short_description: Size the pools of huge pages on each NUMA node
version_added: 0.1.0
description:
  - Sets how many huge pages of 2 MiB or 1 GiB the kernel keeps on each node, by number, by amount of memory, or by the
    size of a file.
  - The kernel accepts any number and gives what it can. This module counts what it gave, has the kernel compact the
    node's memory, and asks again four times within about four seconds. What is short after that is a failure that says
    what each node gave and whether memory was in use or fragmented, and all pools are as they were before.
  - More than a node's memory, less O(reserve), is refused before anything is written.
  - Pages in use are never taken away. Shrinking a pool below them is refused, because the kernel would keep such pages
    outside of every pool.
  - Pages of 1 GiB are made while the host runs where its memory still has room in one piece, and the failure names the
    boot parameters otherwise.
  - "A pool helps only a program that asks for it: llama.cpp maps its model as an ordinary file and takes no page from a
    pool. Put the model on a hugetlbfs for a program that maps it from there, or use transparent huge pages
    (M(sovereign.epyc.sysfs_settings)) instead."
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob
  - sovereign.epyc.knob.intent
options:
  pools:
    description: The pools. Those that are not named stay as they are.
    type: list
    elements: dict
    suboptions:
      node:
        description: The nodes that each get such a pool, as V(2), V(0-3), V(0,2) or V(all).
        type: str
        default: all
      size:
        description: The size of a page. Must be one that the kernel offers.
        type: str
        choices: [2MiB, 1GiB]
        default: 2MiB
      pages:
        description: How many pages on each of the nodes. V(0) gives the pool back. Excludes O(pools[].memory).
        type: int
      memory:
        description:
          - How much memory on each of the nodes, as V(40GiB) or V(512MiB). Rounded up to whole pages; a remark says so.
          - Excludes O(pools[].pages).
        type: str
  for_file:
    description:
      - A file on the host that the pools must be able to hold, such as V(/srv/models/model.gguf). Its pages are spread
        evenly over O(nodes) and rounded up to the same number on each; a remark says so.
      - For a model in several files, called C(NAME-00001-of-00003.gguf) and so on, name any of them; all are counted.
    type: str
  size:
    description: The size of a page for O(for_file).
    type: str
    choices: [2MiB, 1GiB]
    default: 2MiB
  nodes:
    description: The nodes for O(for_file), as V(2), V(0-3), V(0,2) or V(all).
    type: str
    default: all
  headroom:
    description: How many percent more than the size of O(for_file) the pools must hold.
    type: int
    default: 0
  reserve:
    description:
      - How many percent of each node's memory no pool may take, so that the system can live.
      - Pools of all sizes count, also those that are not named.
    type: int
    default: 5
  drop_caches:
    description:
      - Whether the kernel should drop its clean caches when a node gives too few pages, before it is asked again.
      - Programs read their files from the disk again after that, which can be slow on a busy host.
    type: bool
    default: false
  mount:
    description:
      - Whether to mount a hugetlbfs for each size of page that a pool is asked of, unless there is one. systemd mounts
        one of the default size, mostly 2 MiB; ours is V(/dev/hugepages-1GiB) or V(/dev/hugepages-2MiB).
      - It stays as long as files on it hold pages.
    type: bool
    default: false
notes:
  - Needs root. Pools do not outlive a reboot, unless O(persistent) is set; memory is least fragmented early in a boot.
  - Addresses are C(hugepages:nodeN/2048kB) and C(hugepages:nodeN/1048576kB). A value counts pages without surplus ones,
    which the kernel makes beyond the pool and takes back by itself.
  - The address of a mount is C(hugepages:mount/1048576kB), its value the folder.
  - O(state=original) too refuses to take pages in use. Stop the service that uses them first.
seealso:
  - name: HugeTLB Pages
    description: The kernel's documentation of the pools.
    link: https://docs.kernel.org/admin-guide/mm/hugetlbpage.html
  - module: sovereign.epyc.sysfs_settings
"""

EXAMPLES = r"""
- name: Keep 40 GiB in pages of 2 MiB on every node
  sovereign.epyc.hugepages:
    pools:
      - memory: 40GiB

- name: Keep pages of 1 GiB on two nodes with a hugetlbfs for them, and none of 2 MiB anywhere
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
  description: What was rounded.
  returned: success
  type: list
  elements: str
given:
  description: How many pages each pool had when the attempts were over, by address. They were given back after that.
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
        options=dict(
            node=dict(type="str", default="all"),
            size=SIZE,
            pages=dict(type="int"),
            memory=dict(type="str"),
        ),
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
