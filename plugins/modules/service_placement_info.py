#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_placement_info
short_description: Prove on which CPUs and NUMA nodes the threads and the memory of a running service are
version_added: 1.0.0
description:
  - Reads the placement of a running service. This includes the CPUs on which each thread may run and ran last, the
    nodes with the pages of the model and of anonymous memory, the huge pages in use, and the resctrl groups with their
    occupancy and bandwidth.
  - Compares the placement with the requested placement. Each option that requests a placement returns a verdict with a
    sentence.
  - A placement that cannot be determined has the verdict V(unknown) with the reason, so RV(clean) is false. The module
    succeeds with any verdict; a task can fail on RV(clean).
  - The module is cheap for a model of any size. It reads three small files of each thread, twice with a window, and the
    files C(numa_maps) and C(smaps_rollup) of each process. For each of these two files, the kernel walks the page
    tables of the process once. Meanwhile the service continues, except for calls that change its memory mappings.
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
      - The seconds for which the threads are observed. C(busy), context switches and bandwidth are only known with a
        window.
      - The service must have work during the window. One or two seconds are enough.
    type: float
    default: 0
  model:
    description:
      - The files whose mappings count as weights. Name each file of a model in several files.
      - The default is every mapped file whose name ends in C(.gguf).
    type: list
    elements: path
  cpus:
    description: The only CPUs on which any thread may run; the notes explain how CPUs are written.
    type: str
  busy_cpus:
    description: The only CPUs on which busy threads may run, written as O(cpus). A thread is busy when it ran, or
      waited for a CPU, for half of O(window) or more. Threads that serve requests may thus be on other CPUs.
    type: str
  busy_threads:
    description:
      - The least number of busy threads, usually the number of compute threads with which the service was started. With
        fewer busy threads, CPUs are idle.
      - Set this option only where the service has work during O(window), because an idle service has no busy threads.
    type: int
  spread:
    description: Requests that no two busy threads share a CPU (V(cpu)), or a core (V(core)).
    type: str
    choices: [cpu, core]
  nodes:
    description: The NUMA nodes on which memory must lie, as V(2), V(0-3), V(0,2) or V(all).
    type: str
  percent:
    description: The least percentage of the mapped weights, and of anonymous memory, that must be on O(nodes).
    type: int
    default: 99
  interleaved:
    description:
      - Whether the weights must be spread evenly over O(nodes), with at least nine tenths of an equal share on each.
      - Where no model is mapped, the weights are part of anonymous memory, so that memory must be spread evenly.
    type: bool
    default: false
  rows:
    description:
      - Requests that each large tensor of a model is on the nodes of the threads that read it, as with C(memory rows)
        of M(sovereign.epyc.llama_server). Each entry is the path of a model and its number of threads.
      - Needs O(nodes), which must be the nodes of C(--numa distribute), from 0 without holes. The verdict is on a
        sample of the pages, in the page cache, of each tensor of which a thread reads 64 KiB or more. At least 98
        percent of the bytes that can be local, with pages of 4 KiB, must be local.
      - The verdict is V(ok) where no tensor is large enough. Pages that are not in memory are only reported.
    type: dict
  hugepages:
    description: The least memory in huge pages, in one process, as V(40GiB) or V(512MiB). Reserved pages that are not
      in use do not count.
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
      - The resctrl group whose limits must hold for every thread, V(/) for the default group.
      - A thread that is assigned to no group has the limits of the groups of its CPUs.
    type: str
notes:
  - Needs root to read the memory of other users' processes. Without root, the verdicts on memory are V(unknown).
  - The kernel does not distinguish KV cache, compute buffers and repacked weights; all of them are anonymous memory.
  - Only pages that the process has touched are counted. A model that was just mapped has no such pages yet.
  - Occupancy and bandwidth are those of a whole resctrl group, including other processes in the group. Reading these
    counters interrupts one CPU of each L3 domain.
seealso:
  - module: sovereign.epyc.epyc_plan
  - module: sovereign.epyc.resctrl_schemata
  - module: sovereign.epyc.hugepages
"""

EXAMPLES = r"""
- name: Prove that the service is on the planned CPUs and nodes, while it answers a request
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

- name: Fail with the sentences of all verdicts that are not ok
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
  description: One verdict for each requested placement, and two for O(nodes) where a model is mapped.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: The option, as C(spread), or the option with the kind of memory, as C(nodes/weights).
      type: str
    verdict:
      description: V(ok), V(drift) or V(unknown).
      type: str
    sentence:
      description: The present placement, or the reason why the placement is unknown.
      type: str
  sample:
    - name: cpus
      verdict: drift
      sentence: "1 of 34 threads may run outside 1-31: thread 1234 (llama-server) on 0-31."
seconds:
  description: The seconds for which the threads were observed; null without a window.
  returned: always
  type: float
threads:
  description: All threads, by process and number.
  returned: always
  type: list
  elements: dict
  contains:
    process:
      description: The number of the thread's process.
      type: int
    thread:
      description: The number of the thread.
      type: int
    name:
      description: The name of the thread.
      type: str
    allowed:
      description: The CPUs on which the thread may run.
      type: str
    cpu:
      description: The CPU on which the thread ran last.
      type: int
    l3:
      description: The L3 domain of that CPU.
      type: int
    node:
      description: The NUMA node of that CPU.
      type: int
    groups:
      description: The resctrl groups whose limits hold for the thread; null where this is unknown.
      type: list
      elements: str
    busy:
      description: The share of the window, from 0 to 1, in which the thread ran or waited for a CPU.
      type: float
    worked:
      description: The seconds of the window in which the thread ran.
      type: float
    waited:
      description: The seconds of the window in which the thread waited for a CPU.
      type: float
    voluntary:
      description: The number of voluntary context switches of the thread in the window.
      type: int
    involuntary:
      description: The number of involuntary context switches of the thread in the window.
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
      description: Anonymous memory, with the keys of C(weights).
      type: dict
    other:
      description: Other mapped files, such as libraries, with the keys of C(weights). These files have no verdict.
      type: dict
    hugepages:
      description: Memory in huge pages in use by kind, C(hugetlb), C(thp), C(thp_shmem) and C(thp_file).
      type: dict
    resident:
      description: The memory in use, without pages of a pool.
      type: int
    swapped:
      description: The memory that was swapped out.
      type: int
    locked:
      description: The memory that cannot be swapped out.
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
  description: A sentence with the reason for each fact that could not be read.
  returned: always
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_read_only_module
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.placement.watch import prove_placement_of_service

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
    """Return the placement of a service and the verdicts on it as the module's result."""
    return prove_placement_of_service(Host(fs, params["intent"]), params)


def main() -> None:
    run_read_only_module(SPEC, prove_service_placement)


if __name__ == "__main__":
    main()
