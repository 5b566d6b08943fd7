# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_capacity
short_description: How many users the hosts of a fleet serve at a rate
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Counts the users of each model at a rate, by the stored runs of the hosts or else by predictions, and marks which.
    Compares that with what is wanted, and tells what one more host would add.
positional: _input, rate
options:
  _input:
    description: What P(sovereign.epyc.capacity_facts#lookup) returns.
    type: dict
    required: true
  rate:
    description: The tokens per second of each user.
    type: float
    default: 20
  context:
    description: The tokens that a user has in the KV cache on average.
    type: int
    default: 2048
  wanted:
    description: How many users at a time the fleet shall serve, by model, instance or tier.
    type: dict
    default: {}
  catalogue:
    description: Entries of the variable C(epyc_llama_catalogue).
    type: dict
    default: {}
seealso:
  - plugin: sovereign.epyc.capacity_facts
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Count the users of all servers
  ansible.builtin.debug:
    msg: "{{ (lookup('sovereign.epyc.capacity_facts', *groups.epyc_servers, folder='.capacity')
              | sovereign.epyc.fleet_capacity(rate=20)).text }}"
"""

RETURN = r"""
_value:
  description:
    - C(text) is the report for a terminal, C(page) an HTML page, and C(data) has all numbers. C(headline) is the
      result. C(code) is 0 where all that is wanted is served, 1 where no host has facts, and 2 where fewer users are
      served than wanted.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import refusals_as_filter_errors

if TYPE_CHECKING:
    from collections.abc import Mapping


def fleet_capacity(
    hosts: Mapping[str, Any], rate: Any = None, context: Any = None, wanted: Any = None, catalogue: Any = None
) -> dict[str, Any]:
    """Return the capacity as text, page and data. Raises AnsibleFilterError for an invalid rate or wish."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity import rendering
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.capacity_request import (
        parse_capacity_request,
    )

    with refusals_as_filter_errors():
        request = parse_capacity_request(rate, context, wanted)
        return rendering.render_capacity(rendering.compute_fleet_capacity(hosts, request, catalogue))


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"fleet_capacity": fleet_capacity}
