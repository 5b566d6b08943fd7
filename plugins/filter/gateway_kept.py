# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: gateway_kept
short_description: The server-state-file of the gateway for a new configuration
version_added: 0.1.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - HAProxy reads from its server-state-file which servers M(sovereign.epyc.gateway_member) took out of service, and at
    which port each is. This gives them the ports of a new configuration, and leaves out servers that it does not have.
positional: _input, models
options:
  _input:
    description: The text of the file.
    type: str
    required: true
  models:
    description: The C(models) of P(sovereign.epyc.gateway_plan#filter).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show who stays out of service
  ansible.builtin.debug:
    msg: "{{ lookup('ansible.builtin.file', 'sovereign-epyc.state') | sovereign.epyc.gateway_kept(plan.models) }}"
"""

RETURN = r"""
_value:
  description: The text of the file.
  type: str
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def gateway_kept(text: str, models: Sequence[Mapping[str, Any]]) -> str:
    """Return the file for the servers of these models."""
    from ansible_collections.sovereign.epyc.plugins.module_utils._gateway import server_state_file

    where = {
        f"{model['backend']}/{server['name']}": str(server["address"])
        for model in models
        for server in model["servers"]
    }
    return server_state_file.move_servers(text, where)


class FilterModule:
    """What Ansible looks for in this file."""

    def filters(self) -> dict[str, Any]:
        """Return the filter by its name."""
        return {"gateway_kept": gateway_kept}
