# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: benchmark_metrics
short_description: The results of a benchmark, an ablation or a tuning as metrics
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Renders the document of a run as a file for the textfile collector of node_exporter, with the figures of the rounds
    that count and the ratio of each setting. The same document gives the same bytes on any machine.
  - The label C(service) is the name of the instance, because Prometheus uses the label C(instance) for its targets.
positional: _input
options:
  _input:
    description: The document of a run, or the text of its JSON file.
    type: raw
    required: true
  host:
    description: The name of the measured host, for the label C(host). The document does not have this name.
    type: str
    default: ""
seealso:
  - plugin: sovereign.epyc.benchmark_report
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the results of the last run in the node_exporter of the controller
  ansible.builtin.copy:
    content: "{{ lookup('ansible.builtin.file', 'run.json') | sovereign.epyc.benchmark_metrics(host='epyc9754-01') }}"
    dest: /var/lib/prometheus/node-exporter/benchmark.prom
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The text of the file.
  type: str
"""

from typing import Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import (
    NO_RUN_DOCUMENT,
    refusals_as_filter_errors,
)


def benchmark_metrics(data: object, host: str = "") -> str:
    """Return the metrics of a run as text for Prometheus. Raises AnsibleFilterError for another document."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import run_metrics

    with refusals_as_filter_errors(NO_RUN_DOCUMENT):
        return run_metrics.render_run_metrics(data, host)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"benchmark_metrics": benchmark_metrics}
