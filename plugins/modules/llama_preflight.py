#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_preflight
short_description: Look, before anything is changed, whether a host can have llama.cpp and its models
version_added: 0.1.0
description:
  - Returns a sentence for each thing that the role P(sovereign.epyc.llama#role) could not have on this host, so that a
    play can refuse all of them at once before its first change.
  - Packages that are neither installed nor in the package lists of the host; where no list was ever fetched, and on
    other distributions than Debian and Ubuntu, nothing is said of packages.
  - An archive of sources that is not named, or not on the host.
  - Models whose file is missing and cannot be fetched, because there is no URL, no checksum, too little space, or
    another file on the server. The server is asked once for each missing file (C(HEAD)), from the host, and for
    no file that is there.
  - Writes nothing, with check mode and without.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes.reader
options:
  install:
    description: Where llama.cpp comes from.
    type: str
    choices: [binary, package, source]
    default: binary
  packages:
    description: Packages that will be installed if they are missing.
    type: list
    elements: str
    default: []
  archive:
    description: The archive of sources, for O(install=source), see O(sovereign.epyc.llama_build#module:archive).
    type: str
  checksum:
    description: The checksum of that archive.
    type: str
  models:
    description: The models that will be fetched or proven, each as the filter P(sovereign.epyc.model_files#filter)
      returns it, with C(path), C(url), C(checksum) and C(size) of M(sovereign.epyc.model_file), and C(hub).
    type: list
    elements: dict
    default: []
  hub_needs_token:
    description: Whether a token is sent to the hub. Models with C(hub) are not asked for then, because no token is sent.
    type: bool
    default: false
seealso:
  - module: sovereign.epyc.model_file
  - module: sovereign.epyc.llama_build
"""

EXAMPLES = r"""
- name: Look whether llama.cpp and its model can be had
  sovereign.epyc.llama_preflight:
    install: package
    packages: [llama.cpp]
    models:
      - path: /srv/models/model-Q4_K_M.gguf
        url: https://models.example.com/model-Q4_K_M.gguf
  register: found

- name: Refuse before the first change
  ansible.builtin.assert:
    that: not found.refusals
    fail_msg: "{{ found.refusals | join(' ') }}"
"""

RETURN = r"""
refusals:
  description: A sentence for each thing that cannot be had.
  returned: success
  type: list
  elements: str
  sample:
    - There is no package llama.cpp in the package sources of Debian 12.11. Set llama_install to source or binary, or
      llama_package to the package that has the server.
"""

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_reader
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.llama_preflight import find_refusals

if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS

SPEC = dict(
    install=dict(type="str", choices=["binary", "package", "source"], default="binary"),
    packages=dict(type="list", elements="str", default=[]),
    archive=dict(type="str"),
    checksum=dict(type="str"),
    models=dict(type="list", elements="dict", default=[]),
    hub_needs_token=dict(type="bool", default=False, no_log=False),
)


def look(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Return what stands against llama.cpp and its models on this host."""
    return {"refusals": find_refusals(params, fs, Store(read_only=True))}


def main() -> None:
    run_reader(SPEC, look)


if __name__ == "__main__":
    main()
