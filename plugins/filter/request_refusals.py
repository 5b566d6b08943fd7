# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: request_refusals
short_description: Unknown layers and misspelt variables of a run
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Finds unknown layers, and unknown variables that begin with C(epyc_) as all variables of the collection do. Suggests
    a similar layer or variable.
positional: _input, layers, host, names, foreign
options:
  _input:
    description: The requested layers, as C(epyc_steps).
    type: raw
    required: true
  layers:
    description: The layers of C(sovereign.epyc.site).
    type: list
    elements: str
    required: true
  host:
    description: The name of the host.
    type: str
    required: true
  names:
    description: The names of the variables of the host.
    type: list
    elements: str
    required: true
  foreign:
    description: Names of variables that are not of this collection, as C(epyc_foreign_variables).
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Show the errors in a request
  ansible.builtin.debug:
    msg: "{{ ['numma'] | sovereign.epyc.request_refusals(['numa'], 'epyc-1', ['epyc_plan_verfy']) }}"
"""

RETURN = r"""
_value:
  description: A sentence for each refusal.
  type: list
  elements: str
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def request_refusals(
    requested: Any, layers: Sequence[str], host: str, names: Iterable[str], foreign: Any = ()
) -> list[str]:
    """Return a sentence for each unknown layer and each misspelt variable of a host."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils import _run_request

    return _run_request.find_request_refusals(requested, layers, host, names, foreign)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"request_refusals": request_refusals}
