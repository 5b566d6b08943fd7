# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: tuned_file
short_description: The file of variables with the options that tunings measured as best
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Renders the file with C(epyc_llama_tuned) from the runs of C(tune.yml). The options that a run chose come on top of
    the earlier tuned options, which were the default of the run. Where the default stays, its entry gets the present
    fingerprint of the host.
  - Discarded runs, and runs in check mode, change nothing.
positional: _input, kept
options:
  _input:
    description:
      - The results of each host, by its name. C(tuned) is C(epyc_llama_tuned) of the host. C(results) are the results
        of a loop with M(sovereign.epyc.llama_tune) over its instances, and C(now) the results of a loop with
        M(sovereign.epyc.llama_fingerprint_info) over the names of its instances.
    type: dict
    required: true
  kept:
    description: The other entries of the file, as in C(epyc_llama_tuned).
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
    - C(text) is the text of the file, empty where nothing in the file changes. C(differences) has a sentence for each
      instance on which the hosts differ.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import refusals_as_filter_errors

if TYPE_CHECKING:
    from collections.abc import Mapping


def tuned_file(
    hosts: Mapping[str, Mapping[str, Any]], kept: Mapping[str, Any], together: bool = False
) -> dict[str, Any]:
    """Return ``text``, the text of the file, and ``differences`` of its hosts, as RETURN documents them.

    Raises AnsibleFilterError for a result that must not be in the file.
    """
    from ansible_collections.sovereign.epyc.plugins.plugin_utils import _tuned_options

    with refusals_as_filter_errors():
        return _tuned_options.render_tuned_file_and_differences(hosts, kept, together)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"tuned_file": tuned_file}
