# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: benchmark_csv
short_description: All samples of a benchmark, an ablation or a tuning as comma-separated values
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Renders the document of a run as a table with a line for each sample, for a spreadsheet or a program of your own.
    The same document gives the same bytes on any machine.
positional: _input
options:
  _input:
    description: The document of a run, or the text of its JSON file.
    type: raw
    required: true
seealso:
  - plugin: sovereign.epyc.benchmark_report
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Write the samples of a run for a spreadsheet
  ansible.builtin.copy:
    content: "{{ lookup('ansible.builtin.file', 'run.json') | sovereign.epyc.benchmark_csv }}"
    dest: run.csv
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The text of the table, with a line of headings.
  type: str
"""

from typing import Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import (
    NO_RUN_DOCUMENT,
    refusals_as_filter_errors,
)


def benchmark_csv(data: object) -> str:
    """Return all samples of a run as comma-separated values. Raises AnsibleFilterError for another document."""
    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import samples_csv
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import parse_run_document

    with refusals_as_filter_errors(NO_RUN_DOCUMENT):
        return samples_csv.render_samples_csv(parse_run_document(data))


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"benchmark_csv": benchmark_csv}
