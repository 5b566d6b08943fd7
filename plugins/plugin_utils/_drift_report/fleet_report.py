# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a fleet as plain data, gathered host by host: the one document that every format is made from.

docs/drift-report.schema.json describes the document. Equal findings are kept once, with the hosts that have them, so
that a fleet with the same drift everywhere costs no more than a host.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import (
    LAYERS,
    ORDER,
    STATUSES,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.next_step import PLAYBOOKS
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.words import natural
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.address_kinds import OTHER
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import schema, task_results
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import escaping, map_schema
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.hostnames import fold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

VERSION = 3
#: Those that the next report can be compared with: the first one had no maps, the second one did not mark checks.
READABLE = (1, 2, 3)
KIND = "sovereign.epyc.drift"
UNREACHABLE, FAILED, DRIFT, UNKNOWN, CLEAN = "unreachable", "failed", "drift", "unknown", "clean"
#: What a host can be, in the order of the report: the most urgent first.
STATES = (UNREACHABLE, FAILED, DRIFT, UNKNOWN, CLEAN)
#: Of a layer on a host that could not be looked at, beside the statuses of settings.
UNSEEN = "unseen"

Document = dict[str, Any]


class HostRow:
    """What is known of one host."""

    __slots__ = ("coverage", "error", "findings", "map")

    def __init__(self) -> None:
        #: The state that the error makes, the task, and the message.
        self.error: tuple[str, str, str] | None = None
        self.findings: list[int] = []
        self.coverage: dict[str, dict[str, int]] = {}
        #: The map as JSON, where there is one.
        self.map: str | None = None


class Gathering:
    """Takes results in any order; the document does not depend on it."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostRow] = {}
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._maps: dict[str, str] = {}
        self._coverages: dict[str, dict[str, dict[str, int]]] = {}

    def host(self, name: str) -> HostRow:
        """Return the row of a host, a new one where there is none."""
        return self.hosts.setdefault(name, HostRow())

    def add(
        self,
        name: str,
        findings: Iterable[Mapping[str, Any]],
        coverage: Mapping[str, Mapping[str, int]],
        host_map: object = None,
    ) -> None:
        """Add what was found on a host to what is known of it. Raises Malformed for what is of another shape."""
        findings = list(findings)
        schema.answer(findings, coverage)
        if host_map is not None:
            map_schema.host_map(host_map)
        row = self.host(name)
        if host_map is not None and findings:
            # Hosts that are alike share the text.
            text = json.dumps(host_map, sort_keys=True)
            row.map = self._maps.setdefault(text, text)
        for finding in findings:
            text = json.dumps({**finding, "reason": _one_line(finding["reason"])}, sort_keys=True)
            number = self._numbers.setdefault(text, len(self._texts))
            if number == len(self._texts):
                self._texts.append(text)
            if number not in row.findings:
                row.findings.append(number)
        merged = {layer: dict(counts) for layer, counts in row.coverage.items()}
        for layer, counts in coverage.items():
            mine = merged.setdefault(layer, dict.fromkeys(STATUSES, 0))
            for status, count in counts.items():
                mine[status] += count
        # Hosts that are alike have the same counts, and share them.
        row.coverage = self._coverages.setdefault(json.dumps(merged, sort_keys=True), merged)

    def forget_layer(self, name: str, layer: str) -> None:
        """Count nothing of a layer that was counted on a host."""
        row = self.host(name)
        row.coverage = {other: counts for other, counts in row.coverage.items() if other != layer}

    def fail(self, name: str, state: str, task: str, message: str) -> None:
        """Note that a host could not be looked at; the first reason stands."""
        row = self.host(name)
        row.error = row.error or (state, task, _one_line(message))

    @property
    def names(self) -> Collection[str]:
        """Return the names of the hosts."""
        return self.hosts.keys()

    def only(self, name: str) -> Gathering:
        """Return what is known of one host alone."""
        alone = Gathering()
        alone.hosts = {name: self.hosts[name]}
        alone._texts = self._texts
        return alone

    def set_aside(self, name: str, error: Exception) -> None:
        """Replace what a host answered by the finding that it could not be read. Why it failed stays."""
        failed = self.hosts[name].error
        self.hosts[name] = HostRow()
        self.add(name, *task_results.unreadable("all results of this host", "", task_results.DRIFT_MODULE, error))
        self.hosts[name].error = failed

    def document(
        self,
        *,
        generated: str,
        previous: Document | None = None,
        inventory: Sequence[str] = (),
        check: Again | None = None,
    ) -> Document:
        """Return the report. ``inventory`` holds what the inventories are called on a command line.

        ``check`` is the run that a report in check mode is of; without it, the report is one of drift.
        """
        past = Past(previous, generated)
        names = sorted(self.hosts, key=natural)
        order = self._order(names)
        drawn = dict.fromkeys(row.map for row in map(self.hosts.__getitem__, names) if row.map is not None)
        maps = {text: number for number, text in enumerate(drawn)}
        rows = [self._host(name, order, past, maps) for name in names]
        findings = self._findings(order, rows, generated, inventory, check)
        gone = past.gone(rows, {finding["id"]: finding for finding in findings})
        states = [row["state"] for row in rows]
        return {
            "kind": KIND,
            "version": VERSION,
            "check": check is not None,
            "generated": generated,
            "previous": past.generated,
            "summary": {
                "hosts": len(rows),
                "states": {state: states.count(state) for state in STATES},
                "findings": len(findings),
                "new": sum(bool(finding["new"]) for finding in findings),
                "gone": len(gone),
                "settings": _sum(row["coverage"] for row in rows),
            },
            "layers": [{"name": layer, "title": title} for layer, title in LAYERS.items()],
            "groups": _groups(rows),
            "findings": findings,
            "next": check.for_hosts([row["name"] for row in rows if row["findings"]]) if check else None,
            "gone": gone,
            "maps": [json.loads(text) for text in maps],
            "hosts": rows,
        }

    def _order(self, names: Sequence[str]) -> dict[int, int]:
        """Return number -> id: findings of more hosts come first in their layer, and ids follow that order."""
        hosts = [0] * len(self._texts)
        for name in names:
            for number in self.hosts[name].findings:
                hosts[number] += 1
        data = {number: json.loads(self._texts[number]) for number, count in enumerate(hosts) if count}
        ranks = sorted(
            data,
            key=lambda n: (ORDER.index(data[n]["layer"]), -hosts[n], natural(f"{data[n]['what']} {data[n]['where']}"),
                           self._texts[n]),
        )  # fmt: skip
        return {number: rank + 1 for rank, number in enumerate(ranks)}

    def _host(self, name: str, order: Mapping[int, int], past: Past, maps: Mapping[str, int]) -> Document:
        row = self.hosts[name]
        numbers = sorted(row.findings, key=order.__getitem__)
        found = [json.loads(self._texts[number]) for number in numbers]
        state = CLEAN
        if row.error:
            state = row.error[0]
        elif found:
            # What a host cannot have is known, and not as it was asked for.
            state = UNKNOWN if {one["status"] for one in found} == {UNKNOWN} else DRIFT
        elif not row.coverage:
            state = UNKNOWN
        document: Document = {
            "name": name,
            "state": state,
            "findings": [order[number] for number in numbers],
            "since": [past.since(name, one) for one in found],
            "coverage": row.coverage,
        }
        if row.map is not None:
            document["map"] = maps[row.map]
        if row.error:
            document["error"] = {"task": row.error[1], "message": row.error[2]}
        if row.error and not found and past.findings(name):
            document["last_known"] = past.findings(name)
        return document

    def _findings(
        self,
        order: Mapping[int, int],
        rows: Sequence[Document],
        generated: str,
        inventory: Sequence[str],
        check: Again | None,
    ) -> list[Document]:
        hosts: dict[int, list[str]] = {}
        since: dict[int, list[str]] = {}
        for row in rows:
            for number, date in zip(row["findings"], row["since"]):
                hosts.setdefault(number, []).append(row["name"])
                since.setdefault(number, []).append(date)
        result = []
        for number, rank in order.items():
            finding = json.loads(self._texts[number])
            finding["command"] = command(finding["repair"], hosts[rank], inventory)
            if check and not finding["repair"] and finding["status"] == DRIFT:
                finding["command"] = check.command(hosts[rank])
            finding["since"] = min(since[rank])
            dated = zip(hosts[rank], since[rank])
            finding["new"] = [host for host, date in dated if date == generated]
            result.append({"id": rank, "hosts": hosts[rank], "label": fold(hosts[rank]), **finding})
        return sorted(result, key=lambda finding: finding["id"])


class Again:
    """The same run without --check: the words of its command line, and whether it had variables that are not shown."""

    def __init__(self, words: Sequence[str], extra_variables: bool = False) -> None:
        self.words = words
        self.extra_variables = extra_variables

    def command(self, hosts: Sequence[str]) -> str:
        """Return the command line for these hosts."""
        return " ".join(map(escaping.quoted, [*self.words, "-l", ",".join(hosts)]))

    def for_hosts(self, hosts: Sequence[str]) -> Document | None:
        """Return the same as data; None for no hosts."""
        return {"command": self.command(hosts), "extra_variables": self.extra_variables} if hosts else None


class Past:
    """The report before this one: since when a setting has been wrong, and what is not wrong any more."""

    def __init__(self, document: Document | None, now: str) -> None:
        self.now = now
        self.generated = document["generated"] if document else None
        self._known: dict[str, list[Document]] = {}
        findings = {finding["id"]: finding for finding in document["findings"]} if document else {}
        for row in document["hosts"] if document else []:
            mine = [{**findings[number], "since": date} for number, date in zip(row["findings"], row["since"])]
            self._known[row["name"]] = [_remembered(one) for one in mine or row.get("last_known", [])]
        self._since = {
            (name, address): one["since"]
            for name, known in self._known.items()
            for one in known
            for address in one["addresses"]
        }

    def findings(self, host: str) -> list[Document]:
        """Return what was last known to be wrong with a host."""
        return self._known.get(host, [])

    def since(self, host: str, finding: Mapping[str, Any]) -> str:
        """Return when a finding was first reported: the oldest date of its addresses."""
        dates = [self._since[host, one] for one in finding["addresses"] if (host, one) in self._since]
        return min(dates, default=self.now)

    def gone(self, rows: Sequence[Document], findings: Mapping[int, Document]) -> list[Document]:
        """Return what was wrong then, and is not wrong now on a host that could be looked at."""
        hosts: dict[str, list[str]] = {}
        for row in rows:
            if row["state"] in (UNREACHABLE, FAILED):
                continue
            wrong = {address for number in row["findings"] for address in findings[number]["addresses"]}
            for one in self.findings(row["name"]):
                if not wrong & set(one["addresses"]):
                    hosts.setdefault(json.dumps(one, sort_keys=True), []).append(row["name"])
        result = [{"hosts": names, "label": fold(names), **json.loads(text)} for text, names in hosts.items()]
        return sorted(result, key=lambda one: (ORDER.index(one["layer"]), natural(one["label"]), one["what"]))


def command(repair: str, hosts: Sequence[str], inventory: Sequence[str]) -> str:
    """Return the command line that repairs a finding on these hosts, an empty text where none does."""
    where = [word for name in inventory for word in ("-i", name)]
    if not repair:
        return ""
    if repair.startswith(PLAYBOOKS):
        playbook, *options = repair.split()
        words = ["ansible-playbook", *where, playbook, "-l", ",".join(hosts), *options]
    else:
        words = ["ansible", ",".join(hosts), *where, "--become", "-m", "ansible.builtin.command", "-a", repair]
    return " ".join(map(escaping.quoted, words))


def exit_code(document: Document) -> int:
    """Return 0 when all is as configured, 2 on drift, 1 where a host could not be looked at or there was none."""
    states = document["summary"]["states"]
    if states[UNREACHABLE] or states[FAILED] or not document["summary"]["hosts"]:
        return 1
    return 2 if states[DRIFT] or states[UNKNOWN] else 0


def cell(row: Document, layer: str) -> str:
    """Return the worst status of the settings of a layer on a host, an empty text where no request names it."""
    counts = row["coverage"].get(layer, {})
    status = next((status for status in reversed(STATUSES) if counts.get(status)), "")
    # A run that failed on its way has not come to the other layers.
    return status or (UNSEEN if "error" in row or not row["coverage"] else "")


def _remembered(finding: Document) -> Document:
    """Return what of a finding is worth remembering of a host; a layer that is no more is among the others."""
    known = {name: finding[name] for name in (*schema.KNOWN, "since")}
    return {**known, "layer": known["layer"] if known["layer"] in LAYERS else OTHER}


def _groups(rows: Sequence[Document]) -> list[Document]:
    """Return hosts with equal state and drift together."""
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
            "label": fold(names),
            "hosts": names,
            "findings": list(key[1]),
            **({"error": errors[key]} if errors[key] else {}),
        }
        for key, names in sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1]), natural(item[1][0])))
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _sum(coverages: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, int]:
    total = dict.fromkeys(STATUSES, 0)
    for coverage in coverages:
        for counts in coverage.values():
            for status, count in counts.items():
                total[status] += count
    return total
