# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: benchmark_report
short_description: The report of a benchmark, an ablation or a tuning for a terminal
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Renders the document of a run as a text of at most 100 columns, with the same verdicts as the page. All figures come
    from the samples in the document. The same document gives the same bytes on any machine.
positional: _input
options:
  _input:
    description: The document of a run, or the text of its JSON file.
    type: raw
    required: true
seealso:
  - plugin: sovereign.epyc.benchmark_page
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Print the results of a run
  ansible.builtin.debug:
    msg: "{{ lookup('ansible.builtin.file', 'run.json') | sovereign.epyc.benchmark_report }}"
"""

RETURN = r"""
_value:
  description: The report, with line breaks.
  type: str
"""

from typing import Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import (
    NO_RUN_DOCUMENT,
    refusals_as_filter_errors,
)


def benchmark_report(data: object) -> str:
    """Return the report as text. Raises AnsibleFilterError for data that is no document of a run."""
    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.run_report import render_run_report
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import parse_run_document

    with refusals_as_filter_errors(NO_RUN_DOCUMENT):
        return render_run_report(parse_run_document(data))


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"benchmark_report": benchmark_report}
