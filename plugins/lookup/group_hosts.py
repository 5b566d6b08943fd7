# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: group_hosts
short_description: The hosts of a group that the collection reads
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Returns the names of the hosts of a group, in the order of the inventory. A group that the inventory does not have
    has no hosts.
  - A variable can name another group in its place. It is C(epyc_hosts) for the group C(epyc_servers),
    C(epyc_gateway_group_name) for C(epyc_gateway), C(epyc_monitoring_group_name) for C(epyc_monitoring), and
    C(epyc_llama_group_name) for C(epyc_llama_group).
options:
  _terms:
    description: One name of a group.
    required: true
seealso:
  - plugin: sovereign.epyc.require_hosts
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Show the gateways
  ansible.builtin.debug:
    msg: "{{ query('sovereign.epyc.group_hosts', 'epyc_gateway') }}"
"""

RETURN = r"""
_raw:
  description: The names of the hosts.
  type: list
  elements: str
"""

from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_names import groups as inventory_groups


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible-core has no annotations
    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[str]:
        """Return the names of the hosts. Raises AnsibleError for anything but one name of a group."""
        if len(terms) != 1 or not isinstance(terms[0], str) or kwargs:
            raise AnsibleError("group_hosts takes one name of a group, and no options.")
        groups = variables["groups"]
        pattern = inventory_groups.choose_group_pattern(terms[0], variables, self._templar.template)
        # Ansible would warn that the pattern of a missing group matches nothing.
        if pattern == terms[0]:
            return list(groups.get(pattern, []))
        return inventory_groups.list_hosts_of_pattern(pattern, groups)
