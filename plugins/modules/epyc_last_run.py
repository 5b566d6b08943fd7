#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_last_run
short_description: Check whether the state that the last run of site.yml left on a host still holds
version_added: 0.1.0
description:
  - The playbook C(sovereign.epyc.site) remembers at its end what it was asked, and how it left the host. When it starts
    it asks this module, and leaves alone a host for which nothing is left to do, with and without check mode.
  - That is so when the inputs, the distribution, the kernel, the topology, the BIOS settings that the kernel shows,
    the files of the collection and the stored requests are unchanged; packages are installed, kernel modules loaded
    and services running; and M(sovereign.epyc.epyc_drift_info) would find every setting in force.
  - Boot parameters may wait for a reboot (RV(reboot_required)), if the kernel was started as in the last run.
  - A module that cannot look says so in RV(reason) and does not fail.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
options:
  layers:
    description:
      - The layers of a run of C(sovereign.epyc.site). The controller makes O(inputs) and O(packages) of their
        variables and those of the plan, as they are before any layer has run.
      - The controller does not ask the host with tags, C(--start-at-task) or C(--step), with C(epyc_llama_instances),
        with a layer that is not stored, as C(epyc_cat_persistent=false), or with a variable that has no value yet.
    type: list
    elements: str
  inputs:
    description: A digest of all inputs of the run, the collection itself included.
    type: str
  packages:
    description: Packages that have to be installed, by their names in the distribution. Not with O(remember).
    type: list
    elements: str
    default: []
  remember:
    description:
      - Remember the host as it is, because a run with all layers has come to its end. If the boot service has failed,
        it is run again, to prove that the next boot will not fail.
      - Without it, nothing is changed.
    type: bool
    default: false
  intent:
    description: The intent that the run planned with, to be told by later looks. Only with O(remember).
    type: dict
    default: {}
notes:
  - Needs root.
"""

EXAMPLES = r"""
- name: Look whether anything is to be done
  sovereign.epyc.epyc_last_run:
    inputs: "{{ [hugepages, lookup('sovereign.epyc.collection_digest')] | to_json | hash('sha256') }}"
  register: last_run

- name: End the play for a host that would not change
  ansible.builtin.meta: end_host
  when: last_run.holds

- name: Remember what was made
  sovereign.epyc.epyc_last_run:
    inputs: "{{ last_run.inputs }}"
    remember: true
"""

RETURN = r"""
holds:
  description: Whether the same run would change nothing.
  returned: success
  type: bool
reason:
  description: Why it might change something, empty where RV(holds).
  returned: success
  type: str
  sample: packages are not installed, or only a package manager can tell
inputs:
  description: The digest that was compared or remembered.
  returned: when the host was asked
  type: str
coverage:
  description: As of M(sovereign.epyc.epyc_drift_info), by layer. What only waits for a reboot counts as C(ok).
  returned: when a look holds
  type: dict
  sample: {resctrl: {ok: 42, unsupported: 0, unknown: 0, drift: 0}}
remarks:
  description: What the modules of the stored settings remark. Each is a warning, too.
  returned: when a look holds
  type: list
  elements: str
running:
  description: With RV(configured), RV(pending) and RV(reboot_required) as of M(sovereign.epyc.kernel_cmdline).
  returned: when a look holds
  type: dict
configured:
  description: See RV(running).
  returned: when a look holds
  type: dict
pending:
  description: See RV(running).
  returned: when a look holds
  type: list
  elements: str
reboot_required:
  description: See RV(running).
  returned: when a look holds
  type: bool
ansible_facts:
  description: The fact C(epyc) as of M(sovereign.epyc.epyc_plan), with the intent that was remembered.
  returned: when a look holds and an intent was remembered
  type: dict
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_writer
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import last_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store


def run(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
    """Remember or look, and return the module's result."""
    fs = KernelFS(read_only=True)
    inputs = params["inputs"]
    if params["remember"]:
        found = last_run.read_state(Host(fs), store, inputs)
        proven = not check and last_run.rerun_failed_boot_service()
        changed = last_run.save_last_run(store, found, params["intent"], check) or proven
        return dict(changed=changed, holds=True, reason="", inputs=inputs)
    try:
        told = last_run.check_last_run(fs, store, inputs, params["packages"]).to_dict()
    except TuningError as error:
        told = dict(holds=False, reason=str(error))
    return dict(changed=False, inputs=inputs, **told)


def main() -> None:
    spec = dict(
        layers=dict(type="list", elements="str"),
        inputs=dict(type="str"),
        packages=dict(type="list", elements="str", default=[]),
        remember=dict(type="bool", default=False),
        intent=dict(type="dict", default={}),
    )
    # The layers never come here: the action plugin of this name makes the inputs of them.
    run_writer(spec, run, required_one_of=[("layers", "inputs")], mutually_exclusive=[("layers", "inputs")])


if __name__ == "__main__":
    main()
