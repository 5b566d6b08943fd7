# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all formats of the report say in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import words as drift_words
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import STATUSES
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import CHANGE_WHAT_IS_ASKED
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.words import STATUS_WORDS, title
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.address_kinds import OTHER, RUN
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import (
    CLEAN,
    FAILED,
    STATES,
    UNKNOWN,
    UNREACHABLE,
    UNSEEN,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.hostnames import fold
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import format_count

if TYPE_CHECKING:
    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import Document

STATE_WORDS = {UNREACHABLE: "unreachable", FAILED: "failed", "drift": "with drift", UNKNOWN: "unknown", CLEAN: "clean"}
#: The same of a check, which tells what a run would do.
CHECK_WORDS = {**STATE_WORDS, "drift": "would change", CLEAN: "would not change"}
#: What is not told of a host that was asked for no such layer: a run, and tasks.
NO_LAYERS = (RUN, OTHER)
__all__ = ["STATUS_WORDS", "title"]
#: Of a layer on a host that has no status.
OTHER_WORDS = {"": "not asked for", UNSEEN: "not looked at"}


def summary(document: Document) -> str:
    """Return the one line on the fleet."""
    counts, kinds = document["summary"], CHECK_WORDS if document["check"] else STATE_WORDS
    states = [f"{counts['states'][state]} {kinds[state]}" for state in STATES if counts["states"][state]]
    return f"{format_count(counts['hosts'], 'host')}: {', '.join(states) or 'none was checked, so nothing is known'}."


def heading(document: Document) -> str:
    """Return what a report is of: drift, or a check of what a run would change."""
    return "Check" if document["check"] else "Drift"


def state(group: Document, document: Document) -> str:
    """Return the state of a group of hosts in a word or two."""
    return CHECK_WORDS["drift"] if document["check"] and group["state"] == "drift" else str(group["state"])


def status(finding: Document, document: Document) -> str:
    """Return the status of a finding in a word or two."""
    return CHECK_WORDS["drift"] if document["check"] and finding["status"] == "drift" else finding["status"]


def cell_words(document: Document) -> dict[str, str]:
    """Return what the statuses of a layer on a host are called, also of a host that has none."""
    if document["check"]:
        return {**STATUS_WORDS, **OTHER_WORDS, "drift": CHECK_WORDS["drift"], "": OTHER_WORDS[UNSEEN]}
    return {**STATUS_WORDS, **OTHER_WORDS}


def comparison(document: Document) -> str:
    """Return what is different from the report before, an empty text where there was none."""
    if not document["previous"]:
        return ""
    counts = document["summary"]
    return f"Since the report of {document['previous']}: {counts['new']} new, {counts['gone']} gone."


def covered(document: Document) -> str:
    """Return how many settings were checked, and with which outcome."""
    counts = document["summary"]["settings"]
    kinds = cell_words(document)
    parts = ", ".join(f"{counts[one]} {kinds[one]}" for one in STATUSES if one == "ok" or counts[one])
    wrong = "" if document["check"] else f", {drift_words.count_wrong(counts)}"
    return f"{format_count(sum(counts.values()), 'setting')} checked{wrong}: {parts}."


def values(finding: Document, check: bool = False) -> str:
    """Return found and wanted, in a check what would change into what; where nothing was compared, why."""
    if not check or finding["status"] != "drift":
        return drift_words.values(finding)
    before = finding["at_boot"] if finding["persistent"] == "drift" else finding["found"]
    if before != finding["wanted"]:
        return f"{before} -> {finding['wanted']}"
    return f"{before} -> another one" if before else ""


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


def asked(document: Document) -> list[dict[str, str]]:
    """Return the layers that some host was asked for."""
    names = {layer for row in document["hosts"] for layer, counts in row["coverage"].items() if any(counts.values())}
    return [layer for layer in document["layers"] if layer["name"] in names]


def unasked(document: Document) -> str:
    """Return in a sentence which layers no host was asked for; an empty text where there is none to tell of.

    A check does not know what the layers are about that its run leaves out. Of a host on which nothing is stored it is
    not known what it was asked for.
    """
    there = asked(document)
    rest = [layer for layer in document["layers"] if layer not in there and layer["name"] not in NO_LAYERS]
    seen = [bool(row["coverage"]) for row in document["hosts"]]
    untuned = any("desired:" in finding["addresses"] for finding in document["findings"])
    if not rest or not any(seen) or untuned:
        return ""
    titles = ", ".join(layer["title"] for layer in rest)
    if document["check"]:
        return f"Not looked at in this run: {titles}."
    return f"Not asked for on any host{'' if all(seen) else ' that was looked at'}: {titles}."
