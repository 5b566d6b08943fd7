# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds drift in the units of instances: files that were changed, servers that do not run or will not start at the next
boot.

A unit carries its plan and a digest of its text, so nothing else is stored to compare the unit with.

Addresses: ``llama:UNIT/file``, ``llama:UNIT/drop-ins``, ``llama:UNIT/loaded``, ``llama:UNIT/enabled`` and
``llama:UNIT/active``. The values of the last two are words of systemd.
"""

from __future__ import annotations

from ..._drift import survey
from ..._drift.verdict import DRIFT, OK, Verdict, unreadable_address_verdict
from ..._errors import TuningError
from ..._io import textfile
from ..._io.kernelfs import KernelFS
from ..._io.paths import UNIT_FOLDER
from ..._knobs.managed_units import (
    BETWEEN_STATES,
    OLD,
    list_drop_ins_of_unit,
    read_unit_properties,
    runs_as_before_its_file_changed,
    unit_state,
)
from ..catalogue import LLAMA
from ..hooks.read_progress import describe_start_of_unit
from ..options.unit_names import WORKER_UNIT
from .installed import (
    is_unchanged_since_digest,
    list_changed_mapping_messages,
    list_files_replaced_since_load,
    list_files_with_other_size_or_time,
    list_installed_or_enabled_instances,
    missing_plan_message,
    parse_unit_plan,
    read_rpc_worker_plan,
    write_unit_again_message,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from ..._drift.requested import Layers
    from ..._io.store import Store

WRITTEN, PLANNED = "as it was written", "as they were planned"
CHANGED_BY_HAND = "the unit file was edited since, so the unit will not run as planned after its next start"
DROP_INS_ADDED = "somebody has added drop-ins, so the unit does not run as planned"
FILE_REMOVED = "the unit file is missing, although the link that starts the unit or the unit of its draft still exists"
NOT_INSTALLED = "the inventory wants this instance, which is not on this host"
NO_DIGEST = "an earlier version of the collection wrote the unit file, without a digest"
CHANGING_STATE = "{}; check again"


def check_settings_and_units(
    fs: KernelFS,
    requests: Mapping[str, Mapping[str, Any]] | None = None,
    intent: Mapping[str, Any] | None = None,
    layers: Layers | None = None,
    instances: Collection[str] | None = None,
    store: Store | None = None,
) -> survey.Survey:
    """Return all findings about a host: drift of its settings and of its units of instances.

    Everything that reports whether a host is as configured uses this: epyc_drift_info, epyc_verify, epyc_repair, the
    host tool sovereign-epyc, and the agent by the metrics of the check. ``layers`` are as for survey.check_host, and
    ``instances`` are the names of instances that the inventory wants here.
    """
    return survey.check_host(
        fs, requests, intent, store, extra_verdicts=list_unit_verdicts(fs.root, instances or ()), layers=layers
    )


def list_unit_verdicts(root: str = "/", instances: Collection[str] = ()) -> list[Verdict]:
    """Return the verdicts on the units of all instances, of an RPC worker, and of ``instances`` that are missing."""
    units = {}
    for instance in list_installed_or_enabled_instances(root):
        units[instance.unit] = instance.text
        for draft in instance.row.unit_names(instance.name)[1:]:
            text = textfile.read_text(textfile.path_in_tree(root, f"{UNIT_FOLDER}/{draft}"))
            units.update({} if text is None else {draft: text})
    is_there, plan = read_rpc_worker_plan(root)
    if is_there:
        units[WORKER_UNIT] = textfile.read_text(textfile.path_in_tree(root, f"{UNIT_FOLDER}/{WORKER_UNIT}")) or ""
    properties, unknown_reason = _read_unit_states_or_reason(units)
    missing = [LLAMA.unit_name(name) for name in instances if LLAMA.unit_name(name) not in units]
    verdicts = [_build_unit_verdict(unit, "file", WRITTEN, None, NOT_INSTALLED) for unit in missing]
    for unit, text in units.items():
        replaced_programs = (
            list_files_with_other_size_or_time(plan["programs"]) if unit == WORKER_UNIT and plan else None
        )
        verdicts += _judge_unit(unit, text, properties.get(unit, {}), unknown_reason, replaced_programs, root)
    return verdicts


def _read_unit_states_or_reason(units: Mapping[str, str]) -> tuple[Mapping[str, Mapping[str, str]], str]:
    """Return the properties of units by name, and the reason why systemd could not be asked."""
    try:
        return (read_unit_properties(units) if units else {}), ""
    except TuningError as error:
        return {}, str(error)


def _judge_unit(
    unit: str, text: str, properties: Mapping[str, str], unknown: str, replaced: list[str] | None, root: str
) -> list[Verdict]:
    """Return the verdicts on a unit; ``replaced`` are those of an RPC worker, None for an instance."""
    if not text:
        return [_build_unit_verdict(unit, "file", WRITTEN, None, FILE_REMOVED)]
    verdicts = [_judge_hand_edits_of_unit_file(unit, text), _judge_drop_ins(unit, root)]
    is_draft = unit.endswith("-rpc.service")
    if not is_draft:
        verdicts += [
            _judge_loaded_files(unit, text, replaced, root),
            _judge_state(unit, "enabled", properties.get("UnitFileState", ""), unknown),
        ]
    state = unit_state(properties)
    if state in BETWEEN_STATES:
        return [*verdicts, _build_changing_state_verdict(unit, text, state, root)]
    is_old = runs_as_before_its_file_changed(root, properties)
    return [*verdicts, _judge_state(unit, "active", OLD if is_old else state, unknown)]


def _build_unit_verdict(unit: str, kind: str, wanted: str | None, found: str | None, reason: str) -> Verdict:
    """Return a verdict that holds now and after a boot, because a boot repairs no unit."""
    verdict = Verdict("", f"llama:{unit}/{kind}", wanted)
    verdict.found = verdict.at_boot = found
    verdict.live = verdict.persistent = OK if found == wanted else DRIFT
    verdict.reason = reason if found != wanted else ""
    return verdict


def _judge_hand_edits_of_unit_file(unit: str, text: str) -> Verdict:
    matches = is_unchanged_since_digest(text)
    if matches is None:
        return unreadable_address_verdict("", f"llama:{unit}/file", f"{NO_DIGEST}. {write_unit_again_message(unit)}")
    return _build_unit_verdict(unit, "file", WRITTEN, WRITTEN if matches else "changed by hand", CHANGED_BY_HAND)


def _judge_drop_ins(unit: str, root: str) -> Verdict:
    return _build_unit_verdict(
        unit, "drop-ins", None, ", ".join(list_drop_ins_of_unit(root, unit)) or None, DROP_INS_ADDED
    )


def _judge_loaded_files(unit: str, text: str, replaced: list[str] | None, root: str) -> Verdict:
    plan = parse_unit_plan(text) if replaced is None else {}
    if plan is None:
        return unreadable_address_verdict("", f"llama:{unit}/loaded", missing_plan_message(unit, text))
    reason = "replaced or removed since it was planned; it may still run with the old ones"
    if replaced is None:
        replaced = list_files_replaced_since_load(plan)
        changed = list_changed_mapping_messages(KernelFS(root, read_only=True), plan)
        reason = changed[0].rstrip(".") if changed else reason
        if changed and not replaced:
            return _build_unit_verdict(unit, "loaded", PLANNED, "replaced under its name", reason)
    found = f"changed: {', '.join(replaced)}" if replaced else PLANNED
    return _build_unit_verdict(unit, "loaded", PLANNED, found, reason)


def _build_changing_state_verdict(unit: str, text: str, state: str, root: str) -> Verdict:
    """Return the verdict on a unit that systemd is starting or stopping, with how much of its model it has read."""
    is_starting = state == "activating"
    sentence = describe_start_of_unit(unit, parse_unit_plan(text), root) if is_starting else f"{unit} is being stopped"
    verdict = unreadable_address_verdict("", f"llama:{unit}/active", CHANGING_STATE.format(sentence))
    verdict.found = state
    return verdict


def _judge_state(unit: str, kind: str, state: str, unknown_reason: str) -> Verdict:
    address = f"llama:{unit}/{kind}"
    if not state:
        return unreadable_address_verdict("", address, unknown_reason or "systemd does not know it")
    is_about_boot = kind == "enabled"
    verdict = _build_unit_verdict(unit, kind, kind, state, "" if is_about_boot else f"'journalctl -u {unit}' says why")
    # The state of now says nothing about the next boot, and whether a unit is enabled says nothing about now.
    verdict.live, verdict.persistent = (OK, verdict.live) if is_about_boot else (verdict.live, OK)
    verdict.at_boot = state if is_about_boot else kind
    return verdict
