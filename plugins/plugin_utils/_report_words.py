# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all formats of the report say in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import STATUSES
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import (
    CHANGE_WHAT_IS_ASKED,
    NOT_SUPPORTED,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._hostnames import fold
from ansible_collections.sovereign.epyc.plugins.plugin_utils._report import (
    CLEAN,
    FAILED,
    STATES,
    UNKNOWN,
    UNREACHABLE,
    UNSEEN,
)

if TYPE_CHECKING:
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._report import Document

STATE_WORDS = {UNREACHABLE: "unreachable", FAILED: "failed", "drift": "with drift", UNKNOWN: "unknown", CLEAN: "clean"}
STATUS_WORDS = {"ok": "ok", "unsupported": NOT_SUPPORTED, "unknown": "unknown", "drift": "drift"}
#: Of a layer on a host that has no status.
OTHER_WORDS = {"": "not asked for", UNSEEN: "not looked at"}


def summary(document: Document) -> str:
    """Return the one line on the fleet."""
    counts = document["summary"]
    states = [f"{counts['states'][state]} {STATE_WORDS[state]}" for state in STATES if counts["states"][state]]
    return f"{number(counts['hosts'], 'host')}: {', '.join(states) or 'none was checked, so nothing is known'}."


def comparison(document: Document) -> str:
    """Return what is different from the report before, an empty text where there was none."""
    if not document["previous"]:
        return ""
    counts = document["summary"]
    return f"Since the report of {document['previous']}: {counts['new']} new, {counts['gone']} gone."


def covered(document: Document) -> str:
    """Return how many settings were checked, and with which outcome."""
    counts = document["summary"]["settings"]
    parts = ", ".join(f"{counts[status]} {STATUS_WORDS[status]}" for status in STATUSES)
    return f"{number(sum(counts.values()), 'setting')} checked: {parts}."


def title(finding: Document) -> str:
    """Return what a finding is about."""
    return f"{finding['what']}, {finding['where']}" if finding["where"] else str(finding["what"])


def values(finding: Document) -> str:
    """Return found and wanted; where nothing was compared, why."""
    if finding["status"] != "drift":
        return f"{STATUS_WORDS[finding['status']]}: {finding['reason']}"
    parts = []
    if finding["found"] != finding["wanted"]:
        parts.append(f"found {finding['found']}, wanted {finding['wanted']}")
    elif finding["wanted"]:
        found = "not there," if finding["found"] == "nothing" else finding["found"]
        parts.append(f"is {found} as wanted")
    if finding["persistent"] == "drift" and finding["at_boot"] not in ("", finding["found"]):
        parts.append(f"{finding['at_boot']} after a boot")
    return ", ".join(parts)


def verdicts(finding: Document) -> str:
    """Return the three verdicts."""
    pending = "pending" if finding["pending_reboot"] else "none pending"
    return f"now {finding['live']}, at boot {finding['persistent']}, reboot {pending}"


def asked_by(finding: Document) -> str:
    """Return the role and the variables that asked for a setting."""
    if finding["role"]:
        return ", ".join([f"role {finding['role']}", *finding["variables"]])
    return f"request {finding['request']}" if finding["request"] else ""


def repair(finding: Document) -> str:
    """Return the command that repairs a finding, or what else to do."""
    if finding["command"]:
        return str(finding["command"])
    if finding["status"] == "unsupported":
        return CHANGE_WHAT_IS_ASKED
    return "Run the play without --check."


def age(finding: Document) -> str:
    """Return since when a finding is known."""
    new = finding["new"]
    if len(new) == len(finding["hosts"]):
        return "new"
    return f"since {finding['since']}{f', new on {fold(new)}' if new else ''}"


def named(group: Document) -> str:
    """Return the hosts of a group, with their number where there are several."""
    hosts = group["hosts"]
    return f"{group['label']} ({len(hosts)} hosts)" if len(hosts) > 1 else str(group["label"])


def number(count: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def asked(document: Document) -> list[dict[str, str]]:
    """Return the layers that some host was asked for."""
    names = {layer for row in document["hosts"] for layer, counts in row["coverage"].items() if any(counts.values())}
    return [layer for layer in document["layers"] if layer["name"] in names]


def unasked(document: Document) -> str:
    """Return in a sentence which layers no host was asked for; an empty text where there is none to tell of."""
    there = asked(document)
    titles = [layer["title"] for layer in document["layers"] if layer not in there]
    seen = [bool(row["coverage"]) for row in document["hosts"]]
    if not titles or not any(seen):
        return ""
    return f"Not asked for on any host{'' if all(seen) else ' that was looked at'}: {', '.join(titles)}."
