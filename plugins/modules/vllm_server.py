#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_server
short_description: Serve models with vLLM, a process on each NUMA node
version_added: 1.0.0
description:
  - Makes each instance a hardened unit of systemd. An instance has a process on each NUMA node of its CPUs, with a
    thread on each core, and the memory of a process is on its node.
  - Waits until each server serves. If a server does not start, the previous unit is restored and started.
  - An impossible request is refused before a running instance is changed. The valid arguments are read from vLLM
    itself.
author: The sovereign.epyc authors (@sovereign-epyc)
requirements:
  - systemd
  - vLLM
extends_documentation_fragment:
  - sovereign.epyc.attributes
  - sovereign.epyc.knob.intent
options:
  instances:
    description: The instances of the host.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: The name of the instance; its unit is C(vllm-NAME.service).
        type: str
        required: true
      model:
        description: A folder on the host with config.json, the tokenizer and the weights as safetensors.
        type: path
        required: true
      port:
        description: The port to listen on.
        type: int
        required: true
      folder:
        description: The virtual environment with vLLM. The default is O(folder).
        type: path
      alias:
        description: The name of the model for clients. The default is the name of the model's folder.
        type: str
      host:
        description: The address to listen on.
        type: str
        default: 127.0.0.1
      cpus:
        description:
          - The CPUs that compute, as roles of the plan, places or numbers, such as V(socket0), V(node0,node1) or
            V(8-15). The default is all CPUs except for the housekeeping CPUs.
          - Each node of these CPUs gets a process, and the layers of the model are divided between the processes.
        type: str
      slots:
        description: The number of requests that the server works on at the same time.
        type: int
        default: 32
      context:
        description: The most tokens of a request with its answer. The default is the limit of the model.
        type: int
      kv_cache:
        description: The size of the KV cache of each process, as V(40GiB).
        type: str
        default: 4GiB
      dtype:
        description: The type of weights that are not quantized. V(auto) uses the type in the model.
        type: str
        choices: [auto, bfloat16, float16, float32]
        default: auto
      compile:
        description: Whether vLLM compiles the model, which needs g++ on the host, and minutes at the first start.
        type: bool
        default: false
      api_key_file:
        description: A file with an API key in its first line. Clients must send this key to paths below C(/v1).
        type: path
      user:
        description: The system user of the server. By default, systemd makes a dynamic user.
        type: str
      workers:
        description: Other hosts that compute a part of the model, each as C(ADDRESS:PORT). A host without O(member)
          runs no part of such an instance, but memory and CPUs for the instance stay free.
        type: list
        elements: str
        default: []
      clients:
        description: The addresses and networks of clients, such as the gateways. The unit then exchanges packets with
          these clients, with the hosts of the group and with this host only. O(instances[].workers) need it.
        type: list
        elements: str
        default: []
      group_port:
        description: With O(instances[].workers), the port through which the processes of all hosts find each other.
        type: int
        default: 29501
      extra_arguments:
        description: Further arguments. Arguments that this vLLM does not know, or that an option sets, are refused.
        type: list
        elements: str
        default: []
      extra_environment:
        description: Further environment variables of the server.
        type: dict
        default: {}
      unit_settings:
        description: Further settings of systemd for the unit, each with a text or a list of texts. Settings that the
          plan or an option sets are refused.
        type: dict
        default: {}
      start_timeout:
        description: The seconds in which the server must load and compile its model. The default is O(start_timeout).
        type: int
      drain_timeout:
        description: The seconds in which requests in progress may end before the server is stopped.
        type: int
        default: 60
      stop_timeout:
        description: The seconds that the server may take to stop after the requests have ended.
        type: int
        default: 30
      restart_seconds:
        description: The seconds after which systemd starts a failed server again.
        type: int
        default: 5
      restart_limit:
        description: The number of starts within O(instances[].restart_limit_seconds) after which systemd gives up.
        type: int
        default: 16
      restart_limit_seconds:
        description: The period for O(instances[].restart_limit) in seconds. The default is enough for these starts.
        type: int
      watchdog:
        description: The seconds without an answer after which the server is killed, so that systemd starts it again.
        type: int
      update_order:
        description:
          - The order of steps when a change needs a restart, as of M(sovereign.epyc.llama_server). V(start_first) needs
            the memory of two servers, and the program C(nft) for a change that clients do not notice.
          - An instance with O(instances[].workers) is always stopped first.
        type: str
        choices: [start_first, stop_first]
        default: start_first
  folder:
    description: The virtual environment with vLLM of all instances without O(instances[].folder).
    type: path
    default: /opt/vllm
  start_timeout:
    description: The seconds for the start of instances without O(instances[].start_timeout).
    type: int
    default: 1800
  purge:
    description: Whether other instances that this module made, and that run on this host only, are removed.
    type: bool
    default: false
  purge_groups:
    description: Whether this host's parts of other instances that run on several hosts are removed.
    type: bool
    default: false
  member:
    description: The place of this host in the group of an instance with O(instances[].workers).
    type: dict
    suboptions:
      instance:
        description: The name of the instance.
        type: str
        required: true
      rank:
        description: The position of this host in O(member.addresses), 0 for the head.
        type: int
        required: true
      addresses:
        description: The addresses of all hosts of the group; the first is the head.
        type: list
        elements: str
        required: true
      interface:
        description: The network interface that has the address of this host.
        type: str
        required: true
      port:
        description: The port at which a worker waits for the head. The head has none.
        type: int
notes:
  - Needs root, a host that was booted with systemd, and the host tool (M(sovereign.epyc.epyc_host_tool)), whose command
    waits for the server and drains it.
  - The module runs in the background of the host, because a large model takes minutes to load. The controller shows
    the starting units, and continues after a lost connection. C(async) and C(poll) of a task work too.
seealso:
  - module: sovereign.epyc.llama_server
  - module: sovereign.epyc.service_placement_info
"""

EXAMPLES = r"""
- name: Serve a model on one socket, 64 requests at a time
  sovereign.epyc.vllm_server:
    folder: /opt/vllm
    purge: true
    instances:
      - name: batch
        model: /srv/models/Qwen3-8B
        port: 8090
        cpus: socket1
        slots: 64
        kv_cache: 40GiB
    intent: "{{ epyc.intent }}"
"""

RETURN = r"""
diff:
  description:
    - The differences. The value of a file's address is its text.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
services:
  description: The plan of each instance by its name.
  returned: always
  type: dict
  contains:
    unit:
      description: The name of the unit.
      type: str
    cpus:
      description: The CPUs to which the unit is limited.
      type: str
    busy_cpus:
      description: The CPUs that compute.
      type: str
    nodes:
      description: The NUMA nodes of the memory.
      type: str
    need:
      description: The needed memory in bytes, as C(weights), C(kv_cache) and C(total).
      type: dict
    expect:
      description: Options of M(sovereign.epyc.service_placement_info) that prove this placement of the running service.
      type: dict
    details:
      description: The C(alias), C(model), C(slots), C(context) and number of C(hosts) of the instance. C(build) has the
        facts that must be equal on all hosts of the instance.
      type: dict
restarts:
  description: The restarts of running instances that the changes need.
  returned: always
  type: list
  elements: dict
  contains:
    unit:
      description: The name of the unit.
      type: str
    order:
      description: V(start_first) or V(stop_first).
      type: str
    announced_seconds:
      description: The estimated seconds in which nobody is served; 0 where nobody notices the restart.
      type: float
    outage_seconds:
      description: The measured seconds in which nobody was served; none in check mode, and where the address of the
        instance changed.
      type: float
    message:
      description: The same as a sentence, which is one of the remarks.
      type: str
remarks:
  description: Messages on facts that are no errors, but that an operator should know.
  returned: always
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._knob_module import run_converging_module
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import instances
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.vllm.engine import VllmEngine
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.vllm.options import VllmOptions
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.vllm.plan import Member

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
    from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Knob
    from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger

MEMBER = {
    "instance": dict(type="str", required=True),
    "rank": dict(type="int", required=True),
    "addresses": dict(type="list", elements="str", required=True),
    "interface": dict(type="str", required=True),
    "port": dict(type="int"),
}


def build_instance_knobs(params: Mapping[str, Any], host: Host, ledger: Ledger) -> list[Knob]:
    """Return the knobs of all requested instances, and of instances to remove."""
    defaults = {key: params[key] for key in ("folder", "start_timeout")}
    requests = [{**row, **{key: row[key] or defaults[key] for key in defaults}} for row in params["instances"]]
    engine = VllmEngine(Member(**params["member"]) if params["member"] else None)
    return instances.build_knobs(engine, host, requests, instances.Purge(params["purge"], params["purge_groups"]))


def main() -> None:
    spec = {
        "instances": dict(type="list", elements="dict", required=True, options=VllmOptions.argument_spec()),
        "folder": dict(type="path", default="/opt/vllm"),
        "start_timeout": dict(type="int", default=1800),
        "purge": dict(type="bool", default=False),
        "purge_groups": dict(type="bool", default=False),
        "member": dict(type="dict", options=MEMBER),
        "intent": dict(type="dict"),
    }
    run_converging_module(spec, build_instance_knobs)


if __name__ == "__main__":
    main()
