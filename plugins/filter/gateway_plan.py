# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: gateway_plan
short_description: Models, servers and tenants of the gateway, from the variables of all hosts
version_added: 0.1.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Gathers the instances of all hosts, C(epyc_llama_instances) and C(epyc_vllm_instances), by their alias, with the
    address at which the gateway reaches each, and with its slots, as the role P(sovereign.epyc.epyc_gateway#role) puts
    them into the configuration of HAProxy. Options of C(epyc_llama_tuned) win, as they do on the hosts.
  - Refuses, in one sentence, what would make a gateway that answers wrongly. An instance without an alias, or on an
    address that the gateway does not reach; two instances at the same address and port, or with the same alias and
    different models; slots that are no number, or that C(extra_arguments) say; keys of tenants that are not hashed; a
    gateway that the others do not reach, or without TLS or for everyone where nobody has asked for that.
positional: _input, gateway, settings, gateways
options:
  _input:
    description: The variables of each host, as in C(hostvars). Those without instances are left out.
    type: list
    elements: dict
    required: true
  gateway:
    description: The name of the host of the gateway in the inventory.
    type: str
    required: true
  settings:
    description:
      - C(bind), C(certificate), C(drained), C(max_body), C(metrics_bind), C(open), C(peers_bind), C(plain_http) and
        C(tenants), each as the variable of the role P(sovereign.epyc.epyc_gateway#role) whose name ends so.
    type: dict
    required: true
  gateways:
    description:
      - The variables of each host that is a gateway, in the order of the inventory, where gateways hand conversations
        and rates to one another. Each but O(gateway) needs C(epyc_gateway_peers_bind).
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Show who serves which model
  ansible.builtin.debug:
    msg: >-
      {{ groups.all | map('extract', hostvars) | list
         | sovereign.epyc.gateway_plan(inventory_hostname, settings) }}
  vars:
    settings:
      bind: "*:443"
      certificate: /etc/ssl/private/gateway.pem
      drained: []
      max_body: 1MiB
      metrics_bind: 127.0.0.1:8405
      open: true
      peers_bind: 127.0.0.1:8406
      plain_http: false
      tenants: []
"""

RETURN = r"""
_value:
  description:
    - C(models) has for each alias its C(backend) and C(servers), each with C(name),
      C(address), C(slots), C(drained) and, where the host has C(epyc_base_agent_bind), its C(agent).
      C(listing) is the answer to
      C(/v1/models), C(tenants) are those that were given, in one notation, and C(max_body) is in bytes. C(peers) has
      C(name) and C(bind) of each gateway, and C(peer) is the name of this one.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def gateway_plan(
    hosts: Sequence[Mapping[str, Any]],
    gateway: str,
    settings: Mapping[str, Any],
    gateways: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the plan; raises AnsibleFilterError, with a sentence, for an inventory that cannot be served."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._gateway import routing

    try:
        return routing.plan_gateway(hosts, gateway, settings, gateways)
    except BadRequest as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"gateway_plan": gateway_plan}
