# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: vllm_plan
short_description: Place instances of vLLM on the CPUs and NUMA nodes of a host
version_added: 0.1.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Gives each instance a process on each NUMA node on which it has CPUs, with a thread on the first CPU of each core,
    as the role P(sovereign.epyc.vllm#role) writes them into units of systemd.
  - Refuses, in one sentence, what cannot be served. CPUs that are not there, or that two instances have; attention
    heads that cannot be divided between the processes; more memory than a node has; a folder that is no model; an
    argument that this vLLM does not know, that an option says, or that breaks vLLM on CPUs.
positional: _input, epyc, map, probe, member
options:
  _input:
    description: The instances, as in the variable C(vllm_instances) of the role P(sovereign.epyc.vllm#role).
    type: list
    elements: dict
    required: true
  epyc:
    description: The facts of the host, C(ansible_facts.epyc) of M(sovereign.epyc.epyc_plan).
    type: dict
    required: true
  map:
    description: What M(sovereign.epyc.epyc_plan) returns as RV(sovereign.epyc.epyc_plan#module:map).
    type: dict
    required: true
  probe:
    description:
      - C(program) has the words that start vLLM, up to where the model follows; C(help) is the text in which it lists
        its arguments; C(wait) is a script for its C(python) that waits for the server, up to C(timeout) seconds;
        C(group) has the words that start vLLM on a host of a group; C(models) has for each folder of a model C(config),
        what its config.json says, and C(bytes), the size of its weights.
    type: dict
    required: true
  member:
    description:
      - The place of the host in the group of an instance with C(workers). The C(instance) by name, the C(rank) of the
        host among the C(addresses), the C(interface) with its address, and, unless it is the head, the C(port) that it
        waits for the head on. Without it, such instances are not planned, and only their room is kept.
    type: dict
"""

EXAMPLES = r"""
- name: Show where an instance would compute
  ansible.builtin.debug:
    msg: "{{ vllm_instances | sovereign.epyc.vllm_plan(ansible_facts.epyc, plan_result.map, probe) }}"
  vars:
    vllm_instances:
      - name: batch
        model: /srv/models/Qwen3-8B
        port: 8090
        cpus: node0
    probe:
      program: [/opt/vllm/bin/vllm, serve]
      help: "{{ vllm_help.stdout }}"
      python: /opt/vllm/bin/python
      wait: import time; time.sleep(60)
      group: [/opt/vllm/bin/vllm, serve]
      timeout: 1800
      models:
        /srv/models/Qwen3-8B:
          config:
            num_attention_heads: 32
          bytes: 16381516800
"""

RETURN = r"""
_value:
  description:
    - For each instance its C(unit), the command C(start) and the C(environment) in the notation of systemd, C(cpus)
      that it may use, C(busy_cpus) that compute, C(nodes) of its memory, the C(url) at which the host reaches it, empty
      where another host answers for it, C(clients) that the unit lets in, all where it names none, and C(remarks) for
      people.
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def vllm_plan(
    instances: Sequence[Mapping[str, Any]],
    epyc: Mapping[str, Any],
    map: Mapping[str, Any],
    probe: Mapping[str, Any],
    member: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return the plan of each instance; raises AnsibleFilterError, with a sentence, for what cannot be served."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils import _vllm

    try:
        return _vllm.plan(instances, epyc, map, probe, _vllm.Member(**member) if member else None)
    except BadRequest as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    """What Ansible looks for in this file."""

    def filters(self) -> dict[str, Any]:
        """Return the filter by its name."""
        return {"vllm_plan": vllm_plan}
