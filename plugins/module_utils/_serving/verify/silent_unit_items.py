# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checklist items on units that answer no requests on this host: an RPC worker, and a part of an instance of vLLM.

Only another host gives them work, so this host cannot prove that their threads are busy. The CPUs on which their
threads may run, and the nodes of their memory, can be checked.
"""

from __future__ import annotations

from ..._drift.next_step import stopped_unit_advice
from ..._errors import TuningError
from ..._knobs.managed_units import BETWEEN_STATES, read_unit_properties, unit_state
from ..._verify.checklist_items import OK, UNKNOWN, WRONG, Item
from ..._verify.placement.watch import ServiceWatch
from ..options.unit_names import WORKER_UNIT as UNIT
from ..unit import installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..unit.installed import InstalledUnit

WORKER_NAME = "rpc-worker"
REPAIR_ADVICE = "Run group.yml."


def check_rpc_worker(host: Host, clock: Any) -> list[Item]:
    """Return the items on the RPC worker of this host; none without a worker."""
    is_there, plan = installed.read_rpc_worker_plan(host.fs.root)
    if not is_there:
        return []
    if plan is None:
        sentence = f"{UNIT} carries no plan, or a part of one. {REPAIR_ADVICE}"
        return [build_item("service", WORKER_NAME, UNKNOWN, sentence)]
    changed = installed.list_files_with_other_size_or_time(plan["programs"])
    return _check_files_and_placement(host, WORKER_NAME, UNIT, f"at {plan['address']}", plan["expect"], changed, clock)


def check_part_without_requests(host: Host, instance: InstalledUnit, plan: Mapping[str, Any], clock: Any) -> list[Item]:
    """Return the items on this host's part of an instance whose requests another host answers."""
    changed = installed.list_files_replaced_since_load(plan)
    role = f"as a part of {plan['details']['hosts']} hosts"
    return _check_files_and_placement(host, instance.name, instance.unit, role, plan["expect"], changed, clock)


def _check_files_and_placement(
    host: Host, name: str, unit: str, role: str, expect: Mapping[str, Any], changed_files: list[str], clock: Any
) -> list[Item]:
    """Return an item on whether a unit runs with its planned files, and an item on its CPUs and memory."""
    running_item = _build_running_item(name, unit, role, changed_files)
    if running_item.found == "active":
        return [running_item, _placement_item(host, name, unit, expect, clock)]
    return [running_item, build_item("placement", name, UNKNOWN, "It is down.")]


def build_item(kind: str, name: str, verdict: str, sentence: str, found: object = None) -> Item:
    """Return the item of this kind on an instance, a model of it, or a worker."""
    return Item(f"{kind}/{name}", f"{kind} of {name}", verdict, sentence, found=None if found is None else str(found))


def judge_unit_placement(
    name: str, verdicts: Sequence[Mapping[str, Any]], shown_verdict_names: Sequence[str], advice: str
) -> Item:
    """Return the item on where a unit runs; where all is right, with the sentences of the shown verdicts."""
    wrong = [verdict for verdict in verdicts if verdict["verdict"] not in (OK, UNKNOWN)]
    unknown = [verdict for verdict in verdicts if verdict["verdict"] == UNKNOWN]
    reported = wrong or unknown or [verdict for verdict in verdicts if verdict["name"] in shown_verdict_names]
    sentence = " ".join(dict.fromkeys(verdict["sentence"] for verdict in reported))
    if wrong:
        return build_item("placement", name, WRONG, f"{sentence} {advice}")
    return build_item("placement", name, UNKNOWN if unknown else OK, sentence)


def _build_running_item(name: str, unit: str, role: str, changed_files: list[str]) -> Item:
    try:
        state = unit_state(read_unit_properties([unit]).get(unit, {})) or "unknown to systemd"
    except TuningError as error:
        return build_item("service", name, UNKNOWN, str(error))
    if state in BETWEEN_STATES:
        return build_item("service", name, UNKNOWN, f"{unit} is {state}. Ask again when it is active.", state)
    if state != "active":
        sentence = f"{unit} is {state}, so that the server that uses this unit is down too. {stopped_unit_advice(unit)}"
        return build_item("service", name, WRONG, sentence, state)
    if changed_files:
        sentence = f"{changed_files[0]} was replaced or removed since {unit} was planned. {REPAIR_ADVICE}"
        return build_item("service", name, WRONG, sentence, state)
    return build_item("service", name, OK, f"{unit} is active {role}.", state)


def _placement_item(host: Host, name: str, unit: str, expect: Mapping[str, Any], clock: Any) -> Item:
    try:
        options = {"service": unit, "cpus": expect["cpus"], "nodes": expect["nodes"]}
        proof: Any = ServiceWatch(host, options, clock).prove_placement_now()
    except TuningError as error:
        return build_item("placement", name, UNKNOWN, f"Not known: {error}")
    verdicts = proof["verdicts"]
    return judge_unit_placement(name, verdicts, [verdict["name"] for verdict in verdicts], REPAIR_ADVICE)
