#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_ablation_boot
short_description: Go on with an ablation in another boot, for boot parameters that are left out
version_added: 0.1.0
description:
  - Goes on with a run that M(sovereign.epyc.llama_ablation) has begun with
    O(sovereign.epyc.llama_ablation#module:reboots). One call measures what the host was booted into, adds that to the
    document of the run, and has the next boot be that of the next arm. C(playbooks/ablation.yml) reboots the host
    between two calls, until there is nothing to reboot for.
  - A boot counts once. Each round has a boot of each arm, in a random order, and every second round has the order of
    the one before backwards. A setting that is not in force after the boot, or another one that is not as it was,
    rejects the arm.
  - Only the configuration of the next boot lacks a parameter, never what is stored. The boot service has put it back
    into the configuration when the host has booted, so the boot after that is tuned again, whatever becomes of the
    controller. The last call returns when the running kernel has all of it.
  - In check mode nothing is asked, changed or written.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.measuring
options:
  document:
    description: The file on the host with the document of the run.
    type: path
    required: true
  booted:
    description: What the call before returned as C(booted). Without it nothing is measured in this boot.
    type: dict
  boots:
    description: How many boots each arm has at most. A verdict takes five that count, and often more.
    type: int
    default: 10
  stop:
    description: Whether to end the run now, and only bring back the tuned state.
    type: bool
    default: false
  streams:
    description: How many prompts are sent at once, beside one at a time, as the run was begun with.
    type: list
    elements: int
    default: []
notes:
  - It reboots nothing itself.
seealso:
  - module: sovereign.epyc.llama_ablation
"""

EXAMPLES = r"""
- name: Measure what was booted into, and prepare the next boot
  sovereign.epyc.llama_ablation_boot:
    document: "{{ tried.document }}"
    booted: "{{ before.booted }}"
  register: now
"""

RETURN = r"""
clean:
  description: Whether the run proves anything so far, that is, it is not void as a whole.
  returned: always
  type: bool
reboot:
  description: Whether the host has to be rebooted now, and the module called again with C(booted).
  returned: always
  type: bool
booted:
  description: What the next boot is for. Give it to the next call. The arm is empty where the boot brings all back.
  returned: when the host has to be rebooted
  type: dict
  sample: {"round": 12, "arm": "without nohz_full", "boot_id": "a3f1f2f0-1c0e-4a52-a7c5-2f0bb0b4c0de"}
verdicts:
  description: What was found out on each setting so far, as M(sovereign.epyc.llama_ablation) returns it.
  returned: when not in check mode
  type: list
  elements: dict
  sample: [{"knob": "nohz_full", "verdict": "pays", "ratio": 1.03, "low": 1.02, "high": 1.04, "rounds": 8}]
text:
  description: The report of the run so far, or in check mode that nothing was done.
  returned: always
  type: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ablation.boot_rounds import BOOTS, Boots
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
    """Go on with the run, and return the module's result; in a check only say so."""
    host = Host(KernelFS(read_only=check), load_stored_requests(store)[0], stored=True)
    boots = Boots(host, store, params["document"], Asked(params), params["boots"])
    if check:
        return {"changed": True, "clean": True, "reboot": False, "text": "The run would go on, with a reboot."}
    with progress.shown() as tell:
        following = boots.go_on(params["booted"], params["stop"], tell)
    judgement = Judgement(boots.document)
    return {
        "changed": True,
        "clean": not judgement.faults,
        "reboot": following is not None,
        **({"booted": following} if following else {}),
        "verdicts": judgement.rows(),
        "text": ablation_report.report(boots.document),
    }


def main() -> None:
    spec = dict(
        document=dict(type="path", required=True),
        booted=dict(type="dict"),
        boots=dict(type="int", default=BOOTS),
        stop=dict(type="bool", default=False),
        streams=dict(type="list", elements="int", default=[]),
        **{name: rule for name, rule in SPEC.items() if name != "output"},
    )
    run_writer(spec, write)


if __name__ == "__main__":
    main()
