#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_prerequisites
short_description: Check that a host can be tuned, and load the kernel modules that tuning needs
version_added: 0.1.0
description:
  - Refuses a distribution or kernel that the collection is not made for, before anything is changed.
  - Returns which packages are missing. It asks the package database, which writes no cache, and installs none itself.
  - Loads kernel modules now, and names them in C(/etc/modules-load.d/sovereign-epyc.conf) for every boot. Loading one
    changes no setting.
  - While a package is missing it changes nothing, because kernel modules and C(modprobe) come with packages. Install
    those that it returns and run it again.
  - All or nothing. When a kernel module cannot be loaded, those that this run had loaded are unloaded again.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
options:
  distributions:
    description:
      - The oldest supported release of each distribution, in quotes, by the name that Ansible has for it.
      - Empty accepts all of them.
    type: dict
    default: {}
  kernel:
    description: The oldest supported kernel, in quotes. Empty accepts all of them.
    type: str
    default: ""
  allow_unsupported:
    description: Go on with another distribution or an older kernel.
    type: bool
    default: false
  packages:
    description: Packages that must be installed, by their names in the distribution.
    type: list
    elements: str
    default: []
  modules:
    description:
      - Kernel modules to load, now and at every boot. One that is built into the kernel counts as loaded.
      - Without this option, what is loaded and the file are left alone. An empty list leaves no name in the file.
    type: list
    elements: str
notes:
  - Needs root.
"""

EXAMPLES = r"""
- name: Refuse what is not supported, and load kernel modules
  sovereign.epyc.epyc_prerequisites:
    distributions: {Debian: "12", Ubuntu: "24.04"}
    kernel: "6.1"
    packages: [kmod, numactl]
    modules: [cpuid, msr]
  register: prerequisites

- name: Install what is missing
  ansible.builtin.package:
    name: "{{ prerequisites.missing }}"
  when: prerequisites.missing | length > 0

- name: Load kernel modules once their packages are there
  sovereign.epyc.epyc_prerequisites:
    modules: [cpuid, msr]
  when: prerequisites.missing | length > 0
"""

RETURN = r"""
distribution:
  description: The distribution, by the name that Ansible has for it.
  returned: success
  type: str
  sample: Debian
distribution_version:
  description: Its version, empty where it has none.
  returned: success
  type: str
  sample: "12.11"
kernel:
  description: The running kernel.
  returned: success
  type: str
  sample: 6.1.0-37-amd64
missing:
  description: Those of O(packages) that are not installed.
  returned: success
  type: list
  elements: str
  sample: [numactl]
diff:
  description:
    - What differed, by address. The value of a kernel module is V(loaded), or null where it is not. The value of the
      file is a digest, with its mode and owner where those are not as configured.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "kernel module msr: nothing -> loaded\n"
    changes:
      before: {"prerequisites:module/msr": null}
      after: {"prerequisites:module/msr": "loaded"}
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_converging_module
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.prerequisites import Prerequisites


def main() -> None:
    run_converging_module(
        dict(
            distributions=dict(type="dict", default={}),
            kernel=dict(type="str", default=""),
            allow_unsupported=dict(type="bool", default=False),
            packages=dict(type="list", elements="str", default=[]),
            modules=dict(type="list", elements="str"),
        ),
        lambda params, host, ledger: [Prerequisites(host.fs, params)],
    )


if __name__ == "__main__":
    main()
