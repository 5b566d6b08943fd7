# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: monitoring_targets
short_description: The targets that Prometheus scrapes, from the variables of all hosts
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Returns the instances of llama-server of all hosts, the metrics of the gateways, and the node_exporter of each of
    these hosts, in the form of C(file_sd_configs) of Prometheus. Instances have the labels C(service), C(model) and
    C(speculation); all targets have the label C(host), the name in the inventory.
  - A target that only its own host can reach is left out, with a remark.
  - Refuses an instance without a valid name, model or port, and a value that is no list of instances. The sentence
    names the host, the variable and the instance.
positional: _input, monitor, gateways, node_port
options:
  _input:
    description: The variables of each host, as in C(hostvars). Hosts without instances are left out.
    type: list
    elements: dict
    required: true
  monitor:
    description: The name of the host that Prometheus runs on.
    type: str
    required: true
  gateways:
    description: The names of the gateways.
    type: list
    elements: str
    default: []
  node_port:
    description: The port of node_exporter.
    type: int
    default: 9100
"""

EXAMPLES = r"""
- name: Show the targets
  ansible.builtin.debug:
    msg: >-
      {{ groups.epyc_servers | map('extract', hostvars) | list
         | sovereign.epyc.monitoring_targets('prometheus-01', groups.epyc_gateway | default([])) }}
"""

RETURN = r"""
_value:
  description: Lists C(llama), C(gateway) and C(host) of C(targets) with C(labels), and C(remarks), a list of texts.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import refusals_as_filter_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def monitoring_targets(
    hosts: Sequence[Mapping[str, Any]], monitor: str, gateways: Sequence[str] = (), node_port: object = 9100
) -> dict[str, Any]:
    """Return the targets that Prometheus scrapes, with labels. Raises AnsibleFilterError for a malformed target."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils import _monitoring

    with refusals_as_filter_errors():
        return _monitoring.build_scrape_targets(hosts, monitor, gateways, node_port)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"monitoring_targets": monitoring_targets}
