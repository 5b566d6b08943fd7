#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_ablation
short_description: Measure which settings make an instance of llama-server faster, by removing one at a time
version_added: 0.1.0
description:
  - Measures the effect of each setting of the host that M(sovereign.epyc.llama_server) and the other modules of this
    collection have changed, and of each option of the instance, by removing one at a time. Each round has all arms
    once, in a random order, and they are compared with the tuned state of the same round.
  - Settings that take effect at once share a server; those that take effect at a start get a start for each value.
    Settings that need a reboot are not tested. Rounds continue until each interval has decided or the time is over.
    Then the settings that are worth keeping are compared with the stock and the tuned state in new rounds, which alone
    show their joint effect.
  - The service is stopped and started many times, and slower at times. Before the first change a transient unit is
    started that restores the stored settings when the run ends in any way; after a power cut the boot service does so.
    Meanwhile the drift check reports that a trial is under way.
  - A setting that does not take effect is rejected, and never reported to have no effect.
  - In check mode no prompt is sent, and nothing is changed or written.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.measuring
  - sovereign.epyc.measuring.output
  - sovereign.epyc.measuring.long_run
options:
  instance:
    description: The name of the instance. It may be left out where the host has only one.
    type: str
  knobs:
    description: Test only these settings and options, by the names that check mode lists.
    type: list
    elements: str
  rounds:
    description: The largest number of rounds of each class of settings.
    type: int
    default: 40
  reboots:
    description:
      - Whether boot parameters are tested too, in boots that M(sovereign.epyc.llama_ablation_boot) measures afterwards.
        That module continues the document of this run, which has not ended then. Stock keeps the boot parameters,
        unless nothing else is tested.
    type: bool
    default: false
notes:
  - The host needs the host tool, which the role sovereign.epyc.epyc_base installs.
  - The filters C(sovereign.epyc.benchmark_report) and C(sovereign.epyc.benchmark_page) render a document.
seealso:
  - module: sovereign.epyc.llama_ablation_boot
  - module: sovereign.epyc.llama_benchmark
  - module: sovereign.epyc.llama_server
"""

EXAMPLES = r"""
- name: Measure which settings pay
  sovereign.epyc.llama_ablation:
    instance: chat
    minutes: 120
  register: tried

- name: Show the report
  ansible.builtin.debug:
    var: tried.text
"""

RETURN = r"""
clean:
  description: Whether the run is sound, so that its verdicts are valid. In check mode it is true.
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
reboots:
  description: Whether M(sovereign.epyc.llama_ablation_boot) has to continue the document.
  returned: always
  type: bool
verdicts:
  description:
    - The verdict on each setting. C(verdict) is C(pays), C(hurts), C(nothing), C(undecided), C(not tested) or
      C(rejected); ratios are with the setting over without it, above 1 it is better, and C(low) and C(high) are the
      ends of the interval.
  returned: when it was measured
  type: list
  elements: dict
  sample: [{"knob": "boost", "verdict": "pays", "ratio": 1.08, "low": 1.06, "high": 1.1, "rounds": 9}]
text:
  description: The report of the run, or in check mode what would be measured.
  returned: always
  type: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ablation import ablation
from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_changing_module
from ansible_collections.sovereign.epyc.plugins.module_utils._bench import progress
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import (
    ARGUMENT_SPEC,
    LONG_RUN_SPEC,
    OUTPUT_SPEC,
    MeasuringRequest,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports import ablation_report
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import load_stored_requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def measure_or_describe_ablation(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
    """Measure and return the result of the module; in check mode return what would be measured."""
    host = Host(KernelFS(read_only=True), load_stored_requests(store)[0], stored=True)
    # The option rounds limits the rounds of a class here, and does not say how many have to count.
    asked, wanted = MeasuringRequest({**params, "rounds": None}), ablation.AblationRequest(params)
    if check:
        name, sentence = ablation.describe_planned_ablation(host, asked, wanted)
        return {"changed": True, "clean": True, "instance": name, "document": "", "reboots": False, "text": sentence}
    with progress.progress_file_writer() as tell:
        path, document = ablation.run_ablation(host, asked, wanted, tell)
    judgement = Judgement(document)
    return {
        "changed": True,
        "clean": not judgement.faults,
        "instance": document["instance"],
        "document": path,
        "reboots": document["ended"] is None,
        "verdicts": judgement.to_rows(),
        "text": ablation_report.render_report_of_any_run(document),
    }


def main() -> None:
    spec = dict(
        instance=dict(type="str"),
        knobs=dict(type="list", elements="str"),
        rounds=dict(type="int", default=ablation.ROUNDS),
        reboots=dict(type="bool", default=False),
        **LONG_RUN_SPEC,
        **ARGUMENT_SPEC,
        **OUTPUT_SPEC,
    )
    run_changing_module(spec, measure_or_describe_ablation)


if __name__ == "__main__":
    main()
