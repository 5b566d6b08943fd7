# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drift, read from the results of single tasks: those of epyc_drift, and those of any play in check mode.

In check mode a task says what it would change, as before and after by address where it is one of our modules. It says
only whether the running host or what is stored differs, never both; and a task that check mode skips says nothing. What
it would change is no drift: the same run without --check makes it.
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
    find_kind,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import KNOBS, ROLES, row_of
from ansible_collections.sovereign.epyc.plugins.plugin_utils._schema import describe_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    Seen = tuple[list[dict[str, Any]], dict[str, dict[str, int]]]
    #: The same with the map of the host, None where there is none.
    Mapped = tuple[list[dict[str, Any]], dict[str, dict[str, int]], object]

#: Tells on the host itself what it finds there.
LOOK = "sovereign-epyc check"
PUT_BACK = "as it was before the collection changed it"
HIDDEN = "the task has no_log"
#: Our module -> its layer. A task of it that would change nothing counts as one setting.
MODULES = {
    **{row.module: row.name for row in KNOBS.values()},
    **{module: kind.layer for kind in KINDS.values() for module in kind.modules},
}
LAST_RUN, DRIFT_MODULE, BIOS_MODULE = "epyc_last_run", "epyc_drift", "epyc_bios_settings"
REPAIR_MODULE, RESTORE_MODULE = "epyc_repair", "epyc_restore"
#: Modules that leave a host as it is, though check mode may call what they do a change.
CHANGE_NOTHING = (
    *("llama_ablation", "llama_ablation_boot", "llama_ask", "llama_benchmark", "llama_tune"),
    *("add_host", "group_by"),
)
#: What a BMC may say of a setting, and how that counts.
CLAIMS = {"claimed by firmware": OK, "not on this machine": UNSUPPORTED}
WAITS = "waits for a reboot"
#: With one of these keys a task was left out on purpose; without, check mode could not run it.
ON_PURPOSE = ("skip_reason", "skipped_reason", "false_condition")


def of_drift(result: Mapping[str, Any]) -> Mapped | None:
    """Return findings, coverage and map of a result of epyc_drift as they are, None where it has none."""
    if not {"findings", "coverage"} <= result.keys():
        return None
    return result["findings"], result["coverage"], result.get("map")


def of_repair(result: Mapping[str, Any]) -> Mapped | None:
    """Return the same of a result of epyc_repair in check mode: all that is not as configured."""
    kinds = ("repaired", "given_up", "left", "left_alone")
    if not {"coverage", *kinds} <= result.keys():
        return None
    return [one for kind in kinds for one in result[kind]], result["coverage"], None


def unreadable(task: str, role: str, action: str, error: Exception) -> Seen:
    """Return that a result could not be read: what its task is about is unknown, and never fine."""
    module = action.rpartition(".")[2]
    reason = (
        f"the report cannot read what this task returned ({describe_error(error)}), so it is not known whether the "
        "host is as configured. Look there, and report this as a fault of the collection"
    )
    findings, coverage = _one(task, role, MODULES.get(module, OTHER), UNKNOWN, reason)
    findings[0]["repair"] = LOOK
    return findings, {layer: {UNKNOWN: 1} for layer in LAYERS} if module == DRIFT_MODULE else coverage


def of_check(task: str, role: str, action: str, result: Mapping[str, Any], skipped: bool = False) -> Seen:
    """Return what a task reports in check mode. ``role`` is the short name of its role, empty for none."""
    module = action.rpartition(".")[2]
    if module == LAST_RUN:
        # Where nothing would change, it has looked for all layers; else each of them has a task of its own.
        return [], result.get("coverage", {})
    layer = MODULES.get(module, OTHER)
    if any(key in result for key in ON_PURPOSE):
        return [], {}
    if module == BIOS_MODULE:
        return of_bios(task, result)
    items = result.get("results")
    if isinstance(items, list) and all(isinstance(item, dict) for item in items):
        seen = [of_check(task, role, action, item, skipped or bool(item.get("skipped"))) for item in items]
        return [one for findings, dummy in seen for one in findings], _added([counts for dummy, counts in seen])
    if skipped:
        return _one(task, role, layer, UNKNOWN, str(result.get("msg") or "check mode skipped it"))
    if not result.get("changed") or module in CHANGE_NOTHING:
        return [], {layer: {**dict.fromkeys(STATUSES, 0), OK: 1}}
    diff = result.get("diff")
    changes = diff.get("changes") if isinstance(diff, dict) else None
    before = changes.get("before") if isinstance(changes, dict) else None
    after = changes.get("after") if isinstance(changes, dict) else None
    if action.startswith("sovereign.epyc.") and isinstance(before, dict) and isinstance(after, dict):
        return _of_addresses(role, before, after, PUT_BACK if module == RESTORE_MODULE else "")
    reason = HIDDEN if "censored" in result else "the task would change it"
    where = result.get("dest") or result.get("path") or result.get("name") or result.get("item") or ""
    return _one(task, role, layer, DRIFT, reason, where if isinstance(where, str) else "")


def of_bios(task: str, result: Mapping[str, Any]) -> Seen:
    """Return what a BMC says of the settings that are asked for; unknown where it did not answer, never fine."""
    rows = result.get("settings")
    if rows is None:
        return _one(task, BIOS, BIOS, UNKNOWN, str(result.get("msg") or "the BMC did not say"))
    findings, counts = [], dict.fromkeys(STATUSES, 0)
    for row in rows:
        status = CLAIMS.get(row["verdict"], DRIFT)
        counts[status] += 1
        if status == OK:
            continue
        finding = Finding(BIOS, row["title"], status)
        finding.where = row["attribute"] or ""
        finding.wanted, finding.found = str(row["wanted"]), "" if row["active"] is None else str(row["active"])
        finding.pending_reboot = row["verdict"] == WAITS
        finding.at_boot = finding.wanted if finding.pending_reboot else finding.found
        finding.live = DRIFT if status == DRIFT else OK
        finding.persistent = OK if finding.pending_reboot else finding.live
        finding.reason = row["sentence"].rstrip(".")
        finding.role, finding.variables = BIOS, [f"bios_{row['option']}"]
        finding.repair = f"{REBOOT} -e epyc_reboot_ok=true" if finding.pending_reboot else f"{SITE} --tags {BIOS}"
        finding.addresses = [f"bios:{row['attribute'] or row['option']}"]
        findings.append(finding.to_dict())
    return findings, {BIOS: counts}


def _one(task: str, role: str, layer: str, status: str, reason: str, where: str = "") -> Seen:
    finding = Finding(layer, task, status)
    finding.where = where
    finding.live = finding.persistent = UNKNOWN
    if status == DRIFT:
        finding.live = DRIFT
    finding.reason = reason
    finding.role = role
    finding.addresses = [f"task:{role}/{task}/{where}"]
    return [finding.to_dict()], {layer: {**dict.fromkeys(STATUSES, 0), status: 1}}


def _of_addresses(role: str, before: Mapping[str, Any], after: Mapping[str, Any], reason: str = "") -> Seen:
    verdicts = []
    for address, wanted in after.items():
        prefix = address.partition(":")[0]
        known = [one for one, name in ROLES.items() if name == role and one.startswith(f"{prefix}/")]
        verdict = Verdict(known[0] if known else "", address, wanted)
        verdict.reason = reason
        row = row_of(address) or find_kind(address)
        if row and row.outlives_boot(address.partition(":")[2]):
            # Before and after are of the next boot.
            verdict.at_boot, verdict.persistent = before.get(address), DRIFT
            layer = drift_findings.layer_of(address)
            if layer in (BOOT, LLAMA):
                verdict.found, verdict.live = before.get(address), OK if layer == BOOT else DRIFT
        else:
            verdict.found, verdict.live = before.get(address), DRIFT
            verdict.at_boot = wanted
        verdicts.append(verdict)
    findings = drift_findings.findings(verdicts)
    for finding in findings:
        finding.role = finding.role or role
        # What does it is the run itself, without --check.
        finding.repair = ""
    coverage = _added([{drift_findings.layer_of(v.address): {drift_findings.status(v): 1}} for v in verdicts])
    return [finding.to_dict() for finding in findings], coverage


def _added(counts: list[dict[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
    total: dict[str, dict[str, int]] = {}
    for row in counts:
        for layer, statuses in row.items():
            mine = total.setdefault(layer, dict.fromkeys(STATUSES, 0))
            for status, count in statuses.items():
                mine[status] += count
    return {layer: total[layer] for layer in LAYERS if layer in total}
