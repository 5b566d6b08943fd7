# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: group_plan
short_description: Head and workers of a group of hosts that serves one model, from the variables of the hosts
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Finds the head of a group, which has an instance with C(rpc_workers) in C(epyc_llama_instances) or with C(workers)
    in C(epyc_vllm_instances), and its workers, whose C(epyc_group_address) the instance names. The role
    P(sovereign.epyc.epyc_group#role) uses this plan.
  - Refuses an invalid group, with an address that no host has or that is in no private network, a host in two groups or
    in none, an instance with a draft, or a member that this run leaves out.
positional: _input, played, programs
options:
  _input:
    description: The variables of each host of the Ansible group C(epyc_llama_group), as in C(hostvars).
    type: list
    elements: dict
    required: true
  played:
    description: The hosts of this run, as C(ansible_play_hosts_all).
    type: list
    elements: str
    required: true
  programs:
    description:
      - Names of files that each member must have. If this option is set, even to an empty list, all members must have
        the same C(__epyc_group_build), a dictionary such as of checksums by file name.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Show the head and the workers of each group
  ansible.builtin.debug:
    msg: >-
      {{ groups['epyc_llama_group'] | map('extract', hostvars)
         | sovereign.epyc.group_plan(ansible_play_hosts_all) }}
"""

RETURN = r"""
_value:
  description:
    - A dictionary for each host, by its name. C(role) is V(head) or V(worker), C(engine) is V(llama_rpc) or V(vllm).
      C(members) and C(addresses) are those of the group, and C(rank) is the place of the host among them. C(instance)
      is the instance of the group, and C(unit) its unit. C(address) is the address of the host. A worker also has
      C(port), and C(clients) are the addresses that may use it.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import refusals_as_filter_errors

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


def group_plan(
    hosts: Sequence[Mapping[str, Any]], played: Collection[str], programs: Sequence[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the plan of each member of a group. Raises AnsibleFilterError for an invalid group."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils import _group_plan

    with refusals_as_filter_errors():
        return _group_plan.plan_members_of_groups(hosts, played, programs)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"group_plan": group_plan}
