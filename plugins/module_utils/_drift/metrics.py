# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Metrics in the text format of Prometheus, for the textfile collector of node_exporter.

Source: the page "Exposition formats" of the Prometheus documentation.
"""

from __future__ import annotations

from .._notation.printable import escape_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .findings import Finding

SETTINGS = "sovereign_epyc_settings"
DRIFT = "sovereign_epyc_drift"
SUCCESS = "sovereign_epyc_check_success"
HELP = {
    SETTINGS: "Settings of a layer by status.",
    DRIFT: "A setting that is not as configured: drift, unknown, or not supported here.",
    SUCCESS: "Whether the check could be made.",
    "sovereign_epyc_hosts": "Hosts by state.",
    "sovereign_epyc_host_state": "The state of a host: unreachable, failed, drift, unknown or clean.",
}
#: The fields of a finding that become labels. Values are no labels, because each new value would start a new series.
FINDING_LABELS = ("layer", "what", "where", "status", "live", "persistent", "role")

Sample = tuple["Mapping[str, str]", float]


def render_metrics(families: Mapping[str, Sequence[Sample]], help_texts: Mapping[str, str] | None = None) -> str:
    """Return the text of metrics in their order; a family is a name with samples, each of labels and a value.

    ``help_texts`` has the help text of each metric; without ``help_texts``, HELP is used.
    """
    lines = []
    for name, samples in families.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP {name} {(help_texts or HELP)[name]}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{_format_labels(labels)} {number}" for labels, number in samples]
    return "\n".join(lines) + "\n"


def make_settings_count_samples(counts_by_layer: Mapping[str, Mapping[str, int]], **labels: str) -> list[Sample]:
    """Return a sample for each layer and status, with further labels in ``labels``."""
    return [
        ({**labels, "layer": layer, "status": status}, count)
        for layer, counts in counts_by_layer.items()
        for status, count in counts.items()
    ]


def make_finding_sample(finding: Mapping[str, object], **labels: str) -> Sample:
    """Return the sample of a finding, with further labels in ``labels``."""
    pending = str(finding["pending_reboot"]).lower()
    return {**labels, **{name: str(finding[name]) for name in FINDING_LABELS}, "pending_reboot": pending}, 1


def render_host_metrics(
    findings: Sequence[Finding],
    counts_by_layer: Mapping[str, Mapping[str, int]],
    further_metrics: Mapping[str, Sequence[Sample]],
    further_help_texts: Mapping[str, str],
) -> str:
    """Return the text of the metrics of one host."""
    return render_metrics(
        {
            SUCCESS: [({}, 1)],
            SETTINGS: make_settings_count_samples(counts_by_layer),
            DRIFT: [make_finding_sample(finding.to_dict()) for finding in findings],
            **further_metrics,
        },
        {**HELP, **further_help_texts},
    )


def render_metrics_of_failed_check() -> str:
    return render_metrics({SUCCESS: [({}, 0)]})


def parse_finding_labels(text: str) -> list[dict[str, str]] | None:
    """Return the labels of each finding in the metrics of a host; None where the check of the host failed.

    The values of labels still have their escapes.
    """
    # Imported here because only the agent reads metrics.
    import re

    # splitlines() would also split at other separators, which labels may contain.
    lines = text.split("\n")
    if f"{SUCCESS} 1" not in lines:
        return None
    label = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
    return [dict(label.findall(line)) for line in lines if line.startswith(f"{DRIFT}{{")]


def _format_labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape_label(text)}"' for name, text in labels.items()) + "}"


def _escape_label(text: str) -> str:
    """Return the value of a label, escaped.

    The format has escapes for a backslash, a quote and a newline only. Other unprintable characters are replaced by
    readable escapes, because some of them end a line for some readers.
    """
    return escape_lines(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
