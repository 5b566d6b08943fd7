#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_benchmark
short_description: Measure rates and latencies of an instance, and compare them with its memory bandwidth
version_added: 1.0.0
description:
  - Sends prompts to the running service of an instance of M(sovereign.epyc.llama_server) or of the role
    P(sovereign.epyc.epyc_vllm#role), in rounds, with one stream and with several in parallel. Returns rates and
    latencies by kind of prompt. The service is neither changed nor restarted.
  - A round counts only if nothing disturbed it. Rounds are discarded for other programs on the CPUs, the hypervisor,
    swapping, requests of other clients, threads that were moved, and memory on other nodes than planned. Discarded
    rounds stay in the document and the report, and are repeated.
  - The read bandwidth of the instance's CPUs and nodes is measured while the instance is idle, with C(likwid-bench) if
    that is installed, else with a small program that is compiled on the host. The bytes that a step reads are computed
    from the headers of the model. These bytes divided by the bandwidth are the shortest possible time of a step.
  - For vLLM all times are those of the client, and the bytes that a step reads are not known.
  - In check mode no prompt is sent and nothing is written.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.measuring
  - sovereign.epyc.measuring.output
  - sovereign.epyc.attributes
options:
  instance:
    description: The name of the instance. It may be left out where the host has only one, of either engine.
    type: str
  rounds:
    description: How many rounds have to count. With discarded rounds there are at most three times as many.
    type: int
    default: 5
  streams:
    description:
      - The numbers of parallel streams to measure beside a single one. By default only the number of slots.
      - With more streams than slots requests wait for a slot, so that the time to first token has the time of waiting.
    type: list
    elements: int
  depths:
    description:
      - Numbers of tokens of context before each prompt. The context is read once and then taken from the prefix cache,
        so that decoding and prefill are measured after it. One prompt of each kind is measured at each depth, once in a
        run.
      - By default 4096, 16384 and 32768, as far as a slot has room for them, and as far as all depths together take at
        most half the time of the rounds; a remark in the report says which were left out. An empty list measures none.
      - Only for instances of llama-server.
    type: list
    elements: int
  second_turn:
    description:
      - Whether to measure the second turn of a chat after one prompt of each kind in each round. Its first turn is in
        the prefix cache, so the time to first token is that which a chat feels. It takes 16 tokens and a short prompt
        of each kind and round.
      - Only for instances of llama-server.
    type: bool
    default: true
  rate:
    description:
      - The mean number of requests per second that are sent at random moments (a Poisson process), whether earlier
        requests were answered or not. By default no requests are sent at a rate.
      - In each round 24 requests are sent, which takes at least 24 seconds divided by the rate.
    type: float
  slo:
    description: The limits of a good request. With them the figures have the share of requests within both limits.
    type: dict
    suboptions:
      first_ms:
        description: The largest number of milliseconds to the first text.
        type: float
        required: true
      per_token_ms:
        description: The largest mean number of milliseconds per token after the first text.
        type: float
        required: true
  baseline:
    description:
      - Whether this run becomes the baseline of the instance, if a round counts. Then M(sovereign.epyc.epyc_verify)
        says when the kernel, the BIOS, the build or the model has changed since.
    type: bool
    default: false
  install:
    description:
      - Whether to install the command C(sovereign-epyc bench) on the host, which measures without a controller. An
        installed command of another version is replaced at the end of the run.
      - Nothing is installed on a host without the host tool, which the role sovereign.epyc.epyc_base installs.
    type: bool
    default: false
notes:
  - Check mode says how long a run takes, and so does the run after its warm-up. The service is busy meanwhile.
  - The API key is read on the host, from the key file of the instance.
  - The filters C(sovereign.epyc.benchmark_report) and C(sovereign.epyc.benchmark_page) render a document.
seealso:
  - module: sovereign.epyc.llama_ask
  - module: sovereign.epyc.llama_server
"""

EXAMPLES = r"""
- name: Measure the instance chat
  sovereign.epyc.llama_benchmark:
    instance: chat
  register: measured

- name: Show the report
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
    - The figures by kind of prompt, number of streams, depth, turn and rate. Each figure means the same for any number
      of streams.
    - C(output), C(low) and C(high) are generated tokens per second of all streams together, end to end; C(low) and
      C(high) are those of the slowest and the fastest round. C(decode) is the same by the server's time for generation
      alone. C(prefill) are tokens of a prompt per second of reading it.
    - C(ttft_*), C(tpot_*) and C(gap_*) are milliseconds to the first text, per token after it, and between two pieces
      of text. C(within_slo) is the share of requests within the limits.
    - C(memory) is the shortest time in which memory can deliver the bytes of a step of all streams, as a share of the
      measured time of a step.
  returned: when it was measured
  type: list
  elements: dict
  sample: [{"kind": "prose", "streams": 1, "depth": 0, "turn": 1, "rate": null, "output": 22.0, "decode": 24.1,
    "low": 21.9, "high": 22.3, "memory": 0.62}]
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

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_changing_module
from ansible_collections.sovereign.epyc.plugins.module_utils._bench import benchmark, command_line, progress
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import (
    ARGUMENT_SPEC,
    BENCHMARK_SPEC,
    OUTPUT_SPEC,
    MeasuringRequest,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.benchmark_report import BenchmarkResult
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.run_report import render_run_report
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import load_stored_requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def measure_or_describe_benchmark(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
    """Measure and return the result of the module; in check mode return what would be measured."""
    host = Host(KernelFS(read_only=True), load_stored_requests(store)[0], stored=True)
    request = MeasuringRequest(params)
    if check:
        name, sentence = benchmark.describe_planned_benchmark(host, request)
        return {"changed": True, "clean": True, "instance": name, "document": "", "text": sentence}
    with progress.progress_file_writer(params["controller_timeout"]) as report_step:
        path, document = benchmark.run_benchmark(host, request, report_step)
    if params["install"]:
        command_line.install_command()
    result = BenchmarkResult(document)
    return {
        "changed": True,
        "clean": result.counts,
        "instance": document["instance"],
        "document": path,
        "figures": result.figure_rows(),
        "bandwidth": document["bandwidth"],
        "text": render_run_report(document),
    }


def main() -> None:
    spec = dict(
        instance=dict(type="str"),
        baseline=dict(type="bool", default=False),
        install=dict(type="bool", default=False),
        **BENCHMARK_SPEC,
        **ARGUMENT_SPEC,
        **OUTPUT_SPEC,
    )
    run_changing_module(spec, measure_or_describe_benchmark)


if __name__ == "__main__":
    main()
