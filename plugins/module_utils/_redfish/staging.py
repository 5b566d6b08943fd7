# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sends settings to a BMC, all or none of them, reads them back, and creates the job that some BMCs need."""

from __future__ import annotations

from .clearing import take_back_and_raise
from .connection.responses import BmcError, join_error_messages
from .connection.tasks import FAILED, NOT_KNOWN, TASK_PAUSES, follow_task
from .jobs import Job
from .sending import (
    StillPending,
    make_error_for_refused_settings,
    require_successful_response,
    send_settings_with_entity_tag,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .attributes.registry import Value
    from .connection.tasks import Task
    from .machine import Machine

#: Seconds in which a BMC shows the settings after the end of the task that took them.
SECONDS_AFTER_TASK = 7.0


def send_and_read_back_settings(
    machine: Machine, values: Mapping[str, Value], unlocked_by_others: set[str]
) -> tuple[Machine, str]:
    """Send values, read them back, and return the machine after that and the path of the job that applies them.

    Raises NothingPending or StillPending unless all values are pending. ``unlocked_by_others`` has the names of
    attributes that only the other values of the request unlock. Where the BMC refuses such an attribute,
    LockedUntilBoot is raised, and no setting was changed.
    """
    pending_before = machine.pending_values
    response = send_settings_with_entity_tag(machine, values)
    if not response.is_success:
        raise make_error_for_refused_settings(machine, values, response, unlocked_by_others)
    location = response.headers.get("location", "")
    # The job of Dell ends at the boot, so its end is not waited for.
    task = None if machine.vendor == "Dell" else follow_task(machine.client, response)
    machine_after, dropped = _read_until_settings_are_shown(machine, values, task)
    messages = join_error_messages(
        [*response.messages, *(task.messages if task else ())], machine.client.access.scrubber
    )
    if task is not None and task.outcome == FAILED:
        take_back_and_raise(
            machine_after,
            pending_before,
            values,
            f"The task {task.name} of the BMC {machine.bmc_name}, which was to take the settings, is {task.state}"
            f"{_quote(messages)}.",
        )
    if machine_after.hides_pending_settings:
        # Pending settings that the BMC hides cannot be read back.
        if messages:
            machine_after.remarks.append(f"The BMC {machine.bmc_name} took the settings and says: '{messages}'.")
        return machine_after, task.path if task else ""
    if dropped and task is not None and task.outcome == NOT_KNOWN:
        of_task = f"the task {task.name} is {task.state}" if task.path else "it names no task to ask about"
        raise StillPending(
            f"The BMC {machine.bmc_name} has taken the request and works on it still; {of_task}. It is not known yet "
            f"whether {', '.join(dropped)} will be pending, so a boot may apply it. Run again in some minutes.",
            values,
            again=True,
        )
    if dropped:
        reason = _quote(messages) or " without a message"
        take_back_and_raise(
            machine_after,
            pending_before,
            values,
            f"The BMC {machine.bmc_name} took the request and dropped {', '.join(dropped)}{reason}.",
        )
    if machine.vendor == "Dell":
        job = _find_or_create_job_of_dell(machine_after, location, values)
        return machine_after, job.path if job else ""
    return machine_after, task.path if task else ""


def _quote(messages: str) -> str:
    return f": '{messages}'" if messages else ""


def _read_until_settings_are_shown(
    machine: Machine, values: Mapping[str, Value], task: Task | None
) -> tuple[Machine, list[str]]:
    """Return the machine after a request, and the names of values that are neither pending nor active.

    A BMC that works on a task may show the values some seconds after its end, or much later if it names no task.
    """
    machine_after = machine.read_machine_again()
    waited, patience = 0.0, 0.0
    if task is not None and task.outcome != FAILED:
        ends = task.path and task.outcome != NOT_KNOWN
        patience = SECONDS_AFTER_TASK if ends else 0.0 if task.path else machine.client.access.patience
    elif machine.vendor == "Dell":
        # The answer names the job, which is made while the settings are taken.
        patience = SECONDS_AFTER_TASK
    for pause in (*TASK_PAUSES, TASK_PAUSES[-1], TASK_PAUSES[-1]):
        is_shown = machine_after.hides_pending_settings or not _list_dropped(machine_after, values)
        if is_shown or waited + pause > patience:
            break
        machine.client.sleep(pause)
        waited += pause
        machine_after = machine.read_machine_again()
    return machine_after, _list_dropped(machine_after, values)


def _list_dropped(machine: Machine, values: Mapping[str, Value]) -> list[str]:
    return [name for name, value in values.items() if machine.staged.get(name, machine.active.get(name)) != value]


def _find_or_create_job_of_dell(machine: Machine, location: str, values: Mapping[str, Value]) -> Job | None:
    """Return the job that applies the values, created where it is missing; None for vendors without such jobs.

    Without a job, a BMC of Dell would have the values pending for ever.
    """
    if machine.vendor != "Dell" or not machine.pending_values:
        return None
    if not machine.jobs and machine.jobs_path and "/Jobs/" not in location and "/JID_" not in location:
        # A newer iDRAC answers 200 without a job where the same values were pending already.
        response = machine.client.send_request("POST", machine.jobs_path, {"TargetSettingsURI": machine.settings_path})
        require_successful_response(machine, response, "make the job that applies the settings")
        location = response.headers.get("location", "")
    if machine.jobs:
        return machine.jobs[0]
    job = Job(location, machine.client.fetch_resource_body(location)) if location else None
    if job is None:
        raise BmcError(
            f"The BMC {machine.bmc_name} has {', '.join(values)} pending and made no job for it, so no boot would "
            "apply it. Clear it with pending: clear, or make the job in the web interface of the BMC."
        )
    if job.has_failed:
        messages = join_error_messages(job.messages, machine.client.access.scrubber)
        raise BmcError(
            f"The job {job.id} of the BMC {machine.bmc_name} is {job.state}{_quote(messages)}. Clear it with "
            "pending: clear."
        )
    return job
