# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans of hosts for tests, pictures and benchmarks: what epyc_plan returns on each kind of machine."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._host import map_data, plan_text
from ansible_collections.sovereign.epyc.plugins.module_utils._host.intent import Intent
from ansible_collections.sovereign.epyc.plugins.module_utils._host.plan import build_plan
from ansible_collections.sovereign.epyc.plugins.plugin_utils._plan_page.fleet_plans import (
    UNREACHABLE,
    Document,
    PlanCollector,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

NOW = "2026-11-21T12:00:00Z"
#: Kind of machine -> the memory of a node, and the L3 of draft, verify and the default group.
KINDS = {
    "9754": ("188.6 GiB", "12MiB", "12MiB", "4MiB"),
    "9754 SMT": ("188.6 GiB", "12MiB", "10MiB", "4MiB"),
    "9654": ("94.1 GiB", "24MiB", "24MiB", "8MiB"),
    "9354": ("94.1 GiB", "24MiB", "24MiB", "8MiB"),
    "two 7543": ("251.7 GiB", "24MiB", "20MiB", "8MiB"),
    "9655": ("755.3 GiB", "24MiB", "24MiB", "8MiB"),
    "Zen 6 sample": ("1007.6 GiB", "48MiB", "48MiB", "16MiB"),
    "two 9996": ("1007.6 GiB", "96MiB", "96MiB", "32MiB"),
}


@cache
def _planned(kind: str) -> dict[str, Any]:
    memory, draft, verify, default = KINDS[kind]
    top = hosts.standing(kind).topology()
    raw = {"draft": {"ccds": 1, "l3": draft}, "verify": {"l3": verify}, "default": {"l3": default}}
    result = build_plan(Intent.from_options(raw), top)
    data = map_data.build_map_data(result, top)
    for node in data["nodes"]:
        node.update(memory=memory, hugepages={"2048kB": 5120})
    return {"map": data, "text": plan_text.render_plan(result, top)}


def result(kind: str, instances: int = 0) -> dict[str, Any]:
    """What epyc_plan returns on a machine of this kind with so many instances."""
    answer = copy.deepcopy(_planned(kind))
    answer["map"]["instances"] = [
        {
            "name": f"model-{number}",
            "cpus": answer["map"]["roles"]["verify"],
            "nodes": "0",
            "draft_cpus": answer["map"]["roles"]["draft"],
            "url": f"http://127.0.0.1:{8080 + number}",
        }
        for number in range(instances)
    ]
    return answer


def stream(count: int) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Hosts of all kinds with up to six instances, so that dozens of plans differ; one of a hundred has no answer."""
    for number in range(count):
        kind = list(KINDS)[number % len(KINDS)]
        name = f"epyc{kind.split()[-1].lower()}-{number:05d}.example"
        yield name, None if number % 100 == 50 else result(kind, number // 10 % 7)


def gathered(answers: dict[str, Any]) -> Document:
    """The report on hosts with these answers; None stands for a host that could not be reached."""
    gathering = PlanCollector()
    for name, answer in answers.items():
        if answer is None:
            gathering.record_host_failure(name, UNREACHABLE, "Read the topology and plan", "No route to <host>")
        else:
            gathering.add_plan(name, answer)
    return gathering.build_document(NOW)
