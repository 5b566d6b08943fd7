# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: run_comparison
short_description: Runs compared with each other
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Compares the documents of runs with the first of them, and the arms of each run with the instance as it ran. Lists
    what differs between hosts, builds, models and settings, and the ratio of each figure.
  - Rounds of two runs are not paired, so that their ratio has no interval. Arms of one run were measured in the same
    rounds, and have one.
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
  - plugin: sovereign.epyc.run_document
    plugin_type: lookup
  - plugin: sovereign.epyc.comparison_page
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Compare two runs
  ansible.builtin.debug:
    msg: "{{ (query('sovereign.epyc.run_document', 'old.json', 'new.json') | sovereign.epyc.run_comparison).text }}"
"""

RETURN = r"""
_value:
  description:
    - C(text) is the report. C(code) is 0 where no loss is proven or clear, 2 where one is, and 1 where nothing could be
      compared. C(headline) is the result in one line, C(figures) are the ratios, and C(differences) is what differs.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import (
    NO_RUN_DOCUMENT,
    refusals_as_filter_errors,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def run_comparison(documents: Sequence[Any], labels: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the comparison as plain data with its text. Raises AnsibleFilterError for what is no document of a run."""
    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.compare.comparison_report import (
        render_comparison_report,
    )
    from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_lines_in_data
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.comparison_page import compare_runs

    with refusals_as_filter_errors(NO_RUN_DOCUMENT):
        comparison = compare_runs(documents, labels)
    shown: dict[str, Any] = escape_lines_in_data(comparison.to_dict())
    return {**shown, "text": render_comparison_report(comparison)}


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"run_comparison": run_comparison}
