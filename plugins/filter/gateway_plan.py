# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: gateway_plan
short_description: Models, servers and tenants of the gateway, from the variables of all hosts
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Groups the instances of all hosts by alias. The instances are in C(epyc_llama_instances) and C(epyc_vllm_instances).
    Each has the address at which the gateway reaches it, and its slots. The role P(sovereign.epyc.epyc_gateway#role)
    writes these values into the configuration of HAProxy. Options of C(epyc_llama_tuned) win, as on the hosts.
  - Refuses an inventory that would lead to a gateway with wrong answers. An instance must have an alias and an address
    that the gateway reaches. Two instances must differ in address or port, and have the same model where they have the
    same alias. Slots must be a number in C(slots), not in C(extra_arguments). Keys of tenants must be hashed. Gateways
    must reach each other. A gateway without TLS or for everyone must be requested explicitly.
positional: _input, gateway, settings, gateways
options:
  _input:
    description: The variables of each host, as in C(hostvars). Hosts without instances are left out.
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
        C(tenants), each with the value of the variable of the role P(sovereign.epyc.epyc_gateway#role) whose name
        ends with this key.
    type: dict
    required: true
  gateways:
    description:
      - The variables of each gateway that exchanges conversations and rates with the others, in the order of the
        inventory. Each gateway but O(gateway) needs C(epyc_gateway_peers_bind).
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Show which hosts serve which model
  ansible.builtin.debug:
    msg: >-
      {{ groups.epyc_servers | map('extract', hostvars) | list
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
    - C(models) has for each alias its C(backend) and C(servers). A server has C(name), C(address), C(slots), C(drained)
      and, where the host has C(epyc_base_agent_bind), its C(agent). C(listing) is the answer to C(/v1/models).
      C(tenants) are the tenants in one notation. C(max_body) is in bytes. C(peers) has C(name) and C(bind) of each
      gateway, and C(peer) is the name of O(gateway).
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import refusals_as_filter_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def gateway_plan(
    hosts: Sequence[Mapping[str, Any]],
    gateway: str,
    settings: Mapping[str, Any],
    gateways: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the values for HAProxy's configuration. Raises AnsibleFilterError for hosts that it cannot serve."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._gateway import routing

    with refusals_as_filter_errors():
        return routing.build_haproxy_template_values(hosts, gateway, settings, gateways)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"gateway_plan": gateway_plan}
