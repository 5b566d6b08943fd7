#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_tune
short_description: Find the options with which an instance of llama-server is fastest on this host
version_added: 1.0.0
description:
  - Starts the instance again and again with other options, and measures each candidate. What is measured next is what
    promises the largest improvement, estimated from all measurements until then. The best candidate must then be better
    than the present options in new rounds, with its whole confidence interval. Otherwise the present options, which are
    called the default, stay.
  - The time of O(minutes) is divided backwards. The confirmation has its share first, and no round begins that cannot
    end in time. After one start the run says what its time settles. Where it could not confirm anything, it ends then,
    with an error that names the minutes it needs.
  - By default the time of whole requests with one stream decides; see O(objective). The default also stays if the
    candidate is proven to be worse in reading prompts, in decoding any kind of prompt, or with several streams.
  - Each candidate is planned as M(sovereign.epyc.llama_server) plans an instance. A candidate that this module would
    refuse is rejected.
  - The service is stopped and started many times. When the run ends for any reason, a transient unit starts the service
    as its unit file says; after a power cut the next boot does so.
  - The result is not applied. C(tuned) has the value for the variable C(epyc_llama_tuned) of the role epyc_llama.
  - In check mode no prompt is sent, and nothing is changed or written.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.measuring
  - sovereign.epyc.measuring.output
  - sovereign.epyc.measuring.long_run
  - sovereign.epyc.knob.intent
  - sovereign.epyc.attributes
options:
  instance:
    description:
      - The instance of the inventory, with the options of O(sovereign.epyc.llama_server#module:instances). It has to
        run with these options, planned with O(intent) or the stored intent of the host. C(binary) defaults to the
        program that runs.
    type: dict
    required: true
  options:
    description: Try only these options, by the names that check mode lists. One option takes a fraction of the time.
    type: list
    elements: str
notes:
  - The host needs the host tool, which the role sovereign.epyc.epyc_base installs.
  - Two options that help only together, and neither of them alone, are found only by chance.
seealso:
  - module: sovereign.epyc.llama_ablation
  - module: sovereign.epyc.llama_server
"""

EXAMPLES = r"""
- name: Find the number of threads with which the instance is fastest
  sovereign.epyc.llama_tune:
    instance:
      name: chat
      model: /srv/models/model-Q4_K_M.gguf
      port: 8080
    intent: "{{ epyc.intent }}"
    options: [threads, threads_batch]
    minutes: 90
  register: tried

- name: Show the report
  ansible.builtin.debug:
    var: tried.text
"""

RETURN = r"""
clean:
  description: Whether the run is sound, so that its result is valid. In check mode it is true.
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
    - The options that beat the default, for the variable C(epyc_llama_tuned) of the role epyc_llama; empty where the
      default stays. C(ratio) is their speed divided by the speed of the default, C(low) and C(high) are the ends of its
      confidence interval, and C(measured_on) has the versions for which the result is valid.
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

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_changing_module
from ansible_collections.sovereign.epyc.plugins.module_utils._bench import progress
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import (
    ARGUMENT_SPEC,
    LONG_RUN_SPEC,
    OUTPUT_SPEC,
    MeasuringRequest,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.run_report import render_run_report
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.tuning_result import TuningResult
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import load_stored_requests
from ansible_collections.sovereign.epyc.plugins.module_utils._tuning import tuning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def measure_or_describe_tuning(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
    """Measure and return the result of the module; in check mode return what would be tried."""
    host = Host(KernelFS(read_only=True), load_stored_requests(store)[0], stored=True)
    request, options = MeasuringRequest({**params, "instance": None, "rounds": None}), tuning.TuningRequest(params)
    if check:
        name, sentence = tuning.describe_planned_tuning(host, request, options)
        return {"changed": True, "clean": True, "instance": name, "document": "", "tuned": {}, "text": sentence}
    with progress.progress_file_writer(params["controller_timeout"]) as report_step:
        path, document = tuning.run_tuning(host, request, options, report_step)
    result = TuningResult(document)
    return {
        "changed": True,
        "clean": not result.faults,
        "instance": document["instance"],
        "document": path,
        "tuned": result.to_tuned_options(),
        "text": render_run_report(document),
    }


def main() -> None:
    spec = dict(
        instance=dict(type="dict", required=True),
        options=dict(type="list", elements="str"),
        intent=dict(type="dict"),
        **LONG_RUN_SPEC,
        **ARGUMENT_SPEC,
        **OUTPUT_SPEC,
    )
    run_changing_module(spec, measure_or_describe_tuning)


if __name__ == "__main__":
    main()
