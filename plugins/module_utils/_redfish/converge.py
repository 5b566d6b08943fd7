# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what is asked of a machine to what its BMC has: compared, planned in boots, refused, or sent.

The order is that of safety: read, refuse what is foreign or blocked, keep the originals, send once, read back.
"""

from __future__ import annotations

from .._errors import BadRequest
from .attributes.locks import lock_of
from .attributes.redaction import scrubbed
from .attributes.resolve import Absent, Target, resolve
from .boot_phases import Phases, phases, refuse_blocked
from .machine import look
from .settings_table import WAITS, claims, render, rows
from .staging import NotYet, clear, stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .attributes.registry import Registry, Value
    from .connection.client import Client
    from .machine import Machine
    from .originals import Originals

REFUSE, KEEP, CLEAR = "refuse", "keep", "clear"


class Wish:
    """What is asked: options in the project's words, attributes by name, or the originals."""

    def __init__(
        self,
        options: Mapping[str, str],
        attributes: Mapping[str, Value],
        undo: bool = False,
        unlock: bool = True,
        foreign: str = REFUSE,
        system: str | None = None,
    ) -> None:
        self.options = options
        self.attributes = attributes
        self.undo = undo
        self.unlock = unlock
        self.foreign = foreign
        self.system = system


def converge(client: Client, wish: Wish, originals: Originals, check: bool) -> dict[str, Any]:
    """Make it so, as far as a BMC can before a boot, and return what came out; a check sends nothing."""
    machine = look(client, wish.system)
    originals.belongs_to(machine)
    registry = machine.registry()
    targets, absent = (
        _originals(registry, originals)
        if wish.undo
        else resolve(registry, machine.vendor, machine.active, wish.options, wish.attributes)
    )
    plan = _plan(registry, machine, targets, wish)
    before = rows(targets, absent, machine, plan, originals.sent)
    if plan.blocked:
        refuse_blocked(plan.blocked, settings=before, text=render(before))
    sending, clearing = _sending(registry, machine, targets, plan, originals, wish)
    remarks = [*plan.remarks, *(one.sentence for one in absent)]
    remarks += [
        f"{row['sentence']}" for row in before if row["attribute"] in sending and "last boot" in row["sentence"]
    ]
    remarks += [
        f"{row['sentence']}" for row in before if row["attribute"] in sending and "earlier run" in row["sentence"]
    ]
    diff = _diff(registry, machine, sending, clearing)
    # Where nothing shows what waits, what was sent is sent again until it is active, and that is no change.
    known = machine.blind and all(originals.sent.get(name) == target.value for name, target in sending.items())
    changed = bool(clearing or (sending and not known))
    if check:
        return _result(registry, machine, wish, before, plan, remarks, {} if not changed else diff, changed)
    if (sending or clearing) and machine.post:
        raise BadRequest(
            f"The server of the BMC {client.access.name} is in its self-test ({machine.post}), where settings are "
            "refused or lost. Run again when it has started. If it stays so, it hangs: reset it once more. Nothing was "
            "changed."
        )
    if clearing:
        machine = clear(machine)
        originals.forget_sent(originals.sent)
    if sending:
        machine = _send(machine, registry, sending, plan, originals)
    if wish.undo and not sending and not machine.pending and not plan.first and not plan.second:
        originals.drop()
    after = rows(targets, absent, machine, plan, originals.sent)
    return _result(registry, machine, wish, after, plan, remarks, diff if changed else {}, changed)


def _originals(registry: Registry, originals: Originals) -> tuple[dict[str, Target], list[Absent]]:
    """Return the originals as targets; raises where one has no place any more, as after an update of the BIOS."""
    targets = {}
    lost = []
    for name, value in originals.attributes.items():
        attribute = registry.get(name)
        if attribute is None or value is None:
            lost.append(name)
            continue
        targets[name] = Target(attribute, attribute.convert(value), "original", str(value))
    if lost:
        raise BadRequest(
            f"{', '.join(lost)} of {originals.path} cannot be put back: this machine does not have it any more, as "
            "after an update of its BIOS. Take it out of the file, and set what replaced it by hand. Nothing was "
            "changed."
        )
    return targets, []


def _plan(registry: Registry, machine: Machine, targets: Mapping[str, Target], wish: Wish) -> Phases:
    active, pending = machine.active, {} if wish.foreign == CLEAR else machine.pending
    plan = phases(registry, machine.vendor, targets, active, pending, wish.unlock and not wish.undo)
    parents = {name for lock in plan.blocked.values() for name in lock.blame if name in targets}
    if wish.undo and parents:
        # A profile that is put back locks what it was opened for. So the others go first, and it goes last.
        children = {name: target for name, target in targets.items() if name not in parents}
        plan = phases(registry, machine.vendor, children, active, pending, False)
        plan.second.update({name: targets[name] for name in parents})
    return plan


def _sending(
    registry: Registry,
    machine: Machine,
    targets: Mapping[str, Target],
    plan: Phases,
    originals: Originals,
    wish: Wish,
) -> tuple[dict[str, Target], list[str]]:
    """Return what is to be sent, and what is to be cleared before it; raises for what is foreign and in the way."""
    pending, sent = machine.pending, originals.sent
    foreign = [
        name
        for name, value in pending.items()
        if sent.get(name) != value and not (name in targets and targets[name].value == value)
    ]
    jobs = [job.id for job in machine.jobs]
    if foreign and wish.foreign == REFUSE:
        # Among them may be a password.
        active, soon = scrubbed(machine.active, registry), scrubbed(pending, registry)
        values = ", ".join(f"{name}: {active.get(name)} -> {soon[name]}" for name in foreign)
        by = f", in the job {', '.join(jobs)}" if jobs else ""
        raise BadRequest(
            f"Somebody else has settings pending at the BMC {machine.client.access.name}{by}: {values}. Let a boot "
            "apply them first, or say pending: clear to take them back, or pending: keep to leave them. Nothing was "
            "changed.",
            pending={name: soon[name] for name in foreign},
        )
    clearing = [name for name in pending if name in foreign] if wish.foreign == CLEAR else []
    # Where a value of ours waits that is not wanted any more, the wanted one is sent over it.
    stale = {name: target for name, target in targets.items() if name in pending and pending[name] != target.value}
    sending = {
        name: target
        for name, target in {**stale, **plan.first}.items()
        if pending.get(name) != target.value and name not in plan.second
    }
    if jobs and (sending or clearing):
        if foreign and wish.foreign == KEEP:
            raise BadRequest(
                f"The job {', '.join(jobs)} of the BMC {machine.client.access.name} holds settings of somebody else, "
                "and takes no others until a boot has applied it. Reboot first, or say pending: clear. Nothing was "
                "changed."
            )
        clearing = list(pending)
    if clearing:
        kept = {name: target for name, target in plan.first.items() if name not in plan.second}
        sending = {name: target for name, target in kept.items() if machine.active.get(name) != target.value or jobs}
    return sending, clearing


def _send(
    machine: Machine, registry: Registry, sending: dict[str, Target], plan: Phases, originals: Originals
) -> Machine:
    values = {name: target.value for name, target in sending.items()}
    later = _set_free(registry, machine, values)
    originals.remember(machine, registry, values)
    try:
        return stage(machine, values, later)[0]
    except NotYet:
        originals.forget_sent(later)
        first = {name: value for name, value in values.items() if name not in later}
        plan.remarks.append(
            f"This BMC takes {', '.join(sorted(later))} only when {', '.join(first)} is active. It takes two boots."
        )
        for name in later:
            plan.second[name] = plan.first.pop(name)
        try:
            return stage(machine, first, set())[0]
        except Exception:
            originals.forget_sent(first)
            raise
    except Exception:
        originals.forget_sent(values)
        raise


def _set_free(registry: Registry, machine: Machine, values: Mapping[str, Value]) -> set[str]:
    """Return the names that only other values of the same request set free."""
    alone = {name for name in values if lock_of(registry, name, machine.active, {**machine.active, name: values[name]})}
    return alone if len(alone) < len(values) else set()


def _diff(
    registry: Registry, machine: Machine, sending: Mapping[str, Target], clearing: list[str]
) -> dict[str, dict[str, str]]:
    active, pending = scrubbed(machine.active, registry), scrubbed(machine.pending, registry)
    names = [*sending, *(name for name in clearing if name not in sending)]

    def text(name: str, soon: object) -> str:
        return f"{active.get(name)} (active), {'-' if soon is None else soon} (pending)"

    return {
        "before": {name: text(name, pending.get(name)) for name in names},
        "after": {name: text(name, sending[name].value if name in sending else None) for name in names},
    }


def _result(
    registry: Registry,
    machine: Machine,
    wish: Wish,
    found: list[dict[str, Any]],
    plan: Phases,
    remarks: list[str],
    diff: dict[str, dict[str, str]],
    changed: bool,
) -> dict[str, Any]:
    return {
        "changed": changed,
        "reboot_required": bool(machine.pending) or any(row["verdict"] == WAITS for row in found),
        "boots": plan.boots,
        "settings": found,
        "text": render(found),
        "claims": claims(registry, machine, None if wish.undo else wish.options),
        "pending": scrubbed(machine.pending, registry),
        "jobs": machine.jobs_shown,
        "machine": machine.shown,
        "diff": diff,
        "remarks": list(dict.fromkeys([*remarks, *plan.remarks])),
    }
