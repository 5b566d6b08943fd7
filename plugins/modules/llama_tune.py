#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_tune
short_description: Find the options with which an instance of llama-server is fastest on this host
version_added: 0.1.0
description:
  - Starts the instance again and again with other options, and measures each. First every value is tried alone, then
    the combinations that should be best by that are halved round by round, and the last few race. What is best then has
    to beat what the instance has now in fresh rounds, with its whole interval, or all stays as it is.
  - What decides is the time of whole requests with one stream. A proven loss when decoding a kind of prompt, with
    several streams, or when reading prompts, keeps the default.
  - Each candidate is planned as M(sovereign.epyc.llama_server) plans it. What that would refuse is rejected.
  - The service is stopped and started many times. Before the first change a transient unit waits for the end of the
    run, in whatever way it ends, and starts the service as its unit says; after a power cut the boot does.
  - Nothing of what is found out is applied. C(tuned) has it for the variable C(llama_tuned) of the role llama.
  - In check mode nothing is asked, changed or written.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.measuring
  - sovereign.epyc.measuring.output
  - sovereign.epyc.knob.intent
options:
  instance:
    description:
      - The instance as the inventory has it, with the options of O(sovereign.epyc.llama_server#module:instances). It
        has to run so, planned with O(intent), or without that with the intent that is stored on the host. Without
        C(binary), it is the one that runs.
    type: dict
    required: true
  options:
    description: Only these options are tried, by the names that a check lists.
    type: list
    elements: str
  minutes:
    description: For how many minutes rounds are begun.
    type: float
    default: 240
  seed:
    description: Decides on the order of all arms. By default it is drawn.
    type: int
  streams:
    description: How many prompts are sent at once, beside one at a time. By default no more than one.
    type: list
    elements: int
    default: []
notes:
  - It needs the engine on the host, which the role sovereign.epyc.base installs.
  - Two options that pay only together, and each alone not, are not found.
seealso:
  - module: sovereign.epyc.llama_ablation
  - module: sovereign.epyc.llama_server
"""

EXAMPLES = r"""
- name: Find out with how many threads the instance is fastest
  sovereign.epyc.llama_tune:
    instance:
      name: chat
      model: /srv/models/model-Q4_K_M.gguf
      port: 8080
    intent: "{{ epyc.intent }}"
    options: [threads, threads_batch]
    minutes: 60
  register: tried

- name: Show it
  ansible.builtin.debug:
    var: tried.text
"""

RETURN = r"""
clean:
  description: Whether the run proves anything, that is, it is not void as a whole. In check mode it is true.
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
tuned:
  description:
    - What beat the default, for the variable C(llama_tuned) of the role llama; empty where the default stays. C(ratio)
      is its speed over that of the default, C(low) and C(high) are the ends of the interval, and it holds for what
      C(measured_on) says.
  returned: always
  type: dict
  sample:
    options: {"threads": 96}
    run: chat-20261125T201500Z
    ratio: 1.08
    low: 1.06
    high: 1.1
    measured_on: {"kernel": "6.12.9", "engine_build": "b11434"}
text:
  description: The report of the run, or in check mode what would be tried.
  returned: always
  type: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_writer
from ansible_collections.sovereign.epyc.plugins.module_utils._bench import progress
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import SPEC, Asked
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports import tuning_report
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.tuning_result import Tuning
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import load_stored_requests
from ansible_collections.sovereign.epyc.plugins.module_utils._tuning import tuning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def write(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
    """Measure, and return the module's result; in a check say only what would be tried."""
    host = Host(KernelFS(read_only=True), load_stored_requests(store)[0], stored=True)
    asked, wanted = Asked({**params, "instance": None, "rounds": None}), tuning.Wanted(params)
    if check:
        name, sentence = tuning.announced(host, asked, wanted)
        return {"changed": True, "clean": True, "instance": name, "document": "", "tuned": {}, "text": sentence}
    with progress.shown() as tell:
        path, document = tuning.measure(host, asked, wanted, tell)
    found = Tuning(document)
    return {
        "changed": True,
        "clean": not found.faults,
        "instance": document["instance"],
        "document": path,
        "tuned": found.tuned(),
        "text": tuning_report.report(document),
    }


def main() -> None:
    spec = dict(
        instance=dict(type="dict", required=True),
        options=dict(type="list", elements="str"),
        minutes=dict(type="float", default=240),
        seed=dict(type="int"),
        streams=dict(type="list", elements="int", default=[]),
        intent=dict(type="dict"),
        **SPEC,
    )
    run_writer(spec, write)


if __name__ == "__main__":
    main()
