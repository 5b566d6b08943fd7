# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: prediction_report
short_description: Predicted rates of a fleet beside the measured ones
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Each run keeps the rate that was predicted at its begin. This filter compares that with what the run measured, for
    the newest run of each instance of each host.
  - No prediction is changed by that.
positional: _input
options:
  _input:
    description: The documents of runs.
    type: list
    elements: dict
    required: true
seealso:
  - plugin: sovereign.epyc.run_document
    plugin_type: lookup
  - plugin: sovereign.epyc.benchmark_report
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show how good the predictions are
  ansible.builtin.debug:
    msg: "{{ query('sovereign.epyc.run_document', 'a.json', 'b.json') | sovereign.epyc.prediction_report }}"
"""

RETURN = r"""
_value:
  description: The report as text of at most 100 columns.
  type: str
"""

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import (
    NO_RUN_DOCUMENT,
    refusals_as_filter_errors,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def prediction_report(documents: Sequence[Any]) -> str:
    """Return the report on the predictions of runs. Raises AnsibleFilterError for what is no document of a run."""
    from ansible_collections.sovereign.epyc.plugins.module_utils._bench.compare.prediction_report import (
        render_prediction_report,
    )
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page.run import parse_run_document

    with refusals_as_filter_errors(NO_RUN_DOCUMENT):
        return render_prediction_report([parse_run_document(document) for document in documents])


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"prediction_report": prediction_report}
