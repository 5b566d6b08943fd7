#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_benchmark
short_description: Measure what an instance of llama-server or vLLM does, and how near that is to what its memory allows
version_added: 0.1.0
description:
  - Asks the running service of an instance of M(sovereign.epyc.llama_server), or of one of the role
    P(sovereign.epyc.vllm#role), in rounds, with one stream and with several at once, and returns rates and latencies by
    kind of prompt. The service is not changed or started anew.
  - A round counts only where nothing disturbed it. Witnesses see other programs on the CPUs, the hypervisor, swapping,
    requests of others, threads that were moved, and memory on other nodes than planned. Void rounds are kept, shown and
    repeated.
  - The read bandwidth of the instance's own CPUs and nodes is measured while it is idle, with C(likwid-bench) where
    that is installed, else with a small program that is built on the host. With the bytes that a step reads, from the
    headers of its model, it gives the time that a step takes at least.
  - Of vLLM all times are those of the client, and how many bytes a step reads is not known.
  - In check mode nothing is asked and nothing is written.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.measuring
  - sovereign.epyc.measuring.output
options:
  instance:
    description: The name of the instance. It may be left out where the host has only one, of either engine.
    type: str
  rounds:
    description: How many rounds have to count. Where rounds are void, there are at most three times as many.
    type: int
    default: 5
  streams:
    description: How many prompts are sent at once, beside one at a time. By default as many as the server has slots.
    type: list
    elements: int
  install:
    description:
      - Whether to have what measures on the host too, beside the engine, so that C(sovereign-epyc bench) measures there
        without a controller. It is renewed where it is of another version, when the run has ended.
      - A host without the engine, which the role sovereign.epyc.base installs, gets nothing.
    type: bool
    default: false
notes:
  - A run takes some minutes, and the service is busy meanwhile. A key is read on the host, from the file that the
    instance was given.
  - The filters C(sovereign.epyc.benchmark_report) and C(sovereign.epyc.benchmark_page) show what a document
    says.
seealso:
  - module: sovereign.epyc.llama_ask
  - module: sovereign.epyc.llama_server
"""

EXAMPLES = r"""
- name: Measure the instance chat
  sovereign.epyc.llama_benchmark:
    instance: chat
  register: measured

- name: Show what it does
  ansible.builtin.debug:
    var: measured.text
"""

RETURN = r"""
clean:
  description: Whether at least one round counts.
  returned: always
  type: bool
instance:
  description: The name of the instance.
  returned: always
  type: str
document:
  description: The file on the host with the document of the run, with every raw sample. Empty in check mode.
  returned: always
  type: str
figures:
  description:
    - The figures by kind of prompt and number of streams. C(decode), C(prefill), C(low) and C(high) are tokens per
      second of all streams together, the last two in the slowest and the fastest round. C(ttft_*), C(tpot*) and
      C(gap_*) are milliseconds to the first text, per token after it, and between two pieces of text. C(memory) is the
      part of a step that reading its bytes takes at least.
  returned: when it was measured
  type: list
  elements: dict
  sample: [{"kind": "prose", "streams": 1, "decode": 24.1, "low": 23.9, "high": 24.3, "memory": 0.62}]
bandwidth:
  description: The read bandwidth of the CPUs of the instance in GB/s (10^9 bytes), and what measured it.
  returned: when it was measured
  type: list
  elements: dict
  sample: [{"scope": "instance", "cpus": "1-127", "nodes": "0-3", "gbps": 371.2, "source": "likwid-bench"}]
text:
  description: The report of the run, or in check mode what would be measured.
  returned: always
  type: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_writer
from ansible_collections.sovereign.epyc.plugins.module_utils._bench import benchmark, command_line, progress
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import SPEC, Asked
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.benchmark_report import Benchmark, report
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import load_stored_requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def write(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
    """Measure, and return the module's result; in a check say only what would be measured."""
    host = Host(KernelFS(read_only=True), load_stored_requests(store)[0], stored=True)
    asked = Asked(params)
    if check:
        name, sentence = benchmark.announced(host, asked)
        return {"changed": True, "clean": True, "instance": name, "document": "", "text": sentence}
    with progress.shown() as tell:
        path, document = benchmark.measure(host, asked, tell)
    if params["install"]:
        command_line.install()
    found = Benchmark(document)
    return {
        "changed": True,
        "clean": found.counts,
        "instance": document["instance"],
        "document": path,
        "figures": found.rows(),
        "bandwidth": document["bandwidth"],
        "text": report(document),
    }


def main() -> None:
    spec = dict(
        instance=dict(type="str"),
        rounds=dict(type="int", default=5),
        streams=dict(type="list", elements="int"),
        install=dict(type="bool", default=False),
        **SPEC,
    )
    run_writer(spec, write)


if __name__ == "__main__":
    main()
