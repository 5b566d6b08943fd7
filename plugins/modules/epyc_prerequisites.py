#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_prerequisites
short_description: Check that a host can be tuned, and load the kernel modules that tuning needs
version_added: 1.0.0
description:
  - Refuses a distribution or kernel that the collection does not support, before any change.
  - Returns missing packages, without installing them. Reading the package database writes no cache.
  - Loads kernel modules, and writes their names to C(/etc/modules-load.d/sovereign-epyc.conf) for every boot. Loading a
    kernel module changes no setting.
  - If a package is missing, the module changes nothing, because kernel modules and C(modprobe) come with packages.
    Install the missing packages and run it again.
  - If a kernel module cannot be loaded, the kernel modules that this run has loaded are unloaded again.
author: The sovereign.epyc authors (@sovereign-epyc)
requirements:
  - dpkg-query or rpm
  - modprobe
extends_documentation_fragment: sovereign.epyc.attributes
options:
  distributions:
    description:
      - The oldest supported release of each distribution, in quotes, by Ansible's name of the distribution.
      - An empty dictionary accepts all distributions.
    type: dict
    default: {}
  kernel:
    description: The oldest supported kernel, in quotes. An empty text accepts all kernels.
    type: str
    default: ""
  allow_unsupported:
    description: Whether to continue with another distribution or an older kernel.
    type: bool
    default: false
  packages:
    description: Packages that must be installed, by their names in the distribution.
    type: list
    elements: str
    default: []
  modules:
    description:
      - Kernel modules to load, now and at every boot. A kernel module that is built in counts as loaded.
      - Without this option, neither kernel modules nor the file change. An empty list removes all names of the file.
    type: list
    elements: str
notes:
  - Needs root.
"""

EXAMPLES = r"""
- name: Refuse unsupported hosts, and load kernel modules
  sovereign.epyc.epyc_prerequisites:
    distributions: {Debian: "12", Ubuntu: "24.04"}
    kernel: "6.1"
    packages: [kmod, numactl]
    modules: [cpuid, msr]
  register: prerequisites

- name: Install missing packages
  ansible.builtin.package:
    name: "{{ prerequisites.missing }}"
  when: prerequisites.missing | length > 0

- name: Load kernel modules after the installation of their packages
  sovereign.epyc.epyc_prerequisites:
    modules: [cpuid, msr]
  when: prerequisites.missing | length > 0
"""

RETURN = r"""
distribution:
  description: Ansible's name of the distribution.
  returned: success
  type: str
  sample: Debian
distribution_version:
  description: The version of the distribution, empty for a distribution without versions.
  returned: success
  type: str
  sample: "12.11"
kernel:
  description: The running kernel.
  returned: success
  type: str
  sample: 6.1.0-37-amd64
missing:
  description: The packages of O(packages) that are not installed.
  returned: success
  type: list
  elements: str
  sample: [numactl]
diff:
  description:
    - The settings that differed, by address. The value of a kernel module is V(loaded) or null. The value of the file
      is a digest, followed by mode and owner if these differ from the wanted ones.
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
