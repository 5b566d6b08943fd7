# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
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
HELP = {
    SETTINGS: "Settings of a layer by status.",
    DRIFT: "Something that is not as configured: drift, unknown, or not supported here.",
    "sovereign_epyc_check_success": "Whether the check could be made.",
    "sovereign_epyc_hosts": "Hosts by state.",
    "sovereign_epyc_host_state": "The state of a host: unreachable, failed, drift, unknown or clean.",
}
#: What becomes a label of a finding. Values do not: a label that changes makes a new series each time.
LABELS = ("layer", "what", "where", "status", "live", "persistent", "role")

Sample = tuple["Mapping[str, str]", float]


def render(families: Mapping[str, Sequence[Sample]], texts: Mapping[str, str] | None = None) -> str:
    """Return metrics by name, each a list of labels and value, in the order given; ``texts`` says what each is."""
    lines = []
    for name, samples in families.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP {name} {(texts or HELP)[name]}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{_labels(labels)} {number}" for labels, number in samples]
    return "\n".join(lines) + "\n"


def settings(coverage: Mapping[str, Mapping[str, int]], **more: str) -> list[Sample]:
    """Return a sample for each layer and status."""
    return [
        ({**more, "layer": layer, "status": status}, count)
        for layer, counts in coverage.items()
        for status, count in counts.items()
    ]


def drift(finding: Mapping[str, object], **more: str) -> Sample:
    """Return the sample of a finding."""
    pending = str(finding["pending_reboot"]).lower()
    return {**more, **{name: str(finding[name]) for name in LABELS}, "pending_reboot": pending}, 1


def of_host(
    findings: Sequence[Finding],
    coverage: Mapping[str, Mapping[str, int]],
    more: Mapping[str, Sequence[Sample]],
    texts: Mapping[str, str],
) -> str:
    """Return the metrics that a host reports about itself, with ``more`` of which ``texts`` says what they are."""
    return render(
        {
            "sovereign_epyc_check_success": [({}, 1)],
            SETTINGS: settings(coverage),
            DRIFT: [drift(finding.to_dict()) for finding in findings],
            **more,
        },
        {**HELP, **texts},
    )


def of_failure() -> str:
    """Return the metrics of a host whose check could not be made."""
    return render({"sovereign_epyc_check_success": [({}, 0)]})


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape_label(text)}"' for name, text in labels.items()) + "}"


def _escape_label(text: str) -> str:
    """Return the value of a label as the format writes it.

    The format has escapes for a backslash, a quote and a newline only. Other characters that are not printable are
    written as the text of their escape, so that no reader takes one for the end of a line.
    """
    return escape_lines(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
