#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_server
short_description: Serve models with vLLM, a process on each NUMA node
version_added: 0.1.0
description:
  - Makes each instance a hardened unit of systemd, with a process on each NUMA node on which it has CPUs and a thread
    on each core. The memory of a process lies on its node.
  - Waits until each server serves. If one does not start, what ran before is put back.
  - Everything that can be refused is refused before a running instance is touched. vLLM itself says which arguments it
    has.
author: The sovereign.epyc authors (@sovereign-epyc)
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
        description: The virtual environment with vLLM. Without it, O(folder).
        type: path
      alias:
        description: The name by which clients ask for the model. Without it, that of the folder of the model.
        type: str
      host:
        description: The address to listen on.
        type: str
        default: 127.0.0.1
      cpus:
        description:
          - The CPUs to compute on, as names of roles in the plan, places or numbers, such as V(socket0), V(node0,node1)
            or V(8-15). Without it, all but the housekeeping.
          - It decides on the number of processes, one for each node, between which the layers are divided.
        type: str
      slots:
        description: How many requests are worked on at a time.
        type: int
        default: 32
      context:
        description: How many tokens a request has at most with its answer. Without it, what the model allows.
        type: int
      kv_cache:
        description: The KV cache of each process, as V(40GiB).
        type: str
        default: 4GiB
      dtype:
        description: The type of weights that are not quantized. V(auto) takes that of the model.
        type: str
        choices: [auto, bfloat16, float16, float32]
        default: auto
      compile:
        description: Whether vLLM compiles the model, which needs g++ on the host, and minutes at the first start.
        type: bool
        default: false
      api_key_file:
        description: A file with the key that clients have to send, in its first line. It is asked for below C(/v1).
        type: path
      user:
        description: The system user of the server. Without it, systemd makes one for the time that the server runs.
        type: str
      workers:
        description:
          - Other hosts between which the model is divided too, each as C(ADDRESS:PORT). On a host without O(member),
            only the room of such an instance is kept.
        type: list
        elements: str
        default: []
      clients:
        description:
          - With O(instances[].workers), the addresses and networks that may ask it, such as those of the gateways. Its
            unit lets in nobody else but the hosts of the group.
        type: list
        elements: str
        default: []
      group_port:
        description: With O(instances[].workers), the port on which its processes find each other.
        type: int
        default: 29501
      extra_arguments:
        description: More arguments. Those that this vLLM does not know, or that an option sets, are refused.
        type: list
        elements: str
        default: []
      extra_environment:
        description: More variables for its environment.
        type: dict
        default: {}
      unit_settings:
        description:
          - Settings of systemd for its unit, by their names there, with a text or a list of texts each. Those that the
            plan or an option sets are refused.
        type: dict
        default: {}
      start_timeout:
        description: How many seconds it may take to load its model, and to compile it. Without it, O(start_timeout).
        type: int
      drain_timeout:
        description: How many seconds requests in progress may take to end before the server is stopped.
        type: int
        default: 60
      stop_timeout:
        description: How many seconds the server may take to end after that.
        type: int
        default: 30
      restart_seconds:
        description: After how many seconds a server that failed is started again.
        type: int
        default: 5
      restart_limit:
        description: After how many starts that fail one after another systemd gives up.
        type: int
        default: 5
      restart_limit_seconds:
        description: Within how many seconds these starts are counted. Without it, as long as so many starts may take.
        type: int
      watchdog:
        description: After how many seconds without an answer the server is killed, and started again.
        type: int
  folder:
    description: The virtual environment with vLLM of all instances that name no other with O(instances[].folder).
    type: path
    default: /opt/vllm
  start_timeout:
    description: How many seconds an instance may take to start that says nothing else.
    type: int
    default: 1800
  purge:
    description: Whether other instances of this host alone that this module made are stopped and removed.
    type: bool
    default: false
  purge_groups:
    description: Whether parts of instances on several hosts that are not named are stopped and removed.
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
        description: The place of this host among O(member.addresses), 0 for the head.
        type: int
        required: true
      addresses:
        description: The addresses of all hosts of the group, that of the head first.
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
  - Runs in the background of the host, since a large model is read for minutes. The controller shows what is being
    started, and goes on when the connection was lost in between. C(async) and C(poll) of a task are heeded too.
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
    - What differed. The address of a file has its text as value.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
services:
  description: The plan of each instance by its name.
  returned: always
  type: dict
  contains:
    unit:
      description: The name of its unit.
      type: str
    cpus:
      description: The CPUs that it cannot leave.
      type: str
    busy_cpus:
      description: The CPUs that compute.
      type: str
    nodes:
      description: The nodes of its memory.
      type: str
    need:
      description: The memory that it needs, in bytes, C(weights), C(kv_cache) and the C(total).
      type: dict
    expect:
      description: Options of M(sovereign.epyc.service_placement_info) that prove all this of the running service.
      type: dict
    details:
      description:
        - Its C(alias), C(model), C(slots), C(context) and the number of its C(hosts); and in C(build) what has to be
          the same on all of them.
      type: dict
remarks:
  description: What you should know although nothing failed.
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


def build(params: Mapping[str, Any], host: Host, ledger: Ledger) -> list[Knob]:
    """Return the knobs of all instances."""
    defaults = {key: params[key] for key in ("folder", "start_timeout")}
    asked = [{**one, **{key: one[key] or defaults[key] for key in defaults}} for one in params["instances"]]
    engine = VllmEngine(Member(**params["member"]) if params["member"] else None)
    return instances.build_knobs(engine, host, asked, instances.Purge(params["purge"], params["purge_groups"]))


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
    run_converging_module(spec, build)


if __name__ == "__main__":
    main()
