# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as metrics of a fleet, for the textfile collector of the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import metrics
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import STATES
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import escaping

if TYPE_CHECKING:
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import Document


def render_fleet_metrics(document: Document) -> str:
    """Return the text of the file of metrics."""
    document = escaping.escape_unprintable_in_texts(document)
    counts = document["summary"]["states"]
    rows = document["hosts"]
    findings = {finding["id"]: finding for finding in document["findings"]}
    return metrics.render_metrics(
        {
            "sovereign_epyc_hosts": [({"state": state}, counts[state]) for state in STATES],
            "sovereign_epyc_host_state": [({"host": row["name"], "state": row["state"]}, 1) for row in rows],
            metrics.SETTINGS: [
                sample
                for row in rows
                for sample in metrics.make_settings_count_samples(row["coverage"], host=row["name"])
            ],
            metrics.DRIFT: [
                metrics.make_finding_sample(findings[number], host=row["name"])
                for row in rows
                for number in row["findings"]
            ],
        }
    )
