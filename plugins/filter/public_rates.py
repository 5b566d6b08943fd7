# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: public_rates
short_description: Published decode rates of EPYC servers with models of a size
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Returns the decode rates that others published for EPYC servers and for mixtures of experts with few active
    parameters, the fastest first and one for each server and model. Runs in which the source names a fault are left
    out.
positional: _input
options:
  _input:
    description: The most billions of active parameters.
    type: float
    required: true
"""

EXAMPLES = r"""
- name: Show what others reached with at most 12 billion active parameters
  ansible.builtin.debug:
    msg: "{{ 12 | sovereign.epyc.public_rates }}"
"""

RETURN = r"""
_value:
  description: The rates, each with C(cpu), C(model), C(rate) in tokens per second, C(gbps) and C(source).
  type: list
  elements: dict
"""

from typing import Any


def public_rates(most_active_billions: float) -> list[dict[str, Any]]:
    """Return the published rates of mixtures of experts with at most so many billions of active parameters."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils import _public_rates

    return _public_rates.list_rates_of_small_mixtures(float(most_active_billions))


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"public_rates": public_rates}
