# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requested BIOS settings are compared with those of a machine, and refused or sent to its BMC for the next boots.

The order keeps a machine safe: read, refuse locked settings and those that somebody else has pending, save the
originals, send once, read back.
"""

from __future__ import annotations

from .._errors import BadRequest
from .attributes.locks import find_lock_under_future_values
from .attributes.redaction import redact_secret_values
from .attributes.resolve import MissingOption, Target, resolve_targets_and_missing_options
from .boot_phases import BootPhases, plan_targets_by_boot, refuse_blocked_attributes
from .clearing import clear_pending_settings_and_jobs
from .jobs import fetch_failure_of_job
from .machine import read_machine_settings_and_jobs
from .registry_files import fetch_attribute_registry
from .sending import LockedUntilBoot, NothingPending, StillPending, refuse_other_apply_times
from .settings_table import (
    WAITS,
    WRONG,
    build_claims_for_bios_check,
    build_rows,
    rows_to_module_result,
    value_dropped_at_boot_reason,
)
from .staging import send_and_read_back_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .attributes.registry import Registry, Value
    from .connection.client import RedfishClient
    from .machine import Machine
    from .originals import Originals

REFUSE, KEEP, CLEAR = "refuse", "keep", "clear"


class BiosRequest:
    """Requested BIOS settings: options, attributes by name, or with ``undo`` the originals.

    ``foreign`` says whether to refuse, keep or clear settings that somebody else has pending. With ``unlock``, a
    profile that locks requested settings is changed. With ``host_answers``, the operating system of the server answers,
    so a self-test of which the BMC speaks has ended.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        attributes: Mapping[str, Value],
        undo: bool = False,
        unlock: bool = True,
        foreign: str = REFUSE,
        system: str | None = None,
        host_answers: bool = False,
    ) -> None:
        self.options = options
        self.attributes = attributes
        self.undo = undo
        self.unlock = unlock
        self.foreign = foreign
        self.system = system
        self.host_answers = host_answers


def apply_bios_request(
    client: RedfishClient, request: BiosRequest, originals: Originals, check: bool
) -> dict[str, Any]:
    """Send settings that are neither active nor pending, unless ``check`` is set, and return the module's result."""
    machine = read_machine_settings_and_jobs(client, request.system)
    originals.require_originals_of_machine(machine)
    registry = fetch_attribute_registry(machine)
    targets, absent = (
        _originals_to_targets(registry, originals)
        if request.undo
        else resolve_targets_and_missing_options(
            registry, machine.vendor, machine.active, request.options, request.attributes
        )
    )
    machine.own_names = {*targets, *originals.last_sent_values}
    plan = _plan_boots_of_request(registry, machine, targets, request)
    if any(originals.last_sent_values.get(name) == target.value for name, target in plan.first_boot.items()):
        machine.failure_of_last_job = fetch_failure_of_job(client, originals.last_job_path)
    before = build_rows(targets, absent, machine, plan, originals.last_sent_values)
    if plan.blocked:
        refuse_blocked_attributes(plan.blocked, **rows_to_module_result(before))
    to_send, to_clear = _choose_values_to_send_and_clear(registry, machine, targets, plan, originals, request)
    if (to_send or to_clear) and machine.no_place_reason:
        raise BadRequest(f"{machine.no_place_reason} Nothing was changed.")
    if to_send or (to_clear and machine.vendor != "Dell"):
        refuse_other_apply_times(machine)
    remarks = [machine.doubt] if machine.doubt else []
    remarks += [*plan.remarks, *(missing.sentence for missing in absent)]
    remarks += [
        row["sentence"]
        for row in before
        if row["verdict"] == WRONG
        and row["attribute"] in to_send
        and value_dropped_at_boot_reason(to_send[row["attribute"]], machine, originals.last_sent_values)
    ]
    if request.host_answers and machine.self_test_state:
        remarks.append(
            f"The BMC {client.access.bmc_name} says that the server is in its self-test ({machine.self_test_state}), "
            "but its operating system answers. So the self-test has ended."
        )
    diff = _build_diff_of_pending_values(registry, machine, to_send, to_clear)
    # Settings that a BMC hides while they are pending are sent in each run until they are active. Only the first time
    # counts as a change.
    already_sent = machine.hides_pending_settings and all(
        originals.last_sent_values.get(name) == target.value for name, target in to_send.items()
    )
    changed = bool(to_clear or (to_send and not already_sent))
    if check:
        return _build_module_result(registry, machine, request, before, plan, remarks, diff if changed else {}, changed)
    if (to_send or to_clear) and machine.doubt:
        raise BadRequest(f"{machine.doubt} Nothing was changed.")
    if (to_send or to_clear) and machine.self_test_state and not request.host_answers:
        raise BadRequest(
            f"The server of the BMC {client.access.bmc_name} is in its self-test ({machine.self_test_state}), where "
            "settings are refused or lost. Run again when the server has started. A server that stays in its self-test "
            "hangs: reset it once more. Nothing was changed."
        )
    if to_clear:
        machine = clear_pending_settings_and_jobs(machine)
        originals.remove_stored_sent_values(originals.last_sent_values)
    if to_send:
        machine = _save_originals_and_send_values(machine, registry, to_send, plan, originals)
    if request.undo and not to_send and not machine.pending_values and not plan.first_boot and not plan.second_boot:
        originals.remove_originals_file()
    after = build_rows(targets, absent, machine, plan, originals.last_sent_values)
    return _build_module_result(registry, machine, request, after, plan, remarks, diff if changed else {}, changed)


def _originals_to_targets(registry: Registry, originals: Originals) -> tuple[dict[str, Target], list[MissingOption]]:
    """Return the originals as targets; raises BadRequest for attributes that an update of the BIOS has removed."""
    targets = {}
    missing = []
    for name, value in originals.original_values.items():
        attribute = registry.find_attribute(name)
        if attribute is None or value is None:
            missing.append(name)
            continue
        targets[name] = Target(attribute, attribute.convert_to_attribute_type(value), "original", str(value))
    if missing:
        raise BadRequest(
            f"{', '.join(missing)} of {originals.path} cannot be put back: this machine does not have it any more, as "
            "after an update of its BIOS. Take it out of the file, and set its replacement by hand. Nothing was "
            "changed."
        )
    return targets, []


def _plan_boots_of_request(
    registry: Registry, machine: Machine, targets: Mapping[str, Target], request: BiosRequest
) -> BootPhases:
    active, pending = machine.active, {} if request.foreign == CLEAR else machine.pending_values
    plan = plan_targets_by_boot(registry, machine.vendor, targets, active, pending, request.unlock and not request.undo)
    parents = {name for lock in plan.blocked.values() for name in lock.causes if name in targets}
    if request.undo and parents:
        # A profile that is put back locks attributes, so these attributes are put back first, at an earlier boot.
        children = {name: target for name, target in targets.items() if name not in parents}
        plan = plan_targets_by_boot(registry, machine.vendor, children, active, pending, False)
        plan.second_boot.update({name: targets[name] for name in parents})
    return plan


def _choose_values_to_send_and_clear(
    registry: Registry,
    machine: Machine,
    targets: Mapping[str, Target],
    plan: BootPhases,
    originals: Originals,
    request: BiosRequest,
) -> tuple[dict[str, Target], list[str]]:
    """Return the values to send, and the names to clear before.

    Raises BadRequest where somebody else has settings pending and the request does not say to keep or clear them.
    """
    pending, sent = machine.pending_values, originals.last_sent_values
    foreign = [
        name
        for name, value in pending.items()
        if sent.get(name) != value and not (name in targets and targets[name].value == value)
    ]
    jobs = [job.id for job in machine.jobs]
    if foreign and request.foreign == REFUSE:
        # A pending value may be a password.
        active, shown = redact_secret_values(machine.active, registry), redact_secret_values(pending, registry)
        values = ", ".join(f"{name}: {active.get(name)} -> {shown[name]}" for name in foreign)
        by = f", in the job {', '.join(jobs)}" if jobs else ""
        raise BadRequest(
            f"Somebody else has settings pending at the BMC {machine.bmc_name}{by}: {values}. Let a boot "
            "apply them first, or say pending: clear to take them back, or pending: keep to leave them. Nothing was "
            "changed.",
            pending={name: shown[name] for name in foreign},
        )
    clearing = foreign if request.foreign == CLEAR else []
    # An earlier run may have another value of a requested attribute pending; the new value replaces it.
    stale = {name: target for name, target in targets.items() if name in pending and pending[name] != target.value}
    sending = {
        name: target
        for name, target in {**stale, **plan.first_boot}.items()
        if pending.get(name) != target.value and name not in plan.second_boot
    }
    if jobs and (sending or clearing):
        if foreign and request.foreign == KEEP:
            raise BadRequest(
                f"The job {', '.join(jobs)} of the BMC {machine.bmc_name} holds settings of somebody else, and the BMC "
                "takes no others until a boot has applied the job. Reboot first, or say pending: clear. Nothing was "
                "changed."
            )
        clearing = list(pending)
    if clearing:
        sending = {
            name: target
            for name, target in plan.first_boot.items()
            if name not in plan.second_boot and (jobs or machine.active.get(name) != target.value)
        }
    return sending, clearing


def _save_originals_and_send_values(
    machine: Machine, registry: Registry, to_send: dict[str, Target], plan: BootPhases, originals: Originals
) -> Machine:
    values = {name: target.value for name, target in to_send.items()}
    later = _names_unlocked_by_request(registry, machine, values)
    originals.save_originals_and_values_to_send(machine, registry, values)
    try:
        return _send_and_remember(machine, values, later, originals)
    except LockedUntilBoot:
        originals.remove_stored_sent_values(later)
        first = {name: value for name, value in values.items() if name not in later}
        plan.remarks.append(
            f"This BMC takes {', '.join(sorted(later))} only when {', '.join(first)} is active. It takes two boots."
        )
        for name in later:
            plan.second_boot[name] = plan.first_boot.pop(name)
        return _send_and_remember(machine, first, set(), originals)


def _send_and_remember(machine: Machine, values: Mapping[str, Value], later: set[str], originals: Originals) -> Machine:
    """Send values and read them back; a value stays stored as sent unless the BMC has shown that it is not pending."""
    try:
        machine_after, job_path = send_and_read_back_settings(machine, values, later)
    except NothingPending:
        originals.remove_stored_sent_values(values)
        raise
    except StillPending as error:
        originals.remove_stored_sent_values(values.keys() - error.names)
        raise
    originals.store_job_path(job_path)
    return machine_after


def _names_unlocked_by_request(registry: Registry, machine: Machine, values: Mapping[str, Value]) -> set[str]:
    """Return the names of attributes that only the other values of the same request unlock."""
    locked = {
        name
        for name in values
        if find_lock_under_future_values(registry, name, machine.active, {**machine.active, name: values[name]})
    }
    return locked if len(locked) < len(values) else set()


def _build_diff_of_pending_values(
    registry: Registry, machine: Machine, to_send: Mapping[str, Target], to_clear: list[str]
) -> dict[str, dict[str, str]]:
    active, pending = (
        redact_secret_values(machine.active, registry),
        redact_secret_values(machine.pending_values, registry),
    )
    names = [*to_send, *(name for name in to_clear if name not in to_send)]

    def format_values(name: str, pending_value: object) -> str:
        return f"{active.get(name)} (active), {'-' if pending_value is None else pending_value} (pending)"

    return {
        "before": {name: format_values(name, pending.get(name)) for name in names},
        "after": {name: format_values(name, to_send[name].value if name in to_send else None) for name in names},
    }


def _build_module_result(
    registry: Registry,
    machine: Machine,
    request: BiosRequest,
    rows: list[dict[str, Any]],
    plan: BootPhases,
    remarks: list[str],
    diff: dict[str, dict[str, str]],
    changed: bool,
) -> dict[str, Any]:
    return {
        "changed": changed,
        "reboot_required": bool(machine.pending_values) or any(row["verdict"] == WAITS for row in rows),
        "boots": plan.boot_count,
        **rows_to_module_result(rows),
        "again": machine.self_test_state is not None and not request.host_answers,
        "claims": build_claims_for_bios_check(registry, machine, None if request.undo else request.options),
        "pending": redact_secret_values(machine.pending_values, registry),
        "jobs": machine.job_summaries,
        "machine": machine.summary,
        "diff": diff,
        "remarks": list(dict.fromkeys([*remarks, *plan.remarks, *machine.remarks])),
    }
