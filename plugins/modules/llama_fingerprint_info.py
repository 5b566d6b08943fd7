#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_fingerprint_info
short_description: Compare a host and its instance of llama-server with the host of a measured result
version_added: 1.0.0
description:
  - A result of M(sovereign.epyc.llama_tune) is valid for one kernel, microcode, BIOS, engine and build of the server,
    model, SKU, memory and number of NUMA nodes per socket. This module returns which of these have changed since.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes.reader
options:
  instance:
    description: The name of the instance, which must run.
    type: str
    required: true
  expect:
    description: The facts during the measurement, as C(measured_on) in the result of M(sovereign.epyc.llama_tune). A
      fact that is null is not compared.
    type: dict
    required: true
seealso:
  - module: sovereign.epyc.llama_tune
"""

EXAMPLES = r"""
- name: Compare a tuned instance with the state of the host in which it was measured
  sovereign.epyc.llama_fingerprint_info:
    instance: chat
    expect: {kernel: 6.12.48+deb13-amd64, engine_build: b11434}
  register: known

- name: Show what has changed
  ansible.builtin.debug:
    var: known.differences
"""

RETURN = r"""
found:
  description: The present facts, with the keys of O(expect); null for an unknown fact.
  returned: always
  type: dict
  sample: {"kernel": "6.12.57+deb13-amd64", "engine_build": "b11434"}
differences:
  description: A sentence for each fact that has changed.
  returned: always
  type: list
  elements: str
  sample: ["The kernel of chat is 6.12.57 and was 6.12.48 when it was tuned; run tune.yml again."]
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_read_only_module
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.target import fingerprint, measured_instance
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import load_stored_requests
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_lines_in_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS

#: Names of facts for people; a fact without a row is shown by its key.
TITLES = {
    "sku": "SKU",
    "dimms": "memory",
    "nps": "number of NUMA nodes per socket",
    "bios": "BIOS",
    "engine_build": "build of the server",
    "model_sha256": "SHA-256 of the model",
}
#: The number of characters of a checksum that people are shown.
SHOWN = 12


def compare_fingerprint(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Return the present facts of host and instance, and a sentence for each fact that is not as expected."""
    host = Host(fs, load_stored_requests(Store(read_only=True))[0], stored=True)
    known = fingerprint.read_fingerprint(host, measured_instance.find_llama_instance(host, params["instance"]), ())
    # The expected facts come from the result of an earlier run, in which all texts are escaped.
    present = escape_lines_in_data({key: known.get(key) for key in params["expect"]})
    return {
        "found": present,
        "differences": [
            f"The {TITLES.get(key, key)} of {params['instance']} is {format_fact(key, present[key])} and was "
            f"{format_fact(key, before)} when it was tuned; run tune.yml again."
            for key, before in params["expect"].items()
            if before is not None and str(before) != str(present[key])
        ],
    }


def format_fact(key: str, value: object) -> str:
    """Return a fact of a fingerprint as text for people; a checksum is shortened."""
    if value is None:
        return "not known"
    return str(value)[:SHOWN] if key.endswith("_sha256") else str(value)


def main() -> None:
    run_read_only_module(
        dict(instance=dict(type="str", required=True), expect=dict(type="dict", required=True)), compare_fingerprint
    )


if __name__ == "__main__":
    main()
