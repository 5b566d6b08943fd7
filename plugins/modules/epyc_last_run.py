#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_last_run
short_description: Check whether the state that the last run of site.yml left on a host still holds
version_added: 1.0.0
description:
  - The playbook C(sovereign.epyc.site) saves its inputs and the state of the host at its end. At its start it runs this
    module, and skips a host that it would not change, with and without check mode.
  - A host is skipped if the inputs, the distribution, the kernel, the topology, the BIOS settings that the kernel
    shows, the files of the collection and the stored requests are unchanged; if packages are installed, kernel modules
    loaded and services running; and if M(sovereign.epyc.epyc_drift_info) would find every setting in force.
  - Boot parameters may wait for a reboot (RV(reboot_required)) while the kernel has the same boot parameters as at the
    last run.
  - Where the check is impossible, RV(reason) says why, and the module does not fail.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
attributes:
  diff_mode:
    support: none
    details: Only the saved state of the last run differs on the host.
options:
  layers:
    description:
      - The layers of a run of C(sovereign.epyc.site). The controller computes O(inputs) and O(packages) from the
        variables of these layers and of the plan, before any layer has run.
      - The controller skips the check on the host with tags, C(--start-at-task) or C(--step), with
        C(epyc_llama_instances), with a layer that is not stored (such as C(epyc_cat_persistent=false)), or with a
        variable that has no value yet.
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
      - Whether to save the state of the host, because a run with all layers has ended. A boot service that has failed
        is run again, to prove that the next boot will not fail.
      - Without this option, nothing is changed.
    type: bool
    default: false
  intent:
    description: The intent of the plan of the run, which later checks return. Only with O(remember).
    type: dict
    default: {}
notes:
  - Needs root.
"""

EXAMPLES = r"""
- name: Check whether a run would change the host
  sovereign.epyc.epyc_last_run:
    inputs: "{{ [hugepages, lookup('sovereign.epyc.collection_digest')] | to_json | hash('sha256') }}"
  register: last_run

- name: End the play for a host that would not change
  ansible.builtin.meta: end_host
  when: last_run.holds

- name: Save the state of the host after the run
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
  description: Why the same run may change the host, empty where RV(holds).
  returned: success
  type: str
  sample: packages are not installed, or only a package manager can tell
inputs:
  description: The digest that was compared or saved.
  returned: when the check ran on the host
  type: str
coverage:
  description: >-
    As RV(sovereign.epyc.epyc_drift_info#module:coverage). A setting that only waits for a reboot counts as C(ok).
  returned: when RV(holds) in a check
  type: dict
  sample: {resctrl: {ok: 42, unsupported: 0, unknown: 0, drift: 0}}
remarks:
  description: The remarks of the modules of stored settings. Each is a warning, too.
  returned: when RV(holds) in a check
  type: list
  elements: str
running:
  description: As in M(sovereign.epyc.kernel_cmdline), like RV(configured), RV(pending) and RV(reboot_required).
  returned: when RV(holds) in a check
  type: dict
configured:
  description: See RV(running).
  returned: when RV(holds) in a check
  type: dict
pending:
  description: See RV(running).
  returned: when RV(holds) in a check
  type: list
  elements: str
reboot_required:
  description: See RV(running).
  returned: when RV(holds) in a check
  type: bool
ansible_facts:
  description: The fact C(epyc) as in M(sovereign.epyc.epyc_plan), made from the saved intent.
  returned: when RV(holds) in a check, and an intent was saved
  type: dict
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_changing_module
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import last_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store


def check_or_save_last_run(params: Mapping[str, Any], store: Store, check: bool) -> dict[str, Any]:
    """Compare the host with its state after the last run, or save its state; return the module's result."""
    fs = KernelFS(read_only=True)
    inputs = params["inputs"]
    if params["remember"]:
        state = last_run.read_host_state_to_save(Host(fs), store, inputs)
        restarted = not check and last_run.rerun_failed_boot_service()
        changed = last_run.save_state_and_intent_of_run(store, state, params["intent"], check) or restarted
        return dict(changed=changed, holds=True, reason="", inputs=inputs)
    try:
        result = last_run.check_whether_site_play_may_be_skipped(fs, store, inputs, params["packages"]).to_dict()
    except TuningError as error:
        result = dict(holds=False, reason=str(error))
    return dict(changed=False, inputs=inputs, **result)


def main() -> None:
    spec = dict(
        layers=dict(type="list", elements="str"),
        inputs=dict(type="str"),
        packages=dict(type="list", elements="str", default=[]),
        remember=dict(type="bool", default=False),
        intent=dict(type="dict", default={}),
    )
    # The action plugin of this name replaces the option layers by inputs and packages.
    run_changing_module(
        spec, check_or_save_last_run, required_one_of=[("layers", "inputs")], mutually_exclusive=[("layers", "inputs")]
    )


if __name__ == "__main__":
    main()
