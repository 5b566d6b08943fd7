# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: benchmark_page
short_description: The page of a benchmark, an ablation or a tuning
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Renders the document of a run as one HTML page with the verdict on each setting, its interval, and every sample.
    All figures come from the samples in the document. The same document gives the same bytes on any machine.
  - The page needs no network and no script. Parts for which the document has no data are left out.
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
- name: Write the page of a run
  ansible.builtin.copy:
    content: "{{ lookup('ansible.builtin.file', 'run.json') | sovereign.epyc.benchmark_page }}"
    dest: run.html
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The text of the page.
  type: str
"""

from typing import Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import (
    NO_RUN_DOCUMENT,
    refusals_as_filter_errors,
)


def benchmark_page(data: object) -> str:
    """Return the HTML page of a run. Raises AnsibleFilterError for data that is no document of a run."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import run_page

    with refusals_as_filter_errors(NO_RUN_DOCUMENT):
        return run_page.render_run_page(data)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"benchmark_page": benchmark_page}
