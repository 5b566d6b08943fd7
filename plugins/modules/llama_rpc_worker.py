#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_rpc_worker
short_description: Run a ggml-rpc-server that computes layers of a model on another host
version_added: 1.0.0
description:
  - Writes, enables and starts the unit C(ggml-rpc-worker.service) on CPUs and NUMA nodes of the plan, with a thread for
    each core. A host has at most one such worker.
  - A worker has no authentication, and computes whatever a connected client sends. So it listens on an address of a
    private network only, and the kernel admits connections from O(clients) only.
  - The worker stores received weights in C(/var/lib/ggml-rpc-worker), so that weights cross the network only once.
  - Experimental. Workers make room for a model that is too large for one host, but no speed. The role
    P(sovereign.epyc.epyc_group#role) runs workers and server, and compares the programs on all hosts.
author: The sovereign.epyc authors (@sovereign-epyc)
requirements:
  - ggml-rpc-server of llama.cpp
  - systemd
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob.intent
options:
  state:
    description: Whether the host has a worker. V(absent) stops and removes the worker and its stored weights.
    type: str
    choices: [present, absent]
    default: present
  binary:
    description: The C(ggml-rpc-server) to run, of the same build as the server. Required for a worker.
    type: path
  address:
    description: The address to listen on, of a private network. Required for a worker.
    type: str
  port:
    description: The port to listen on.
    type: int
    default: 50052
  clients:
    description: The addresses that may connect, usually the address of the host whose server uses this worker.
    type: list
    elements: str
    default: []
  cpus:
    description: The CPUs that compute, see O(sovereign.epyc.llama_server#module:instances[].cpus).
    type: str
  threads:
    description: The number of threads that compute. The default is one for each core.
    type: int
  nodes:
    description: The NUMA nodes for memory, as V(0) or V(0-3). The default is the nodes of O(cpus).
    type: str
  l3_group:
    description: The resctrl group whose limits must hold for the threads. The group is not created.
    type: str
notes:
  - Needs root, and a host that was booted with systemd.
seealso:
  - module: sovereign.epyc.llama_server
"""

EXAMPLES = r"""
- name: Hold layers of the model that 10.20.0.1 serves
  sovereign.epyc.llama_rpc_worker:
    binary: /opt/llama.cpp/bin/ggml-rpc-server
    address: 10.20.0.2
    clients: [10.20.0.1]
    intent: "{{ epyc.intent }}"
"""

RETURN = r"""
diff:
  description:
    - The differences. The value of a file's address is its text.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
worker:
  description: The plan of the worker.
  returned: O(state=present)
  type: dict
  contains:
    unit:
      description: The name of the unit.
      type: str
    threads:
      description: The number of threads that compute.
      type: int
    cpus:
      description: The CPUs to which the unit is limited.
      type: str
    nodes:
      description: The NUMA nodes of the memory.
      type: str
    expect:
      description: Options of M(sovereign.epyc.service_placement_info) that prove this placement of the running worker.
      type: dict
remarks:
  description: Messages on facts that are no errors, but that an operator should know.
  returned: always
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_converging_module
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import rpc_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
    from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Knob
    from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger


def build_worker_knobs(params: Mapping[str, Any], host: Host, ledger: Ledger) -> list[Knob]:
    """Return the knobs that install or remove the RPC worker of the host."""
    return rpc_worker.worker_knobs(host, params)


def main() -> None:
    spec = {
        "state": dict(type="str", choices=["present", "absent"], default="present"),
        "binary": dict(type="path"),
        "address": dict(type="str"),
        "port": dict(type="int", default=50052),
        "clients": dict(type="list", elements="str", default=[]),
        "cpus": dict(type="str"),
        "threads": dict(type="int"),
        "nodes": dict(type="str"),
        "l3_group": dict(type="str"),
        "intent": dict(type="dict"),
    }
    run_converging_module(spec, build_worker_knobs)


if __name__ == "__main__":
    main()
