# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Takes back settings that wait for a boot: those of others, or those of a request that the BMC took in part."""

from __future__ import annotations

from .connection.responses import BmcError, join_error_messages
from .connection.shapes import nested_object_or_empty, object_or_empty
from .connection.tasks import FAILED, TASK_PAUSES, follow_task
from .sending import NothingPending, StillPending, require_successful_response, send_settings_with_entity_tag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import NoReturn

    from .attributes.registry import Value
    from .connection.responses import Response
    from .machine import Machine

#: How often pending settings are read again, after growing pauses, until they are cleared.
PAUSES_UNTIL_CLEARED = 3


def clear_pending_settings_and_jobs(machine: Machine) -> Machine:
    """Remove all pending settings, the jobs first, and return the machine after that."""
    client = machine.client
    for job in machine.jobs:
        _require_done(machine, client.send_request("DELETE", job.path), f"delete the job {job.id}")
    machine_after = machine.read_machine_again()
    if machine_after.pending_values:
        if machine_after.vendor == "Dell":
            action = _find_clear_pending_action_of_dell(machine_after)
            _require_done(machine_after, client.send_request("POST", action, {}), "clear what is pending")
        else:
            # A value that the BMC does not show as active cannot be sent, and null would be another change.
            active = {name: machine_after.active.get(name) for name in machine_after.pending_values}
            known = {name: value for name, value in active.items() if value is not None}
            if known:
                response = send_settings_with_entity_tag(machine_after, known)
                _require_done(machine_after, response, "take back what is pending")
        machine_after = _read_until(machine, lambda current: not current.pending_values)
    if machine_after.pending_values:
        raise BmcError(
            f"The BMC {machine.bmc_name} still has {', '.join(machine_after.pending_values)} pending after the request "
            "to clear pending settings. Clear them in its web interface."
        )
    return machine_after


def restore_earlier_pending_values(
    machine: Machine, pending_before: Mapping[str, Value], sent: Mapping[str, Value]
) -> bool:
    """Send the earlier values of what is pending of a request; return whether there were any."""
    if machine.jobs:
        clear_pending_settings_and_jobs(machine)
        return True
    restored = {}
    for name, sent_value in sent.items():
        value = pending_before.get(name, machine.active.get(name))
        if machine.staged.get(name) == sent_value and value not in (None, sent_value):
            restored[name] = value
    if restored:
        _require_done(machine, send_settings_with_entity_tag(machine, restored), "take back what it had taken")
    return bool(restored)


def take_back_and_raise(
    machine: Machine, pending_before: Mapping[str, Value], values: Mapping[str, Value], sentence: str
) -> NoReturn:
    """Restore the earlier pending values, read them back, and raise the error that says what is pending now."""
    if machine.hides_pending_settings:
        raise StillPending(
            f"{sentence} This BMC does not show what waits for a boot, so it is not known whether a boot would apply "
            "some of it.",
            values,
        )
    failure = ""
    try:
        had_taken_values = restore_earlier_pending_values(machine, pending_before, values)
    except BmcError as error:
        had_taken_values, failure = True, f" {error}"
    try:
        machine_after = machine
        if had_taken_values:
            machine_after = _read_until(
                machine, lambda current: current.pending_values.items() <= pending_before.items()
            )
    except BmcError as error:
        raise StillPending(
            f"{sentence} It is not known whether other values of this run are still pending. {error}", values
        ) from None
    still_pending = [
        name
        for name, value in values.items()
        if machine_after.pending_values.get(name) == value and pending_before.get(name) != value
    ]
    if still_pending:
        verb = "is" if len(still_pending) == 1 else "are"
        raise StillPending(
            f"{sentence} {', '.join(still_pending)} {verb} still pending, and could not be taken back.{failure} A boot "
            "would apply it. Clear it with pending: clear.",
            still_pending,
        )
    taken_back = "The other values were put back, so nothing" if had_taken_values else "Nothing"
    raise NothingPending(
        f"{sentence} {taken_back} is pending from this run. Find the reason of the lock with epyc_bmc_bios_info."
    )


def _read_until(machine: Machine, is_done: Callable[[Machine], bool]) -> Machine:
    """Return the machine when a request is done, or after the last pause; a BMC may name no task to ask about."""
    machine_after = machine.read_machine_again()
    for pause in TASK_PAUSES[:PAUSES_UNTIL_CLEARED]:
        if is_done(machine_after):
            break
        machine.client.sleep(pause)
        machine_after = machine.read_machine_again()
    return machine_after


def _find_clear_pending_action_of_dell(machine: Machine) -> str:
    response = machine.client.fetch_resource_if_present(machine.settings_path)
    oem = nested_object_or_empty(response.body if response else {}, "Actions", "Oem")
    action = object_or_empty(oem.get("#DellManager.ClearPending") or oem.get("DellManager.ClearPending"))
    return str(action.get("target") or f"{machine.settings_path}/Actions/Oem/DellManager.ClearPending")


def _require_done(machine: Machine, response: Response, action: str) -> None:
    """Raise BmcError unless the BMC did it, or does it in a task that has not failed."""
    require_successful_response(machine, response, action)
    task = follow_task(machine.client, response)
    if task is not None and task.outcome == FAILED:
        messages = join_error_messages(task.messages, machine.client.access.scrubber)
        reason = f": '{messages}'." if messages else "."
        raise BmcError(f"The BMC {machine.bmc_name} does not {action}: its task {task.name} is {task.state}{reason}")
