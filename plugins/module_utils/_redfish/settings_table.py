# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of what a BMC says: wanted, active, pending, and a verdict for each.

A BMC alone can only claim: that a setting is in force is proven by the kernel, with the module epyc_bios.
"""

from __future__ import annotations

from .._notation.text_table import format_columns
from .attributes.catalogue import KNOBS
from .attributes.resolve import attribute_of, meaning_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .attributes.registry import Registry, Value
    from .attributes.resolve import Absent, Target
    from .boot_phases import Phases
    from .machine import Machine

CLAIMED = "claimed by firmware"
WAITS = "waits for a reboot"
WRONG = "wrong"
BLOCKED = "blocked"
ABSENT = "not on this machine"
COLUMNS = ("attribute", "wanted", "active", "pending", "verdict")


def rows(
    targets: Mapping[str, Target], absent: Sequence[Absent], machine: Machine, plan: Phases, sent: Mapping[str, Value]
) -> list[dict[str, Any]]:
    """Return a row for each attribute that is asked for, and one for each option that the machine does not have."""
    pending = machine.pending
    out = []
    for name, target in {**targets, **plan.first, **plan.second}.items():
        active = machine.active.get(name)
        verdict, sentence = _verdict(target, active, pending, machine, plan, sent)
        out.append(
            {
                "option": target.knob,
                "title": KNOBS[target.knob].title if target.knob in KNOBS else target.attribute.title,
                "attribute": name,
                "wanted": target.value,
                "active": active,
                "pending": pending.get(name),
                "verdict": verdict,
                "sentence": f"{name} {sentence}",
            }
        )
    for one in absent:
        out.append(
            {
                "option": one.knob,
                "title": KNOBS[one.knob].title,
                "attribute": None,
                "wanted": one.meaning,
                "active": None,
                "pending": None,
                "verdict": ABSENT,
                "sentence": one.sentence,
            }
        )
    return out


def _verdict(
    target: Target,
    active: Value,
    pending: Mapping[str, Value],
    machine: Machine,
    plan: Phases,
    sent: Mapping[str, Value],
) -> tuple[str, str]:
    name, wanted = target.name, target.value
    if name in pending:
        if pending[name] == wanted:
            job = f", by the job {machine.jobs[0].id}" if machine.jobs else ""
            return WAITS, f"becomes {wanted} at the next boot{job}; it is {active} now."
        if name not in plan.first:
            return WRONG, f"becomes {pending[name]} at the next boot, and should be {wanted}."
    if active == wanted and name not in pending:
        return CLAIMED, f"is {wanted}, says the BMC."
    if machine.blind and sent.get(name) == wanted:
        return WAITS, f"is {active}; {wanted} was sent, and this BMC does not show what waits for a boot."
    if name in plan.blocked:
        return BLOCKED, f"is {active} and cannot become {wanted}: {plan.blocked[name]}."
    if name in plan.second:
        return WAITS, f"is {active} and can become {wanted} only after the next boot; run again then."
    told = " ".join(one.text or one.id for one in machine.messages if one.names(name))
    if told:
        return WRONG, f"is {active} and should be {wanted}. The last boot says: '{told}'"
    if sent.get(name) == wanted:
        return WRONG, (
            f"is {active} and should be {wanted}. It was sent by an earlier run and is neither active nor pending: the "
            "firmware dropped it at a boot without a word, or somebody changed it since."
        )
    return WRONG, f"is {active} and should be {wanted}."


def render(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the table as text."""
    lines: list[tuple[str, ...]] = [COLUMNS]
    for row in found:
        name = f"({row['option']})" if row["attribute"] is None else row["attribute"]
        lines.append((name, *(_cell(row[column]) for column in COLUMNS[1:])))
    return format_columns(lines)


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def claims(registry: Registry, machine: Machine, options: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """Return, by option, what is asked and what the BMC says, in the option's words; for epyc_bios, and for people."""
    out: dict[str, dict[str, Any]] = {}
    pending, asked = machine.pending, options or {}
    for knob, setting in KNOBS.items():
        attribute, wanted = attribute_of(registry, machine.vendor, knob), asked.get(knob)
        if attribute is None or attribute.name not in machine.active:
            if wanted is not None:
                nothing = dict.fromkeys(("attribute", "active", "pending"))
                out[knob] = {"title": setting.title, "wanted": wanted, **nothing}
            continue
        active, soon = machine.active[attribute.name], pending.get(attribute.name)
        out[knob] = {
            "title": setting.title,
            "wanted": wanted,
            "attribute": attribute.name,
            "active": meaning_of(knob, attribute, active, machine.vendor) or str(active),
            "pending": None if soon is None else meaning_of(knob, attribute, soon, machine.vendor) or str(soon),
        }
    return out
