# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sentences and words that all formats of the drift report share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import words as drift_words
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import STATUSES
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import CHANGE_WHAT_IS_ASKED
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.words import STATUS_WORDS, format_setting_and_place
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.address_kinds import OTHER, RUN
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import (
    CLEAN,
    FAILED,
    NOT_CHECKED,
    STATES,
    UNKNOWN,
    UNREACHABLE,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.hostnames import fold_host_names
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.wording import count_with_noun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.fleet_report import Document

STATE_WORDS = {UNREACHABLE: "unreachable", FAILED: "failed", "drift": "with drift", UNKNOWN: "unknown", CLEAN: "clean"}
#: The words for the states of a host in a report in check mode, which shows what a run would change.
CHECK_WORDS = {**STATE_WORDS, "drift": "would change", CLEAN: "would not change"}
#: Layers of the report that site.yml does not have, so that an inventory cannot leave them out.
NOT_CONFIGURABLE = (RUN, OTHER)
__all__ = ["STATUS_WORDS", "format_setting_and_place"]
#: The roles of the collection. A finding has the name of such a role without the prefix epyc_, and of other roles in
#: full.
ROLES = Path(__file__).parents[3] / "roles"
#: Words for a layer without a status on a host.
NO_STATUS_WORDS = {"": "not asked for", NOT_CHECKED: "not looked at"}


def format_host_counts_by_state(document: Document) -> str:
    """Return the line that counts the hosts of the fleet by state."""
    counts, kinds = document["summary"], CHECK_WORDS if document["check"] else STATE_WORDS
    states = [f"{counts['states'][state]} {kinds[state]}" for state in STATES if counts["states"][state]]
    return (
        f"{count_with_noun(counts['hosts'], 'host')}: {', '.join(states) or 'none was checked, so nothing is known'}."
    )


def report_kind_word(document: Document) -> str:
    """Return the kind of the report: "Drift", or "Check" where a run in check mode made it."""
    return "Check" if document["check"] else "Drift"


def group_state_words(group: Document, document: Document) -> str:
    """Return the state of a group of hosts in a word or two."""
    return CHECK_WORDS["drift"] if document["check"] and group["state"] == "drift" else str(group["state"])


def last_line_of_group(group: Document, findings: Mapping[int, Document], document: Document) -> str:
    """Return what was found on a group of hosts, and what waits for a reboot, in one sentence."""
    if group["state"] in (UNREACHABLE, FAILED):
        return "see above."
    number = len(group["findings"])
    waiting = sum(bool(findings[finding]["pending_reboot"]) for finding in group["findings"])
    found = count_with_noun(number, "change" if document["check"] else "finding")
    waits = f", of which {waiting} {'waits' if waiting == 1 else 'wait'} for a reboot" if waiting else ""
    return f"{found}{waits}. Nothing was changed."


def finding_status_words(finding: Document, document: Document) -> str:
    """Return the status of a finding in a word or two."""
    return CHECK_WORDS["drift"] if document["check"] and finding["status"] == "drift" else finding["status"]


def layer_status_words(document: Document) -> dict[str, str]:
    """Return the words for each status that a layer can have on a host, the empty status included."""
    if document["check"]:
        return {**STATUS_WORDS, **NO_STATUS_WORDS, "drift": CHECK_WORDS["drift"], "": NO_STATUS_WORDS[NOT_CHECKED]}
    return {**STATUS_WORDS, **NO_STATUS_WORDS}


def format_new_and_resolved_counts(document: Document) -> str:
    """Return how many findings are new and how many were resolved since the report before; "" without such a report."""
    if not document["previous"]:
        return ""
    counts = document["summary"]
    return f"Since the report of {document['previous']}: {counts['new']} new, {counts['gone']} gone."


def format_setting_counts_by_status(document: Document) -> str:
    """Return the sentence that counts the checked settings by status."""
    counts = document["summary"]["settings"]
    kinds = layer_status_words(document)
    parts = ", ".join(f"{counts[status]} {kinds[status]}" for status in STATUSES if status == "ok" or counts[status])
    wrong = "" if document["check"] else f", {drift_words.not_as_configured_count_message(counts)}"
    return f"{count_with_noun(sum(counts.values()), 'setting')} checked{wrong}: {parts}."


def format_finding_values_or_reason(finding: Document, check: bool = False) -> str:
    """Return the found and the wanted value of a finding, or the reason where nothing was compared.

    With ``check``, the value before and the value that a run would set.
    """
    if not check or finding["status"] != "drift":
        return drift_words.format_found_and_wanted(finding)
    before = finding["at_boot"] if finding["persistent"] == "drift" else finding["found"]
    if before != finding["wanted"]:
        return f"{before} -> {finding['wanted']}"
    return f"{before} -> another one" if before else ""


def format_verdicts_and_reboot(finding: Document) -> str:
    """Return the verdicts on the running host and on the next boot, and whether a reboot is pending."""
    pending = "reboot pending" if finding["pending_reboot"] else "no reboot pending"
    return f"now {finding['live']}, at boot {finding['persistent']}, {pending}"


def format_requesting_role_and_variables(finding: Document) -> str:
    """Return the role and the variables that request a setting; else the name of the stored request."""
    if finding["role"]:
        name = f"epyc_{finding['role']}"
        role = name if (ROLES / name).is_dir() else finding["role"]
        return ", ".join([f"role {role}", *finding["variables"]])
    return f"request {finding['request']}" if finding["request"] else ""


def repair_command_or_sentence(finding: Document) -> str:
    """Return the command line that repairs a finding, or a sentence where there is no such command."""
    if finding["command"]:
        return str(finding["command"])
    if finding["status"] == "unsupported":
        return CHANGE_WHAT_IS_ASKED
    is_of_task = any(address.startswith("task:") for address in finding["addresses"])
    if finding["status"] == UNKNOWN and not is_of_task:
        return "Do what the reason says, and look again."
    return "Run the play without --check."


def format_first_date_and_new_hosts(finding: Document) -> str:
    """Return the date since which a finding is known, and the hosts on which it is new."""
    new = finding["new"]
    if len(new) == len(finding["hosts"]):
        return "since this report"
    return f"since {finding['since']}{f', new on {fold_host_names(new)}' if new else ''}"


def list_configured_layers(document: Document) -> list[dict[str, str]]:
    """Return the layers of which a host has settings."""
    names = {layer for row in document["hosts"] for layer, counts in row["coverage"].items() if any(counts.values())}
    return [layer for layer in document["layers"] if layer["name"] in names]


def unconfigured_layers_message(document: Document) -> str:
    """Return the sentence that names the layers no host is configured for; "" where there are none.

    The sentence is also "" where a host has no stored requests, because its layers are unknown then. In a check, the
    sentence names the layers that the run left out.
    """
    configured = list_configured_layers(document)
    rest = [layer for layer in document["layers"] if layer not in configured and layer["name"] not in NOT_CONFIGURABLE]
    checked = [bool(row["coverage"]) for row in document["hosts"]]
    untuned = any("desired:" in finding["addresses"] for finding in document["findings"])
    if not rest or not any(checked) or untuned:
        return ""
    titles = ", ".join(layer["title"] for layer in rest)
    if document["check"]:
        return f"Not looked at in this run: {titles}."
    return f"Not asked for on any host{'' if all(checked) else ' that was looked at'}: {titles}."
