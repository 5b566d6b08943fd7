# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plans of a fleet as plain data, collected host by host. Equal plans are stored once, with their hosts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.words import natural_sort_key
from ansible_collections.sovereign.epyc.plugins.plugin_utils._host_data import Malformed, format_error_class_and_message
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import map_schema
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.hostnames import fold_host_names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

UNREACHABLE, FAILED = "unreachable", "failed"
UNREADABLE = "the page cannot read what this host returned"

Document = dict[str, Any]


class PlanCollector:
    """Collects the results of tasks. The document does not depend on their order."""

    def __init__(self) -> None:
        #: JSON text of a map with the plan in words -> the hosts that have this plan.
        self._plans: dict[str, list[str]] = {}
        #: JSON text of the state, the task and the message of a failure -> the hosts without a plan that have it.
        self._errors: dict[str, list[str]] = {}
        self._hosts: set[str] = set()

    def add_plan(self, name: str, result: Mapping[str, Any]) -> None:
        """Add a result of epyc_plan; a malformed result becomes a failure. Later results of a host are ignored."""
        try:
            map_schema.validate_host_map(result.get("map"))
            if not isinstance(result.get("text"), str):
                raise Malformed("text is missing")
            text = json.dumps({"map": result["map"], "lines": result["text"].split("\n")}, sort_keys=True)
        except (Malformed, TypeError, ValueError, RecursionError) as error:
            self.record_host_failure(name, FAILED, UNREADABLE, format_error_class_and_message(error))
            return
        self._add_first_result_of_host(self._plans, text, name)

    def record_host_failure(self, name: str, state: str, task: str, message: str) -> None:
        """Note why a host has no plan."""
        error = {"state": state, "task": task, "message": " ".join(message.split())}
        self._add_first_result_of_host(self._errors, json.dumps(error, sort_keys=True), name)

    @property
    def host_names(self) -> Collection[str]:
        """Return the names of the hosts."""
        return self._hosts

    @property
    def has_plans(self) -> bool:
        """Return True if a host has a plan."""
        return bool(self._plans)

    def single_host_collector(self, name: str) -> PlanCollector:
        """Return a collector with the plan or the failure of one host only."""
        collector = PlanCollector()
        for copy, rows in ((collector._plans, self._plans), (collector._errors, self._errors)):
            copy.update({text: [name] for text, names in rows.items() if name in names})
        collector._hosts = {name}
        return collector

    def replace_results_by_read_error(self, name: str, error: Exception) -> None:
        """Replace the plan of a host by the failure that the page cannot read the plan."""
        for rows in (self._plans, self._errors):
            for text in [text for text, names in rows.items() if name in names]:
                rows[text].remove(name)
                if not rows[text]:
                    del rows[text]
        self._hosts.remove(name)
        self.record_host_failure(name, FAILED, UNREADABLE, format_error_class_and_message(error))

    def _add_first_result_of_host(self, rows: dict[str, list[str]], text: str, name: str) -> None:
        """Add a host to the hosts with the same text; a later result of the host is ignored."""
        if name not in self._hosts:
            self._hosts.add(name)
            rows.setdefault(text, []).append(name)

    def build_document(self, generated: str) -> Document:
        """Return the document of the page: hosts without a plan, and the plans. Plans of many hosts come first."""
        return {
            "generated": generated,
            "hosts": len(self._hosts),
            "errors": _rows_by_number_of_hosts(self._errors),
            "plans": _rows_by_number_of_hosts(self._plans),
        }


def _rows_by_number_of_hosts(rows: Mapping[str, list[str]]) -> list[Document]:
    sorted_names = [(text, sorted(names, key=natural_sort_key)) for text, names in rows.items()]
    order = sorted(sorted_names, key=lambda row: (-len(row[1]), natural_sort_key(row[1][0])))
    return [{"hosts": names, "label": fold_host_names(names), **json.loads(text)} for text, names in order]
