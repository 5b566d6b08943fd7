# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The drift report of a fleet as plain data, collected host by host. Every format is rendered from this document.

docs/drift-report.schema.json describes the document. Equal findings are stored once, with the names of their hosts, so
that a fleet with the same drift everywhere needs no more space than one host.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import (
    LAYER_ORDER,
    LAYERS,
    STATUSES,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.words import natural_sort_key
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.address_kinds import OTHER
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import schema, task_results
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report.commands import (
    RunWithoutCheck,
    build_next_repair_field,
    format_repair_command,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import map_schema
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.hostnames import fold_host_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

VERSION = 3
#: Versions of earlier reports that this version can read: version 1 had no maps, version 2 did not mark checks.
READABLE_VERSIONS = (1, 2, 3)
KIND = "sovereign.epyc.drift"
UNREACHABLE, FAILED, DRIFT, UNKNOWN, CLEAN = "unreachable", "failed", "drift", "unknown", "clean"
#: The states of a host in the order of the report: the most urgent first.
STATES = (UNREACHABLE, FAILED, DRIFT, UNKNOWN, CLEAN)
#: The status of a layer on a host that could not be checked.
NOT_CHECKED = "unseen"

Document = dict[str, Any]


class HostRow:
    """The findings, counts, map and error of one host."""

    __slots__ = ("coverage", "error", "findings", "map")

    def __init__(self) -> None:
        #: The state of the host (unreachable or failed), the task that failed, and its message.
        self.error: tuple[str, str, str] | None = None
        self.findings: list[int] = []
        self.coverage: dict[str, dict[str, int]] = {}
        #: The map of the host as JSON text, None where no task returned one.
        self.map: str | None = None


class ResultCollector:
    """Collects the results of tasks. The order of the results does not change the document."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostRow] = {}
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._maps: dict[str, str] = {}
        self._coverages: dict[str, dict[str, dict[str, int]]] = {}

    def get_or_add_host_row(self, name: str) -> HostRow:
        """Return the row of a host, which is added where there is none."""
        return self.hosts.setdefault(name, HostRow())

    def add_findings_counts_and_map(
        self,
        name: str,
        findings: Iterable[Mapping[str, Any]],
        coverage: Mapping[str, Mapping[str, int]],
        host_map: object = None,
    ) -> None:
        """Add findings, counts by layer and a map to the row of a host. Raises Malformed for malformed data."""
        findings = list(findings)
        schema.validate_findings_and_counts(findings, coverage)
        if host_map is not None:
            map_schema.validate_host_map(host_map)
        row = self.get_or_add_host_row(name)
        if host_map is not None and findings:
            # Hosts with the same map share one text.
            text = json.dumps(host_map, sort_keys=True)
            row.map = self._maps.setdefault(text, text)
        for finding in findings:
            text = json.dumps({**finding, "reason": _collapse_blanks(finding["reason"])}, sort_keys=True)
            number = self._numbers.setdefault(text, len(self._texts))
            if number == len(self._texts):
                self._texts.append(text)
            if number not in row.findings:
                row.findings.append(number)
        merged = task_results.sum_counts_by_layer_and_status([row.coverage, coverage])
        # Hosts with the same counts share one table.
        row.coverage = self._coverages.setdefault(json.dumps(merged, sort_keys=True), merged)

    def remove_layer_counts(self, name: str, layer: str) -> None:
        """Remove the counts of a layer from the row of a host."""
        row = self.get_or_add_host_row(name)
        row.coverage = {other: counts for other, counts in row.coverage.items() if other != layer}

    def record_host_failure(self, name: str, state: str, task: str, message: str) -> None:
        """Note why a host could not be checked; a later failure does not replace the first one."""
        row = self.get_or_add_host_row(name)
        row.error = row.error or (state, task, _collapse_blanks(message))

    @property
    def host_names(self) -> Collection[str]:
        """Return the names of all hosts that have a row."""
        return self.hosts.keys()

    def single_host_collector(self, name: str) -> ResultCollector:
        """Return a collector with the row of one host only."""
        collector = ResultCollector()
        collector.hosts = {name: self.hosts[name]}
        collector._texts = self._texts
        return collector

    def replace_results_by_read_error(self, name: str, error: Exception) -> None:
        """Replace the results of a host by a finding that they could not be read. An error of the host stays."""
        failed = self.hosts[name].error
        self.hosts[name] = HostRow()
        self.add_findings_counts_and_map(
            name,
            *task_results.unreadable_result_finding("all results of this host", "", task_results.DRIFT_MODULE, error),
        )
        self.hosts[name].error = failed

    def build_document(
        self,
        *,
        generated: str,
        previous: Document | None = None,
        inventory: Sequence[str] = (),
        hosts_pattern: str = "",
        check: RunWithoutCheck | None = None,
    ) -> Document:
        """Return the report as plain data.

        ``generated`` is the time of the report, ``previous`` the report to compare with, and ``inventory`` holds the
        inventories as a command line names them. ``hosts_pattern`` is the extra variable epyc_hosts of the run.
        ``check`` is the run that a report in check mode is about; without it, the report is about drift.
        """
        earlier = PreviousReport(previous, generated)
        names = sorted(self.hosts, key=natural_sort_key)
        finding_ids = self._assign_finding_ids(names)
        drawn = dict.fromkeys(row.map for row in map(self.hosts.__getitem__, names) if row.map is not None)
        map_numbers = {text: number for number, text in enumerate(drawn)}
        rows = [self._build_host_row(name, finding_ids, earlier, map_numbers) for name in names]
        findings = self._build_findings(finding_ids, rows, generated, inventory, hosts_pattern, check)
        resolved = earlier.resolved_findings(rows, {finding["id"]: finding for finding in findings})
        states = [row["state"] for row in rows]
        return {
            "kind": KIND,
            "version": VERSION,
            "check": check is not None,
            "generated": generated,
            "previous": earlier.generated,
            "summary": {
                "hosts": len(rows),
                "states": {state: states.count(state) for state in STATES},
                "findings": len(findings),
                "new": sum(bool(finding["new"]) for finding in findings),
                "gone": len(resolved),
                "settings": _count_settings_by_status(rows),
            },
            "layers": [{"name": layer, "title": title} for layer, title in LAYERS.items()],
            "groups": _group_hosts_by_state_and_findings(rows),
            "findings": findings,
            "next": check.build_next_step_field([row["name"] for row in rows if row["findings"]])
            if check
            else build_next_repair_field(findings, inventory, hosts_pattern),
            "gone": resolved,
            "maps": [json.loads(text) for text in map_numbers],
            "hosts": rows,
        }

    def _assign_finding_ids(self, hosts: Sequence[str]) -> dict[int, int]:
        """Return number -> id of each finding: ids count by layer, and in a layer by the number of hosts."""
        host_counts = [0] * len(self._texts)
        for host in hosts:
            for number in self.hosts[host].findings:
                host_counts[number] += 1
        data = {number: json.loads(self._texts[number]) for number, count in enumerate(host_counts) if count}

        def sort_key(number: int) -> tuple[object, ...]:
            finding = data[number]
            setting = natural_sort_key(f"{finding['what']} {finding['where']}")
            return LAYER_ORDER.index(finding["layer"]), -host_counts[number], setting, self._texts[number]

        return {number: place for place, number in enumerate(sorted(data, key=sort_key), 1)}

    def _build_host_row(
        self, name: str, finding_ids: Mapping[int, int], earlier: PreviousReport, map_numbers: Mapping[str, int]
    ) -> Document:
        row = self.hosts[name]
        numbers = sorted(row.findings, key=finding_ids.__getitem__)
        findings = [json.loads(self._texts[number]) for number in numbers]
        state = CLEAN
        if row.error:
            state = row.error[0]
        elif findings:
            # An unsupported setting is known to differ from the request, so it counts as drift of the host.
            state = UNKNOWN if {finding["status"] for finding in findings} == {UNKNOWN} else DRIFT
        elif not row.coverage:
            state = UNKNOWN
        document: Document = {
            "name": name,
            "state": state,
            "findings": [finding_ids[number] for number in numbers],
            "since": [earlier.first_report_date(name, finding) for finding in findings],
            "coverage": row.coverage,
        }
        if row.map is not None:
            document["map"] = map_numbers[row.map]
        if row.error:
            document["error"] = {"task": row.error[1], "message": row.error[2]}
        if row.error and not findings and earlier.earlier_findings_of_host(name):
            document["last_known"] = earlier.earlier_findings_of_host(name)
        return document

    def _build_findings(
        self,
        finding_ids: Mapping[int, int],
        rows: Sequence[Document],
        generated: str,
        inventory: Sequence[str],
        hosts_pattern: str,
        check: RunWithoutCheck | None,
    ) -> list[Document]:
        hosts: dict[int, list[str]] = {}
        since: dict[int, list[str]] = {}
        for row in rows:
            for number, date in zip(row["findings"], row["since"]):
                hosts.setdefault(number, []).append(row["name"])
                since.setdefault(number, []).append(date)
        result = []
        for number, finding_id in finding_ids.items():
            finding = json.loads(self._texts[number])
            finding["command"] = format_repair_command(finding["repair"], hosts[finding_id], inventory, hosts_pattern)
            if check and not finding["repair"] and finding["status"] == DRIFT:
                finding["command"] = check.format_command_for_hosts(hosts[finding_id])
            finding["since"] = min(since[finding_id])
            dated = zip(hosts[finding_id], since[finding_id])
            finding["new"] = [host for host, date in dated if date == generated]
            names = hosts[finding_id]
            result.append({"id": finding_id, "hosts": names, "label": fold_host_names(names), **finding})
        return sorted(result, key=lambda finding: finding["id"])


class PreviousReport:
    """The report before this report, which knows since when settings differ, and which findings are resolved now."""

    def __init__(self, document: Document | None, now: str) -> None:
        self.now = now
        self.generated = document["generated"] if document else None
        self._known: dict[str, list[Document]] = {}
        findings = {finding["id"]: finding for finding in document["findings"]} if document else {}
        for row in document["hosts"] if document else []:
            dated = [{**findings[number], "since": date} for number, date in zip(row["findings"], row["since"])]
            self._known[row["name"]] = [
                _fields_for_next_report(finding) for finding in dated or row.get("last_known", [])
            ]
        self._since = {
            (name, address): finding["since"]
            for name, known in self._known.items()
            for finding in known
            for address in finding["addresses"]
        }

    def earlier_findings_of_host(self, host: str) -> list[Document]:
        """Return the findings of a host in the earlier report. For an unreachable host these are the last known."""
        return self._known.get(host, [])

    def first_report_date(self, host: str, finding: Mapping[str, Any]) -> str:
        """Return when a finding was first reported: the oldest date of its addresses, now for a new finding."""
        keys = [(host, address) for address in finding["addresses"]]
        dates = [self._since[key] for key in keys if key in self._since]
        return min(dates, default=self.now)

    def resolved_findings(self, rows: Sequence[Document], findings: Mapping[int, Document]) -> list[Document]:
        """Return the earlier findings whose addresses have no finding now, on hosts that could be checked."""
        hosts: dict[str, list[str]] = {}
        for row in rows:
            if row["state"] in (UNREACHABLE, FAILED):
                continue
            wrong = {address for number in row["findings"] for address in findings[number]["addresses"]}
            for finding in self.earlier_findings_of_host(row["name"]):
                if not wrong & set(finding["addresses"]):
                    hosts.setdefault(json.dumps(finding, sort_keys=True), []).append(row["name"])
        result = [
            {"hosts": names, "label": fold_host_names(names), **json.loads(text)} for text, names in hosts.items()
        ]

        def sort_key(finding: Document) -> tuple[object, ...]:
            return LAYER_ORDER.index(finding["layer"]), natural_sort_key(finding["label"]), finding["what"]

        return sorted(result, key=sort_key)


def report_exit_code(document: Document) -> int:
    """Return 0 when all is as configured, 2 on drift, and 1 where a host, or every host, could not be checked."""
    states = document["summary"]["states"]
    if states[UNREACHABLE] or states[FAILED] or not document["summary"]["hosts"]:
        return 1
    return 2 if states[DRIFT] or states[UNKNOWN] else 0


def worst_layer_status(host_row: Document, layer: str) -> str:
    """Return the worst status of the settings of a layer on a host; "" if the host has no settings of the layer."""
    counts = host_row["coverage"].get(layer, {})
    status = next((status for status in reversed(STATUSES) if counts.get(status)), "")
    # A run that failed did not reach the layers after the layer that failed.
    return status or (NOT_CHECKED if "error" in host_row or not host_row["coverage"] else "")


def _fields_for_next_report(finding: Document) -> Document:
    """Return the fields of a finding that the next report compares with; an unknown layer becomes "other"."""
    known = {name: finding[name] for name in (*schema.REMEMBERED_FIELDS, "since")}
    return {**known, "layer": known["layer"] if known["layer"] in LAYERS else OTHER}


def _group_hosts_by_state_and_findings(rows: Sequence[Document]) -> list[Document]:
    """Return groups of hosts that have the same state, findings and error."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    errors: dict[tuple[Any, ...], Document] = {}
    for row in rows:
        error = row.get("error", {})
        key = (STATES.index(row["state"]), tuple(row["findings"]), error.get("task", ""), error.get("message", ""))
        groups.setdefault(key, []).append(row["name"])
        errors[key] = error
    return [
        {
            "state": STATES[key[0]],
            "label": fold_host_names(names),
            "hosts": names,
            "findings": list(key[1]),
            **({"error": errors[key]} if errors[key] else {}),
        }
        for key, names in sorted(
            groups.items(), key=lambda item: (item[0][0], -len(item[1]), natural_sort_key(item[1][0]))
        )
    ]


def _collapse_blanks(text: str) -> str:
    return " ".join(text.split())


def _count_settings_by_status(rows: Sequence[Document]) -> dict[str, int]:
    """Return the number of settings of all hosts by status."""
    layers = [counts for row in rows for counts in row["coverage"].values()]
    return {status: sum(counts.get(status, 0) for counts in layers) for status in STATUSES}
