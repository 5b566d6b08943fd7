# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: group_plan
short_description: Head and workers of a group of hosts that serves one model, from the variables of the hosts
version_added: 0.1.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Finds the host whose C(epyc_llama_instances) has an instance with C(rpc_workers), or whose C(epyc_vllm_instances)
    has one with C(workers), and the hosts whose C(epyc_group_address) are named there, as the role
    P(sovereign.epyc.epyc_group#role) needs them.
  - Refuses, in one sentence, what cannot be a group. An address that is not of a private network, or that no host has;
    a host in two groups or in none; an instance with a draft; a run that leaves a member out.
positional: _input, played, programs
options:
  _input:
    description: The variables of each host of the Ansible group C(epyc_llama_group), as in C(hostvars).
    type: list
    elements: dict
    required: true
  played:
    description: The hosts that this run comes to, as C(ansible_play_hosts_all).
    type: list
    elements: str
    required: true
  programs:
    description:
      - Names of files that each member must have. With it, also where it is empty, the variable C(__epyc_group_build)
        of each host, a dictionary of names and what they are, must be the same in a group.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Show who works for whom
  ansible.builtin.debug:
    msg: >-
      {{ groups['epyc_llama_group'] | map('extract', hostvars)
         | sovereign.epyc.group_plan(ansible_play_hosts_all) }}
"""

RETURN = r"""
_value:
  description:
    - By the name of each host its C(role), V(head) or V(worker), the C(engine), V(llama_rpc) or V(vllm), the C(members)
      of its group and their C(addresses), its C(rank) among them, the C(instance) as the head names it, its C(unit),
      its own C(address), the C(clients) of a worker, and for a worker C(port).
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


def group_plan(
    hosts: Sequence[Mapping[str, Any]], played: Collection[str], programs: Sequence[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the plan; raises AnsibleFilterError, with a sentence, for what cannot be a group."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils import _group_plan

    try:
        return _group_plan.plan_groups(hosts, played, programs)
    except BadRequest as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"group_plan": group_plan}
