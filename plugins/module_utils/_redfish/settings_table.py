# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of requested settings: the requested, active and pending value of each setting, and a verdict.

A BMC can only claim that a setting is active. The module epyc_bios_check_info compares the claim with the kernel.
"""

from __future__ import annotations

from .._notation.text_table import format_aligned_columns
from .attributes.catalogue import BIOS_OPTIONS
from .attributes.resolve import attribute_value_to_option_value, find_attribute_of_option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .attributes.registry import Registry, Value
    from .attributes.resolve import MissingOption, Target
    from .boot_phases import BootPhases
    from .machine import Machine

CLAIMED = "claimed by firmware"
WAITS = "waits for a reboot"
WRONG = "wrong"
BLOCKED = "blocked"
ABSENT = "not on this machine"
KEYS = ("option", "title", "attribute", "wanted", "active", "pending", "verdict", "sentence")
COLUMNS = ("attribute", "wanted", "active", "pending", "verdict")


def build_rows(
    targets: Mapping[str, Target],
    missing_options: Sequence[MissingOption],
    machine: Machine,
    plan: BootPhases,
    sent: Mapping[str, Value],
) -> list[dict[str, Any]]:
    """Return a row for each requested attribute, and one for each option that the machine does not have."""
    pending = machine.pending_values
    rows = []
    for name, target in {**targets, **plan.first_boot, **plan.second_boot}.items():
        title = BIOS_OPTIONS[target.option].title if target.option in BIOS_OPTIONS else target.attribute.title
        verdict, sentence = _judge_requested_attribute(target, machine, plan, sent)
        values = (target.value, machine.active.get(name), pending.get(name))
        rows.append(dict(zip(KEYS, (target.option, title, name, *values, verdict, f"{name} {sentence}"))))
    for missing in missing_options:
        title = BIOS_OPTIONS[missing.option].title
        row = (missing.option, title, None, missing.meaning, None, None, ABSENT, missing.sentence)
        rows.append(dict(zip(KEYS, row)))
    return rows


def _judge_requested_attribute(
    target: Target, machine: Machine, plan: BootPhases, sent: Mapping[str, Value]
) -> tuple[str, str]:
    """Return the verdict on a requested attribute, and a sentence without its subject, the name of the attribute."""
    name, wanted = target.name, target.value
    active, pending = machine.active.get(name), machine.pending_values
    if name in pending:
        if pending[name] == wanted:
            job = f", by the job {machine.jobs[0].id}" if machine.jobs else ""
            return WAITS, f"becomes {wanted} at the next boot{job}; it is {active} now."
        if name not in plan.first_boot:
            return WRONG, f"becomes {pending[name]} at the next boot, and should be {wanted}."
    if active == wanted and name not in pending:
        return CLAIMED, f"is {wanted}, says the BMC."
    if machine.hides_pending_settings and sent.get(name) == wanted:
        return WAITS, f"is {active}; {wanted} was sent, and this BMC does not show what waits for a boot."
    if name in plan.blocked:
        return BLOCKED, f"is {active} and cannot become {wanted}: {plan.blocked[name]}."
    if name in plan.second_boot:
        return WAITS, f"is {active} and can become {wanted} only after the next boot; run again then."
    reason = value_dropped_at_boot_reason(target, machine, sent)
    return WRONG, f"is {active} and should be {wanted}.{reason and ' '}{reason}"


def value_dropped_at_boot_reason(target: Target, machine: Machine, sent: Mapping[str, Value]) -> str:
    """Return why no boot applied a value that is neither active nor pending; "" for a value that was never sent."""
    message = " ".join(
        entry.text or entry.id
        for entry in machine.failure_messages_of_last_boot
        if entry.mentions_attribute(target.name)
    )
    if message:
        return f"The last boot says: '{message}'"
    if sent.get(target.name) == target.value:
        return machine.failure_of_last_job or (
            "It was sent by an earlier run and is neither active nor pending: the BMC did not take it after all, the "
            "firmware dropped it at a boot without a message, or somebody changed it since."
        )
    return ""


def rows_to_module_result(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of a module's result that are made of rows: the rows, their table, and sentences."""
    return {
        "settings": rows,
        "text": render_table(rows),
        "complaints": [row["sentence"] for row in rows if row["verdict"] not in (CLAIMED, ABSENT)],
        "pending_reboot": [row["sentence"].rstrip(".") for row in rows if row["verdict"] == WAITS],
    }


def render_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a table for people."""
    table: list[tuple[str, ...]] = [COLUMNS]
    for row in rows:
        name = f"({row['option']})" if row["attribute"] is None else row["attribute"]
        table.append((name, *("-" if row[column] is None else str(row[column]) for column in COLUMNS[1:])))
    return format_aligned_columns(table)


def build_claims_for_bios_check(
    registry: Registry, machine: Machine, options: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return by option the requested, active and pending value, as values of the option, for epyc_bios_check_info.

    An option that this machine does not have is left out unless a value is requested.
    """
    claims: dict[str, dict[str, Any]] = {}
    pending, requested = machine.pending_values, options or {}
    for option, bios_option in BIOS_OPTIONS.items():
        attribute, wanted = find_attribute_of_option(registry, machine.vendor, option), requested.get(option)
        name = attribute.name if attribute and attribute.name in machine.active else None
        if name is None and wanted is None:
            continue
        claims[option] = {"title": bios_option.title, "wanted": wanted, "attribute": name}
        for key, values in (("active", machine.active), ("pending", pending)):
            value = values.get(name) if name else None
            meaning = attribute_value_to_option_value(option, attribute, value, machine.vendor) if attribute else None
            claims[option][key] = None if value is None else meaning or str(value)
    return claims
