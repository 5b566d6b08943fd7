#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_ablation_boot
short_description: Continue an ablation in another boot, to test boot parameters
version_added: 1.0.0
description:
  - Continues a run that M(sovereign.epyc.llama_ablation) has begun with
    O(sovereign.epyc.llama_ablation#module:reboots). A call measures the arm that the host was booted into, adds its
    samples to the document of the run, and configures the next boot for the next arm. C(playbooks/ablation.yml) reboots
    the host between two calls, until no further boot is needed.
  - A boot gives one value of its arm. Each round has a boot of each arm, in a random order, and every second round
    reverses the order of the round before. An arm is rejected if its setting is not in force after the boot, or another
    setting differs.
  - A parameter is removed only from the configuration of the next boot, never from the stored requests. During that
    boot the boot service writes the parameter into the configuration again, so the following boot is tuned even if the
    controller is lost. The last call returns when the running kernel has all parameters.
  - In check mode no prompt is sent, and nothing is changed or written.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.measuring
  - sovereign.epyc.attributes
options:
  document:
    description: The file on the host with the document of the run.
    type: path
    required: true
  booted:
    description: The return value C(booted) of the previous call. Without it nothing is measured in this boot.
    type: dict
  boots:
    description: The largest number of boots of an arm. A verdict needs at least five boots of the arm that count.
    type: int
    default: 10
  stop:
    description: Whether to end the run now, and only restore the tuned state.
    type: bool
    default: false
  streams:
    description: The numbers of parallel streams to measure beside a single one, the same as at the start of the run.
    type: list
    elements: int
    default: []
notes:
  - The module itself does not reboot the host.
seealso:
  - module: sovereign.epyc.llama_ablation
"""

EXAMPLES = r"""
- name: Measure the arm of this boot, and prepare the next boot
  sovereign.epyc.llama_ablation_boot:
    document: "{{ tried.document }}"
    booted: "{{ before.booted }}"
  register: now
"""

RETURN = r"""
clean:
  description: Whether the run is sound so far, so that its verdicts are valid.
  returned: always
  type: bool
instance:
  description: The name of the instance.
  returned: always
  type: str
reboot:
  description: Whether the host has to be rebooted now, and the module called again with C(booted).
  returned: always
  type: bool
booted:
  description: The purpose of the next boot, for the next call. The arm is empty if the boot restores the tuned state.
  returned: when the host has to be rebooted
  type: dict
  sample: {"round": 12, "arm": "without nohz_full", "boot_id": "a3f1f2f0-1c0e-4a52-a7c5-2f0bb0b4c0de"}
verdicts:
  description: The verdict on each setting so far, as M(sovereign.epyc.llama_ablation) returns it.
  returned: when not in check mode
  type: list
  elements: dict
  sample: [{"knob": "nohz_full", "verdict": "pays", "ratio": 1.03, "low": 1.02, "high": 1.04, "rounds": 8}]
text:
  description: The report of the run so far, or in check mode that nothing was done.
  returned: always
  type: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ablation.boot_rounds import MAX_BOOTS, BootRounds
from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_changing_module
from ansible_collections.sovereign.epyc.plugins.module_utils._bench import progress
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import (
    ARGUMENT_SPEC,
    LONG_RUN_SPEC,
    MeasuringRequest,
)
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


def continue_ablation_after_boot(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
    """Continue the run and return the result of the module; in check mode return that it would continue."""
    host = Host(KernelFS(read_only=check), load_stored_requests(store)[0], stored=True)
    boots = BootRounds(host, store, params["document"], MeasuringRequest(params), params["boots"])
    if check:
        text = "The run would go on, with a reboot."
        return {"changed": True, "clean": True, "instance": boots.document["instance"], "reboot": False, "text": text}
    with progress.progress_file_writer(params["controller_timeout"]) as report_step:
        next_boot = boots.continue_after_boot(params["booted"], params["stop"], report_step)
    judgement = Judgement(boots.document)
    return {
        "changed": True,
        "clean": not judgement.faults,
        "instance": boots.document["instance"],
        "reboot": next_boot is not None,
        **({"booted": next_boot} if next_boot else {}),
        "verdicts": judgement.to_rows(),
        "text": render_run_report(boots.document),
    }


def main() -> None:
    spec = dict(
        document=dict(type="path", required=True),
        booted=dict(type="dict"),
        boots=dict(type="int", default=MAX_BOOTS),
        stop=dict(type="bool", default=False),
        streams=LONG_RUN_SPEC["streams"],
        **ARGUMENT_SPEC,
    )
    run_changing_module(spec, continue_ablation_after_boot)


if __name__ == "__main__":
    main()
