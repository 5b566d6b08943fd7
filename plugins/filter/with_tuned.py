# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: with_tuned
short_description: Instances of llama-server with their tuned options
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Replaces options of the instances by the options that C(epyc_llama_tuned) has for their names, as the role
    P(sovereign.epyc.epyc_llama#role) does.
  - Entries of other instances are ignored, because a group may share a file. An entry without options is an error.
positional: _input, tuned
options:
  _input:
    description: The instances, as in O(sovereign.epyc.llama_server#module:instances).
    type: list
    elements: dict
    required: true
  tuned:
    description: The entries of C(epyc_llama_tuned), by the name of the instance.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the instances with their tuned options
  ansible.builtin.debug:
    msg: "{{ epyc_llama_instances | sovereign.epyc.with_tuned(epyc_llama_tuned | default({})) }}"
"""

RETURN = r"""
_value:
  description: The instances.
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import refusals_as_filter_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def with_tuned(instances: Sequence[Mapping[str, Any]], tuned: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the instances with their tuned options. Raises AnsibleFilterError for an entry without options."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils import _tuned_options

    with refusals_as_filter_errors():
        return _tuned_options.apply_tuned_options(instances, tuned)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"with_tuned": with_tuned}
