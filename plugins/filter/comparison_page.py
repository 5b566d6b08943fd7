# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: comparison_page
short_description: The page of compared runs
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Renders runs that are compared with the first of them as one HTML page, with what differs between them and the ratio
    of each figure. The same documents give the same bytes on any machine.
  - The page needs no network and no script.
positional: _input, labels
options:
  _input:
    description: The documents of runs, the one to compare with first.
    type: list
    elements: dict
    required: true
  labels:
    description: A name for each run. By default it is the id of the run.
    type: list
    elements: str
seealso:
  - plugin: sovereign.epyc.run_comparison
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Write the page of two compared runs
  ansible.builtin.copy:
    content: "{{ query('sovereign.epyc.run_document', 'old.json', 'new.json') | sovereign.epyc.comparison_page }}"
    dest: comparison.html
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The text of the page.
  type: str
"""

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import (
    NO_RUN_DOCUMENT,
    refusals_as_filter_errors,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def comparison_page(documents: Sequence[Any], labels: Sequence[str] | None = None) -> str:
    """Return the HTML page of compared runs. Raises AnsibleFilterError for what is no document of a run."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.comparison_page import (
        compare_runs,
        render_comparison_page,
    )

    with refusals_as_filter_errors(NO_RUN_DOCUMENT):
        return render_comparison_page(compare_runs(documents, labels))


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"comparison_page": comparison_page}
