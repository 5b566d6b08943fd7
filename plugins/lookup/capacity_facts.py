# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: capacity_facts
short_description: The kept facts of hosts, and what their inventory asks for
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Reads the facts that C(sovereign.epyc.capacity) keeps of each host in a folder of the controller. Connects to no
    host.
options:
  _terms:
    description: The names of the hosts.
    required: true
  folder:
    description: The folder with a file C(HOST.json) for each host. A relative path begins at the present folder.
    type: str
    required: true
  read:
    description:
      - The results of M(sovereign.epyc.epyc_capacity_info) by host, which come before kept facts. The message of a
        failed result is the reason why a host has no facts, unless kept facts can be used.
    type: dict
    default: {}
seealso:
  - plugin: sovereign.epyc.fleet_capacity
    plugin_type: filter
  - module: sovereign.epyc.epyc_capacity_info
"""

EXAMPLES = r"""
- name: Count what the hosts of a rack serve
  ansible.builtin.debug:
    msg: "{{ (lookup('sovereign.epyc.capacity_facts', *groups.rack_one, folder='.capacity')
              | sovereign.epyc.fleet_capacity(rate=15)).text }}"
"""

RETURN = r"""
_raw:
  description:
    - One dictionary. It has C(facts) of each host, null where there are none that can be used, C(reason) in that case,
      and C(instances), the variable C(epyc_llama_instances) of the host.
  type: list
  elements: dict
"""

import os
from typing import Any

from ansible.plugins.lookup import LookupBase

from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.host_facts import choose_host_facts


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible-core has no annotations
    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return what is known of each host, by its name."""
        self.set_options(var_options=variables, direct=kwargs)
        folder = os.path.abspath(os.path.expanduser(self.get_option("folder")))
        read = self.get_option("read") or {}
        hosts = {}
        for name in map(str, terms):
            result = read.get(name) or {}
            facts, reason = choose_host_facts(result.get("facts"), os.path.join(folder, f"{name}.json"))
            hosts[name] = {
                "facts": facts,
                "reason": str(result.get("msg") or reason) if facts is None else "",
                "instances": variables["hostvars"][name].get("epyc_llama_instances") or [],
            }
        return [hosts]
