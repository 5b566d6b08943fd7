# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: gateway_vrrp
short_description: The settings of keepalived for the address that gateways share
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Finds the interfaces for the virtual address and for the traffic between gateways, and the priority of a gateway by
    its place in the inventory. The role P(sovereign.epyc.epyc_gateway#role) writes them into the configuration of
    keepalived.
  - Refuses an address that gateways cannot share, because a gateway has it already, no interface has a subnet for it,
    HAProxy would not serve it, or there is no second gateway.
positional: _input, gateway, settings, gateways
options:
  _input:
    description: The output of C(ip -json address show) on the host of the gateway.
    type: list
    elements: dict
    required: true
  gateway:
    description: The name of the host of the gateway in the inventory.
    type: str
    required: true
  settings:
    description:
      - C(bind), C(metrics_bind), C(peers_bind), C(virtual_address) and C(virtual_router_id), each with
        the value of the variable of the role P(sovereign.epyc.epyc_gateway#role) whose name ends with this key.
    type: dict
    required: true
  gateways:
    description: The variables of each host that is a gateway, in the order of the inventory.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Look at the addresses of the host
  ansible.builtin.command: ip -json address show
  changed_when: false
  register: addresses

- name: Show the settings of keepalived
  ansible.builtin.debug:
    msg: >-
      {{ addresses.stdout | from_json | sovereign.epyc.gateway_vrrp(inventory_hostname, settings, gateways) }}
  vars:
    gateways: "{{ groups.epyc_gateway | map('extract', hostvars) | list }}"
    settings:
      bind: "*:443"
      metrics_bind: 127.0.0.1:8405
      peers_bind: "{{ epyc_gateway_peers_bind }}"
      virtual_address: 192.0.2.10
      virtual_router_id: 84
"""

RETURN = r"""
_value:
  description:
    - C(address) is the shared address with its prefix, and C(device) the interface for it. C(interface), C(source) and
      C(peers) are for the traffic between gateways. C(priority) and C(id) are those of VRRP. C(check) has the
      C(address) and C(port) at which keepalived checks HAProxy.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import refusals_as_filter_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def gateway_vrrp(
    interfaces: Sequence[Mapping[str, Any]],
    gateway: str,
    settings: Mapping[str, Any],
    gateways: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the settings of keepalived. Raises AnsibleFilterError for an address that gateways cannot share."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._gateway import shared_address

    with refusals_as_filter_errors():
        return shared_address.build_keepalived_template_values(interfaces, gateway, settings, gateways)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"gateway_vrrp": gateway_vrrp}
