# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plans of a fleet as plain data, gathered host by host: equal ones are kept once, with their hosts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.words import natural
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import map_schema
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.hostnames import fold
from ansible_collections.sovereign.epyc.plugins.plugin_utils._schema import Malformed, describe_error

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

UNREACHABLE, FAILED = "unreachable", "failed"
UNREADABLE = "the page cannot read what this host returned"

Document = dict[str, Any]


class Gathering:
    """Takes results in any order; the document does not depend on it."""

    def __init__(self) -> None:
        #: JSON text of a map and of the lines of the plan for people -> the hosts that have it.
        self._plans: dict[str, list[str]] = {}
        #: The same of the state, the task and the message of a host without a plan.
        self._errors: dict[str, list[str]] = {}
        self._hosts: set[str] = set()

    def add(self, name: str, result: Mapping[str, Any]) -> None:
        """Add a result of epyc_plan; one of another shape is an error of its host. The first of a host stands."""
        try:
            map_schema.host_map(result.get("map"))
            if not isinstance(result.get("text"), str):
                raise Malformed("text is missing")
            text = json.dumps({"map": result["map"], "lines": result["text"].split("\n")}, sort_keys=True)
        except (Malformed, TypeError, ValueError, RecursionError) as error:
            self.fail(name, FAILED, UNREADABLE, describe_error(error))
            return
        self._note(self._plans, text, name)

    def fail(self, name: str, state: str, task: str, message: str) -> None:
        """Note that a host has no plan."""
        error = {"state": state, "task": task, "message": " ".join(message.split())}
        self._note(self._errors, json.dumps(error, sort_keys=True), name)

    @property
    def names(self) -> Collection[str]:
        """Return the names of the hosts."""
        return self._hosts

    @property
    def has_plans(self) -> bool:
        """Return True if a host has a plan."""
        return bool(self._plans)

    def only(self, name: str) -> Gathering:
        """Return what is known of one host alone."""
        alone = Gathering()
        for mine, rows in ((alone._plans, self._plans), (alone._errors, self._errors)):
            mine.update({text: [name] for text, names in rows.items() if name in names})
        alone._hosts = {name}
        return alone

    def set_aside(self, name: str, error: Exception) -> None:
        """Replace what a host answered by the error that it could not be read."""
        for rows in (self._plans, self._errors):
            for text in [text for text, names in rows.items() if name in names]:
                rows[text].remove(name)
                if not rows[text]:
                    del rows[text]
        self._hosts.remove(name)
        self.fail(name, FAILED, UNREADABLE, describe_error(error))

    def _note(self, rows: dict[str, list[str]], text: str, name: str) -> None:
        if name not in self._hosts:
            self._hosts.add(name)
            rows.setdefault(text, []).append(name)

    def document(self, generated: str) -> Document:
        """Return the report: plans of many hosts come first, and before them hosts that have none."""
        return {
            "generated": generated,
            "hosts": len(self._hosts),
            "errors": _folded(self._errors),
            "plans": _folded(self._plans),
        }


def _folded(rows: Mapping[str, list[str]]) -> list[Document]:
    sorted_names = [(text, sorted(names, key=natural)) for text, names in rows.items()]
    order = sorted(sorted_names, key=lambda row: (-len(row[1]), natural(row[1][0])))
    return [{"hosts": names, "label": fold(names), **json.loads(text)} for text, names in order]
