#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_placement_info
short_description: Prove where the threads and the memory of a running service are
version_added: 0.1.0
description:
  - Reads for a running service where each thread may run and where it ran last, on which nodes the pages of the model
    and of anonymous memory lie, which huge pages are in use, and which resctrl groups hold with what occupancy and
    bandwidth.
  - Compares that with what is requested. Every option that requests something returns a verdict with a sentence.
  - What cannot be determined is V(unknown) with the reason, which is not clean. The module succeeds with any verdict;
    fail on C(clean) where you want to.
  - Cheap for any size of a model. It reads three small files per thread, twice with a window, and two per process,
    C(numa_maps) and C(smaps_rollup). For each of these two the kernel walks the page tables of the process once; pages
    are never asked for one by one. While it walks, the service runs on, but for calls that change its mappings.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes.reader
  - sovereign.epyc.cpus
  - sovereign.epyc.knob.intent
options:
  service:
    description: A systemd unit, as V(llama.service), with all its processes, or the number of one process.
    type: str
    required: true
  window:
    description:
      - For how many seconds the threads are observed. C(busy), context switches and bandwidth are counted over time,
        and are known only with a window.
      - Give the service work meanwhile. One or two seconds are enough.
    type: float
    default: 0
  model:
    description:
      - The files whose mapping counts as weights. Of a model in several files name each.
      - Without it, every mapped file that is called C(.gguf).
    type: list
    elements: path
  cpus:
    description: Where every thread may run and nowhere else, see the notes.
    type: str
  busy_cpus:
    description: Where the busy threads may run and nowhere else, written as O(cpus). A thread is busy when it ran, or
      waited for a CPU, for half of O(window) or more. Threads that serve requests may thus be on other CPUs.
    type: str
  busy_threads:
    description:
      - How many threads must be busy at least, as many as the service was started with. A service that works with fewer
        has been given fewer, or leaves CPUs idle.
      - Say it only where the service has work during O(window). A service without work has too few.
    type: int
  spread:
    description: Requests that no two busy threads share a CPU (V(cpu)), or a core (V(core)).
    type: str
    choices: [cpu, core]
  nodes:
    description: The NUMA nodes on which memory must lie, as V(2), V(0-3), V(0,2) or V(all).
    type: str
  percent:
    description: Which share of the mapped weights, and which of anonymous memory, must lie on O(nodes) at least.
    type: int
    default: 99
  interleaved:
    description:
      - Requests that the weights lie evenly on O(nodes), none of which may have less than nine tenths of its share.
      - Where no model is mapped, the weights are part of anonymous memory, and that memory must be even.
    type: bool
    default: false
  rows:
    description:
      - Requests that each large tensor of a model lies on the nodes of the threads that read it, as C(memory rows) of
        M(sovereign.epyc.llama_server) puts it. One entry for each model, its path and the number of its threads.
      - Needs O(nodes), which are those of C(--numa distribute), from 0 without holes. A sample of the pages of each
        tensor of which a thread reads 64 KiB or more is looked at in the page cache. Of the bytes that pages of 4 KiB
        allow to be local, 98 percent must be.
      - V(ok) where no tensor is as large. Pages that are not in memory are reported and not judged.
    type: dict
  hugepages:
    description: How much memory must be in huge pages at least, in one process, as V(40GiB) or V(512MiB). Pages that
      are reserved and not used do not count.
    type: dict
    suboptions:
      hugetlb:
        description: In pages of a pool (M(sovereign.epyc.hugepages)), from a hugetlbfs or otherwise.
        type: str
      thp:
        description: In transparent huge pages of anonymous memory.
        type: str
      thp_shmem:
        description: In transparent huge pages of a tmpfs.
        type: str
      thp_file:
        description: In transparent huge pages of an ordinary file.
        type: str
  group:
    description:
      - The resctrl group whose limits must hold for every thread, V(/) for the default one.
      - A thread that is in no group itself has the limits of the groups that its CPUs are in.
    type: str
notes:
  - Needs root to read the memory of other users' processes. Without it the verdicts on memory are V(unknown).
  - The kernel does not distinguish KV cache, compute buffers and repacked weights; all of them are anonymous memory.
  - Only pages that the process has touched are counted. A model that was just mapped has none yet.
  - Occupancy and bandwidth are those of a whole resctrl group, with whatever else is in it. Reading them
    interrupts one CPU of each L3 domain.
seealso:
  - module: sovereign.epyc.epyc_plan
  - module: sovereign.epyc.resctrl_schemata
  - module: sovereign.epyc.hugepages
"""

EXAMPLES = r"""
- name: Prove that the service is where it should be, while it answers a request
  sovereign.epyc.service_placement_info:
    service: llama.service
    window: 2
    cpus: housekeeping,draft,verify
    busy_cpus: draft,verify
    busy_threads: 124
    spread: cpu
    nodes: 0-3
    interleaved: true
    hugepages:
      hugetlb: 40GiB
    group: verify
    intent: "{{ epyc.intent }}"
  register: placement

- name: Say what is wrong or not known
  ansible.builtin.assert:
    that: placement.clean
    fail_msg: "{{ placement.verdicts | rejectattr('verdict', 'eq', 'ok') | map(attribute='sentence') | join(' ') }}"
"""

RETURN = r"""
clean:
  description: Whether all verdicts are V(ok).
  returned: always
  type: bool
verdicts:
  description: One entry for each requested thing, two for O(nodes) where a model is mapped.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: The option, as C(spread), and what of it, as C(nodes/weights) or C(hugepages/thp).
      type: str
    verdict:
      description: V(ok), V(drift) or V(unknown).
      type: str
    sentence:
      description: The present placement, or why it is not known.
      type: str
  sample:
    - name: cpus
      verdict: drift
      sentence: "1 of 34 threads may run outside 1-31: thread 1234 (llama-server) on 0-31."
seconds:
  description: How long the threads were watched; none without a window.
  returned: always
  type: float
threads:
  description: All threads, by process and number.
  returned: always
  type: list
  elements: dict
  contains:
    process:
      description: The number of its process.
      type: int
    thread:
      description: Its number.
      type: int
    name:
      description: Its name.
      type: str
    allowed:
      description: The CPUs that it may run on.
      type: str
    cpu:
      description: The CPU that it ran on last.
      type: int
    l3:
      description: The L3 domain of that CPU.
      type: int
    node:
      description: The NUMA node of that CPU.
      type: int
    groups:
      description: The resctrl groups whose limits hold for it; none where that is unknown.
      type: list
      elements: str
    busy:
      description: The share of the window in which it ran or waited for a CPU, from 0 to 1.
      type: float
    worked:
      description: For how many seconds of the window it ran.
      type: float
    waited:
      description: For how many seconds of the window it waited for a CPU.
      type: float
    voluntary:
      description: How often it gave its CPU away in the window.
      type: int
    involuntary:
      description: How often its CPU was taken away in the window.
      type: int
memory:
  description: The memory of each process. Sizes are in bytes.
  returned: always
  type: list
  elements: dict
  contains:
    process:
      description: The number of the process.
      type: int
    weights:
      description: The mapping of the model, by node and by page size, with its files and memory policies.
      type: dict
      sample:
        bytes: 8388608
        nodes: {"0": 4194304, "1": 4194304}
        page_sizes: {"2048kB": 8388608}
        files: [/srv/models/model.gguf]
        policies: ["interleave:0-1"]
    anonymous:
      description: Anonymous memory, in the same way.
      type: dict
    other:
      description: Other mapped files such as libraries, in the same way. No verdict looks at them.
      type: dict
    hugepages:
      description: Memory in huge pages in use by kind, C(hugetlb), C(thp), C(thp_shmem) and C(thp_file).
      type: dict
    resident:
      description: What is in memory, without pages of a pool.
      type: int
    swapped:
      description: What was swapped out.
      type: int
    locked:
      description: What cannot be swapped out.
      type: int
rows:
  description: By model of O(rows), in percent how many bytes of its large tensors lie on the node that reads them
    (C(local)), how many can (C(possible)), how many of their pages are in memory (C(in_memory)), and how many such
    C(tensors) it has. None where it cannot be seen.
  returned: always
  type: dict
  sample: {"/srv/models/model.gguf": {"local": 98.7, "possible": 98.7, "in_memory": 100.0, "tensors": 225}}
groups:
  description: The resctrl groups and monitor groups that the threads are in.
  returned: always
  type: list
  elements: dict
  contains:
    group:
      description: The group, V(/) for the default one.
      type: str
    monitor:
      description: The monitor group in it; empty for the group itself.
      type: str
    l3:
      description: By L3 domain, the occupancy in bytes, and local and total bandwidth in bytes per second.
      type: dict
      sample: {"0": {"occupancy": 8388608, "local_bandwidth": 21474836480, "total_bandwidth": 21474836480}}
noise:
  description: Interrupts and other tasks on the CPUs of the busy threads; none without a window or a busy thread.
    C(cpus) are those that they ran on. C(ticks), C(devices) and C(sent) are interrupts per second of timers, of devices
    and from other CPUs, on the CPU that had most of a kind. C(involuntary) are the switches per second of the thread
    that other tasks interrupted most, and C(waited) is the share of the time in which another task had the CPU of the
    thread that waited longest.
  returned: always
  type: dict
  sample: {"cpus": "4-7", "ticks": 1.0, "devices": 0.0, "sent": 12.5, "involuntary": 0.5, "waited": 0.0002}
missing:
  description: What could not be read, with the reason.
  returned: always
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_reader
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.placement.watch import prove_placement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS

SPEC = dict(
    service=dict(type="str", required=True),
    window=dict(type="float", default=0),
    model=dict(type="list", elements="path"),
    cpus=dict(type="str"),
    busy_cpus=dict(type="str"),
    busy_threads=dict(type="int"),
    spread=dict(type="str", choices=["cpu", "core"]),
    nodes=dict(type="str"),
    percent=dict(type="int", default=99),
    interleaved=dict(type="bool", default=False),
    rows=dict(type="dict"),
    hugepages=dict(
        type="dict",
        options=dict(
            hugetlb=dict(type="str"), thp=dict(type="str"), thp_shmem=dict(type="str"), thp_file=dict(type="str")
        ),
    ),
    group=dict(type="str"),
    intent=dict(type="dict"),
)


def prove_service_placement(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Return the module's result."""
    return prove_placement(Host(fs, params["intent"]), params)


def main() -> None:
    run_reader(SPEC, prove_service_placement)


if __name__ == "__main__":
    main()
