#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_ablation
short_description: Measure which settings make an instance of llama-server faster, by removing one at a time
version_added: 1.0.0
description:
  - Measures the effect of each setting of the host that M(sovereign.epyc.llama_server) and the other modules of this
    collection have changed, and of each option of the instance, by removing one at a time. The states that are measured
    are called arms. C(tuned) has all settings and options, C(stock) has none of those that are tested, and each other
    arm lacks one. Each round measures all arms once, in a random order, and compares them with C(tuned) of that round.
  - First one start and two passes of C(tuned) show what measuring costs, and the module says what O(minutes) can settle
    and how long the rest would take. It fails where the time does not even suffice to confirm a result. Then a
    screening measures arms that each lack about half of the settings, which shows the effects of all of them at once.
    Only the settings that may have an effect are left out one at a time.
  - Settings that take effect at once are tested on one server in each round. For all others the server is started again
    for each arm. Settings that need a reboot are not tested. Rounds continue until each setting has a verdict or the
    time is over. Then the settings that are worth keeping are compared together with C(stock) and C(tuned) in new
    rounds, because only these rounds show the joint effect. The time of these rounds is reserved from the beginning.
  - The service is stopped and started many times, and is slower without some settings. The stored settings are restored
    when the run ends for any reason, because a transient unit waits for its end; after a power cut the boot service
    restores them. During the run the drift check reports that a trial is under way.
  - A setting whose removal does not take effect is rejected. It is never reported to have no effect.
  - In check mode no prompt is sent, and nothing is changed or written.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.measuring
  - sovereign.epyc.measuring.output
  - sovereign.epyc.measuring.long_run
  - sovereign.epyc.measuring.objectives
  - sovereign.epyc.knob.intent
  - sovereign.epyc.attributes
options:
  instance:
    description: The name of the instance. It may be left out where the host has only one.
    type: str
  knobs:
    description: Test only these settings and options, by the names that check mode lists.
    type: list
    elements: str
  arms:
    description:
      - Arms with another program, engine, model or other options of M(sovereign.epyc.llama_server), which are compared
        with the instance as it runs. Each is a dictionary of the options that differ, such as C(binary), C(engine) or
        C(model), and may have a C(name) for the report. Settings are then tested only where O(knobs) names them.
      - An arm is planned with its own model and program before anything is stopped. An arm that could not run is
        refused.
    type: list
    elements: dict
    default: []
  instance_options:
    description:
      - The instance of the inventory, with the options of O(sovereign.epyc.llama_server#module:instances). It has to
        run with these options, planned with O(intent) or the stored intent of the host. C(binary) defaults to the
        program that runs. Only O(arms) needs them.
    type: dict
  rounds:
    description: The largest number of rounds of each class of settings.
    type: int
    default: 40
  reboots:
    description:
      - Whether boot parameters are tested too, in boots that M(sovereign.epyc.llama_ablation_boot) measures afterwards.
        That module continues the document of this run. The arm C(stock) keeps the boot parameters, unless only boot
        parameters are tested.
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

- name: Compare another build with the one that runs, before it is rolled out
  sovereign.epyc.llama_ablation:
    instance: chat
    instance_options:
      name: chat
      model: /srv/models/model-Q4_K_M.gguf
      port: 8080
    arms:
      - binary: /opt/llama.cpp/b11500/bin/llama-server
      - name: smaller
        model: /srv/models/model-Q3_K_M.gguf
    minutes: 60

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
    - The verdicts on each setting, a row for each objective and then one for each other metric, whose C(objective) is
      empty. C(verdict) is C(pays), C(hurts), C(nothing), C(undecided), C(not tested) or C(rejected). C(overall) is the
      word for all objectives of the setting, which may also be C(mixed).
    - C(ratio) is the metric with the setting divided by the metric without it, so above 1 the setting helps. C(low) and
      C(high) are the ends of its confidence interval. C(rounds) is the number of starts of the server behind it.
  returned: when it was measured
  type: list
  elements: dict
  sample: [{"knob": "boost", "objective": "latency", "verdict": "pays", "overall": "pays", "ratio": 1.08, "low": 1.06,
            "high": 1.1, "rounds": 9}]
losses:
  description: A sentence for each arm of O(arms) that is proven to be worse than the instance as it runs.
  returned: when it was measured
  type: list
  elements: str
  sample: ["b11500 over b11434: decode 0.96 (0.95 to 0.97): do not roll out"]
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
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.planning.objectives import OBJECTIVE_SPEC
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.run_report import render_run_report
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
    # Here the option rounds limits the rounds of a class of settings. In MeasuringRequest it would be the number of
    # rounds that have to count.
    request, options = MeasuringRequest({**params, "rounds": None}), ablation.AblationRequest(params)
    if check:
        name, sentence = ablation.describe_planned_ablation(host, request, options)
        return {"changed": True, "clean": True, "instance": name, "document": "", "reboots": False, "text": sentence}
    with progress.progress_file_writer(params["controller_timeout"]) as report_step:
        path, document = ablation.run_ablation(host, request, options, report_step)
    judgement = Judgement(document)
    return {
        "changed": True,
        "clean": not judgement.faults,
        "instance": document["instance"],
        "document": path,
        "reboots": document["ended"] is None,
        "verdicts": judgement.to_rows(),
        "losses": [
            variant.headline(judgement.running_name) for variant in judgement.variants if variant.is_loss_proven
        ],
        "text": render_run_report(document),
    }


def main() -> None:
    spec = dict(
        instance=dict(type="str"),
        knobs=dict(type="list", elements="str"),
        arms=dict(type="list", elements="dict", default=[]),
        instance_options=dict(type="dict"),
        intent=dict(type="dict"),
        rounds=dict(type="int", default=ablation.ROUNDS),
        reboots=dict(type="bool", default=False),
        **LONG_RUN_SPEC,
        **OBJECTIVE_SPEC,
        **ARGUMENT_SPEC,
        **OUTPUT_SPEC,
    )
    run_changing_module(spec, measure_or_describe_ablation)


if __name__ == "__main__":
    main()
