# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings from results of tasks: of epyc_drift_info, of epyc_repair, and of the tasks of any play in check mode.

In check mode a task reports the changes that a run would make; a module of the collection reports the values before
and after by address. Such a change concerns either the running host or the next boot, never both. A task that check
mode skips reports nothing. A reported change has no repair of its own, because the same run without --check makes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import findings as drift_findings
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import (
    LAYERS,
    REBOOT,
    SITE,
    STATUSES,
    Finding,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import (
    DRIFT,
    OK,
    UNKNOWN,
    UNSUPPORTED,
    Verdict,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.address_kinds import (
    BIOS,
    BOOT,
    KINDS,
    LLAMA,
    OTHER,
    find_address_kind,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import KNOBS, ROLES, find_knob_row
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish import settings_table
from ansible_collections.sovereign.epyc.plugins.plugin_utils._host_data import format_error_class_and_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    #: Findings as plain data, and the counts of statuses by layer.
    Seen = tuple[list[dict[str, Any]], dict[str, dict[str, int]]]
    #: Findings and counts, with the map of the host or None.
    SeenWithMap = tuple[list[dict[str, Any]], dict[str, dict[str, int]], object]

#: The command that shows on the host itself which settings differ.
CHECK_COMMAND = "sovereign-epyc check"
PUT_BACK_REASON = "as it was before the collection changed it"
NO_LOG_REASON = "the task has no_log"
#: Module of the collection -> the layer of its settings. A task that changes nothing counts as one setting.
LAYER_BY_MODULE = {
    **{row.module: row.name for row in KNOBS.values()},
    **{module: kind.layer for kind in KINDS.values() for module in kind.modules},
}
LAST_RUN, DRIFT_MODULE, BIOS_MODULE = "epyc_last_run", "epyc_drift_info", "epyc_bmc_bios"
REPAIR_MODULE, RESTORE_MODULE = "epyc_repair", "epyc_restore"
#: Modules that change no setting of a host, though check mode may report a change.
READ_ONLY_MODULES = (
    *("llama_ablation", "llama_ablation_boot", "llama_ask", "llama_benchmark", "llama_tune"),
    *("add_host", "group_by"),
)
#: Verdict of epyc_bmc_bios -> status of a finding; any other verdict is drift.
STATUS_BY_BIOS_VERDICT = {settings_table.CLAIMED: OK, settings_table.ABSENT: UNSUPPORTED}
#: Keys in the result of a task that a condition skipped. A skipped task without these keys cannot run in check mode.
SKIPPED_ON_PURPOSE = ("skip_reason", "skipped_reason", "false_condition")


def drift_result_to_findings(result: Mapping[str, Any]) -> SeenWithMap | None:
    """Return the findings, counts and map in a result of epyc_drift_info; None for a result without findings."""
    if not {"findings", "coverage"} <= result.keys():
        return None
    return result["findings"], result["coverage"], result.get("map")


def repair_result_to_findings(result: Mapping[str, Any]) -> SeenWithMap | None:
    """Return the findings and counts in a result of epyc_repair in check mode; None for a result without any."""
    kinds = ("repaired", "given_up", "left", "left_alone")
    if not {"coverage", *kinds} <= result.keys():
        return None
    return [finding for kind in kinds for finding in result[kind]], result["coverage"], None


def unreadable_result_finding(task: str, role: str, action: str, error: Exception) -> Seen:
    """Return the finding that the result of a task could not be read; the layers of the task count as unknown."""
    module = action.rpartition(".")[2]
    reason = (
        f"the report cannot read what this task returned ({format_error_class_and_message(error)}), so it is not known "
        "whether the host is as configured. Look there, and report this as a fault of the collection"
    )
    findings, coverage = _single_finding_with_counts(task, role, LAYER_BY_MODULE.get(module, OTHER), UNKNOWN, reason)
    findings[0]["repair"] = CHECK_COMMAND
    return findings, {layer: {UNKNOWN: 1} for layer in LAYERS} if module == DRIFT_MODULE else coverage


def check_mode_result_to_findings(
    task: str, role: str, action: str, result: Mapping[str, Any], skipped: bool = False
) -> Seen:
    """Return the changes that a task reports in check mode as findings, with counts.

    ``role`` is the short name of the role of the task, "" for none. ``skipped`` says that the task did not run.
    """
    module = action.rpartition(".")[2]
    if module == LAST_RUN:
        # This module has counts where it checked all layers at once; otherwise the tasks of each layer have counts.
        return [], result.get("coverage", {})
    layer = LAYER_BY_MODULE.get(module, OTHER)
    if any(key in result for key in SKIPPED_ON_PURPOSE):
        return [], {}
    if module == BIOS_MODULE:
        return bios_result_to_findings(task, result)
    items = result.get("results")
    if isinstance(items, list) and all(isinstance(item, dict) for item in items):
        seen = [
            check_mode_result_to_findings(task, role, action, item, skipped or bool(item.get("skipped")))
            for item in items
        ]
        return [finding for findings, dummy in seen for finding in findings], sum_counts_by_layer_and_status(
            [counts for dummy, counts in seen]
        )
    if skipped:
        return _single_finding_with_counts(
            task, role, layer, UNKNOWN, str(result.get("msg") or "check mode skipped it")
        )
    if not result.get("changed") or module in READ_ONLY_MODULES:
        return [], {layer: {**dict.fromkeys(STATUSES, 0), OK: 1}}
    diff = result.get("diff")
    changes = diff.get("changes") if isinstance(diff, dict) else None
    before = changes.get("before") if isinstance(changes, dict) else None
    after = changes.get("after") if isinstance(changes, dict) else None
    if action.startswith("sovereign.epyc.") and isinstance(before, dict) and isinstance(after, dict):
        return _changes_to_findings(role, before, after, PUT_BACK_REASON if module == RESTORE_MODULE else "")
    reason = NO_LOG_REASON if "censored" in result else "the task would change it"
    where = result.get("dest") or result.get("path") or result.get("name") or result.get("item") or ""
    return _single_finding_with_counts(task, role, layer, DRIFT, reason, where if isinstance(where, str) else "")


def bios_result_to_findings(task: str, result: Mapping[str, Any]) -> Seen:
    """Return the findings in a result of epyc_bmc_bios; one unknown finding where the BMC did not answer."""
    rows = result.get("settings")
    if rows is None:
        return _single_finding_with_counts(task, BIOS, BIOS, UNKNOWN, str(result.get("msg") or "the BMC did not say"))
    findings, counts = [], dict.fromkeys(STATUSES, 0)
    for row in rows:
        status = STATUS_BY_BIOS_VERDICT.get(row["verdict"], DRIFT)
        counts[status] += 1
        if status == OK:
            continue
        finding = Finding(BIOS, row["title"], status)
        finding.where = row["attribute"] or ""
        finding.wanted, finding.found = str(row["wanted"]), "" if row["active"] is None else str(row["active"])
        finding.pending_reboot = row["verdict"] == settings_table.WAITS
        finding.at_boot = finding.wanted if finding.pending_reboot else finding.found
        finding.live = DRIFT if status == DRIFT else OK
        finding.persistent = OK if finding.pending_reboot else finding.live
        finding.reason = row["sentence"].rstrip(".")
        finding.role, finding.variables = BIOS, [f"epyc_bios_{row['option']}"]
        finding.repair = f"{REBOOT} -e epyc_reboot_ok=true" if finding.pending_reboot else f"{SITE} --tags {BIOS}"
        finding.addresses = [f"bios:{row['attribute'] or row['option']}"]
        findings.append(finding.to_dict())
    return findings, {BIOS: counts}


def _single_finding_with_counts(task: str, role: str, layer: str, status: str, reason: str, where: str = "") -> Seen:
    finding = Finding(layer, task, status)
    finding.where = where
    finding.live = finding.persistent = UNKNOWN
    if status == DRIFT:
        finding.live = DRIFT
    finding.reason = reason
    finding.role = role
    finding.addresses = [f"task:{role}/{task}/{where}"]
    return [finding.to_dict()], {layer: {**dict.fromkeys(STATUSES, 0), status: 1}}


def _changes_to_findings(role: str, before: Mapping[str, Any], after: Mapping[str, Any], reason: str = "") -> Seen:
    verdicts = []
    for address, wanted in after.items():
        prefix = address.partition(":")[0]
        requests = [request for request, name in ROLES.items() if name == role and request.startswith(f"{prefix}/")]
        verdict = Verdict(requests[0] if requests else "", address, wanted)
        verdict.reason = reason
        row = find_knob_row(address) or find_address_kind(address)
        if row and row.outlives_boot(address.partition(":")[2]):
            # The values before and after are values of the next boot.
            verdict.at_boot, verdict.persistent = before.get(address), DRIFT
            layer = drift_findings.layer_of_address(address)
            if layer in (BOOT, LLAMA):
                verdict.found, verdict.live = before.get(address), OK if layer == BOOT else DRIFT
        else:
            verdict.found, verdict.live = before.get(address), DRIFT
            verdict.at_boot = wanted
        verdicts.append(verdict)
    findings = drift_findings.group_into_findings(verdicts)
    for finding in findings:
        finding.role = finding.role or role
        # The same run without --check makes the change.
        finding.repair = ""
    coverage = sum_counts_by_layer_and_status(
        [{drift_findings.layer_of_address(v.address): {drift_findings.status_of_verdict(v): 1}} for v in verdicts]
    )
    return [finding.to_dict() for finding in findings], coverage


def sum_counts_by_layer_and_status(coverages: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Return the sum of counts of settings by layer and status, in the order of the layers."""
    total: dict[str, dict[str, int]] = {}
    for coverage in coverages:
        for layer, statuses in coverage.items():
            layer_total = total.setdefault(layer, dict.fromkeys(STATUSES, 0))
            for status, count in statuses.items():
                layer_total[status] += count
    return {layer: total[layer] for layer in LAYERS if layer in total}
