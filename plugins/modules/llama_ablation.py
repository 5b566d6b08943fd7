#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_ablation
short_description: Measure which settings make an instance of llama-server faster, by leaving out one after the other
version_added: 0.1.0
description:
  - Leaves out each setting of the host that M(sovereign.epyc.llama_server) and the other modules of this collection
    have changed, and each option of the instance, and measures what that does. All arms come once in each round, in a
    random order, and are compared with the tuned state of the same round.
  - Settings that act at once share a server; what acts at a start gets a start of its own for each value. What needs a
    reboot is not tested. Rounds go on until each interval decides or the time is up, and then what is worth to be kept
    is raced against the stock and the tuned state on fresh rounds, which alone tell what all do together.
  - The service is stopped and started many times, and slower at times. Before the first change a transient unit waits
    for the end of the run, in whatever way it ends, and puts the stored settings back; after a power cut the boot
    service does. The drift check says meanwhile that a trial is under way.
  - A setting that does not take effect is rejected, never said to do nothing.
  - In check mode nothing is asked, changed or written.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.measuring
  - sovereign.epyc.measuring.output
options:
  instance:
    description: The name of the instance. It may be left out where the host has only one.
    type: str
  knobs:
    description: Only these settings and options, by the names that a check lists.
    type: list
    elements: str
  rounds:
    description: How many rounds there are at most of settings of one class.
    type: int
    default: 40
  minutes:
    description: For how many minutes rounds are begun.
    type: float
    default: 240
  reboots:
    description:
      - Whether each boot parameter is left out too, in boots that M(sovereign.epyc.llama_ablation_boot) measures
        afterwards. It goes on with the document of this run, which has not ended then. Stock keeps the boot
        parameters, unless nothing else is left out.
    type: bool
    default: false
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
  - The filters C(sovereign.epyc.benchmark_report) and C(sovereign.epyc.benchmark_page) show what a document
    says.
seealso:
  - module: sovereign.epyc.llama_ablation_boot
  - module: sovereign.epyc.llama_benchmark
  - module: sovereign.epyc.llama_server
"""

EXAMPLES = r"""
- name: Find out what pays
  sovereign.epyc.llama_ablation:
    instance: chat
    minutes: 120
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
reboots:
  description: Whether M(sovereign.epyc.llama_ablation_boot) has to go on with the document.
  returned: always
  type: bool
verdicts:
  description:
    - What was found out on each setting. C(verdict) is C(pays), C(hurts), C(nothing), C(undecided), C(not tested) or
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
from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_writer
from ansible_collections.sovereign.epyc.plugins.module_utils._bench import progress
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.request import SPEC, Asked
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


def write(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
    """Measure, and return the module's result; in a check say only what would be measured."""
    host = Host(KernelFS(read_only=True), load_stored_requests(store)[0], stored=True)
    # Rounds are limited by class here, not counted until enough of them are good.
    asked, wanted = Asked({**params, "rounds": None}), ablation.Wanted(params)
    if check:
        name, sentence = ablation.announced(host, asked, wanted)
        return {"changed": True, "clean": True, "instance": name, "document": "", "reboots": False, "text": sentence}
    with progress.shown() as tell:
        path, document = ablation.measure(host, asked, wanted, tell)
    judgement = Judgement(document)
    return {
        "changed": True,
        "clean": not judgement.faults,
        "instance": document["instance"],
        "document": path,
        "reboots": document["ended"] is None,
        "verdicts": judgement.rows(),
        "text": ablation_report.report(document),
    }


def main() -> None:
    spec = dict(
        instance=dict(type="str"),
        knobs=dict(type="list", elements="str"),
        rounds=dict(type="int", default=40),
        minutes=dict(type="float", default=240),
        reboots=dict(type="bool", default=False),
        seed=dict(type="int"),
        streams=dict(type="list", elements="int", default=[]),
        **SPEC,
    )
    run_writer(spec, write)


if __name__ == "__main__":
    main()
