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
  - The playbook C(sovereign.epyc.site) stores at its end its inputs and the state of the host. In check mode
    it asks this module first, and leaves alone a host for which nothing would change.
  - That is so when the inputs are the same; the distribution, the kernel, its modules, the topology, the BIOS settings
    that the kernel shows, the packages, and the files and services of the collection are as they were; what is stored
    for the boot service is what was stored; and M(sovereign.epyc.epyc_drift) would find every setting in force.
  - Says nothing of llama.cpp, nor of a role with C(persistent=false). The playbook does not ask it about those hosts.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
options:
  inputs:
    description: A digest of all inputs of the run, the collection itself included.
    type: str
    required: true
  packages:
    description: Packages to look for, by their names in the distribution.
    type: list
    elements: str
    default: []
  remember:
    description:
      - Remember the host as it is, because a run with all layers has come to its end.
      - Without it, nothing is changed.
    type: bool
    default: false
notes:
  - Needs root.
seealso:
  - module: sovereign.epyc.epyc_drift
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
    inputs: "{{ [hugepages, lookup('sovereign.epyc.collection_digest')] | to_json | hash('sha256') }}"
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
  sample: packages were installed or removed since the last run
coverage:
  description: As of M(sovereign.epyc.epyc_drift), by layer.
  returned: when RV(holds) and nothing is to be remembered
  type: dict
  sample: {resctrl: {ok: 42, unsupported: 0, unknown: 0, drift: 0}}
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_writer
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
    inputs, packages = params["inputs"], params["packages"]
    if params["remember"]:
        found = last_run.state(Host(fs), store, inputs, packages)
        return dict(changed=last_run.remember(store, found, check), holds=True, reason="")
    reason, survey = last_run.look(fs, store, inputs, packages)
    told = dict(coverage=survey.coverage()) if survey is not None and not reason else {}
    return dict(changed=False, holds=not reason, reason=reason, **told)


def main() -> None:
    spec = dict(
        inputs=dict(type="str", required=True),
        packages=dict(type="list", elements="str", default=[]),
        remember=dict(type="bool", default=False),
    )
    run_writer(spec, run)


if __name__ == "__main__":
    main()
