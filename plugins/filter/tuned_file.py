# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: tuned_file
short_description: The file of variables with what tunings found out
version_added: 0.1.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Makes the file with C(epyc_llama_tuned) of what C(tune.yml) has measured. What a run found out comes on top of what
    was tuned before, because that was the default of the run. Where the default stays, it is said to hold for the host
    as it is now.
  - Runs that are void, and those in check mode, change nothing.
positional: _input, kept
options:
  _input:
    description:
      - What was measured, by host. C(tuned) is its C(epyc_llama_tuned), C(results) are those of a loop with
        M(sovereign.epyc.llama_tune) over its instances, and C(now) those of a loop with
        M(sovereign.epyc.llama_fingerprint_info) over names of instances.
    type: dict
    required: true
  kept:
    description: What the file has beside, as C(epyc_llama_tuned).
    type: dict
    required: true
  together:
    description: Whether the file is for several hosts. They have to agree on the options of each instance.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show the file of a host
  ansible.builtin.debug:
    msg: >-
      {{ {inventory_hostname: {'tuned': {}, 'results': epyc_tune_results.results, 'now': []}}
         | sovereign.epyc.tuned_file({}) }}
"""

RETURN = r"""
_value:
  description:
    - C(text) is that of the file, empty where nothing in it changes. C(differences) says on which instances the hosts
      do not agree.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping


def tuned_file(
    hosts: Mapping[str, Mapping[str, Any]], kept: Mapping[str, Any], together: bool = False
) -> dict[str, Any]:
    """Return the file; raises AnsibleFilterError for a result that must not be in it."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils import _tuned_options

    try:
        return _tuned_options.render_tuned_file(hosts, kept, together)
    except BadRequest as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"tuned_file": tuned_file}
