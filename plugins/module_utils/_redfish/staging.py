# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sends settings to a BMC, all or none of them, reads them back, and creates the job that some BMCs need.

No settings are sent with the apply time Immediate, which would reset the server.
"""

from __future__ import annotations

from .connection.responses import BmcError
from .machine import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .attributes.registry import Value
    from .connection.responses import Response
    from .machine import Machine

ON_RESET = "OnReset"
#: Words in the message of a BMC that refuses a value because of another attribute.
LOCKED_WORDS = ("PropertyValueConflict", "PropertyNotWritable", "read-only", "read only", "dependen", "conflict")


class LockedUntilBoot(BmcError):
    """The BMC takes some of the values only when others of the same request are active."""


def send_and_read_back_settings(
    machine: Machine, values: Mapping[str, Value], unlocked_by_others: set[str]
) -> tuple[Machine, Job | None]:
    """Send values, read them back, and return machine and job after that; raises BmcError unless all are pending.

    ``unlocked_by_others`` has the names of attributes that only the other values of the request unlock. Where the BMC
    refuses such an attribute, LockedUntilBoot is raised, and no setting was changed.
    """
    pending_before = machine.pending_values
    response = send_settings_with_entity_tag(machine, values)
    if not response.is_success:
        raise _make_error_for_refused_settings(machine, values, response, unlocked_by_others)
    location = response.headers.get("location", "")
    machine_after = machine.read_machine_again()
    if machine_after.hides_pending_settings:
        return machine_after, None  # This BMC hides pending settings, so they cannot be read back.
    dropped = [
        name
        for name, value in values.items()
        if machine_after.staged.get(name, machine_after.active.get(name)) != value
    ]
    if dropped:
        _restore_earlier_pending_values(machine_after, pending_before, values)
        raise BmcError(
            f"The BMC {machine.bmc_name} took the request and dropped {', '.join(dropped)} without a message. The "
            "other values were put back, so nothing is pending from this run. Find the reason of the lock with "
            "epyc_bmc_bios_info."
        )
    return machine_after, _find_or_create_job_of_dell(machine_after, location, values)


def send_settings_with_entity_tag(machine: Machine, values: Mapping[str, Value]) -> Response:
    """Send values with the entity tag that was read before.

    If only the entity tag has changed since, the values are sent again with the new tag.
    """
    body: dict[str, Any] = {"Attributes": dict(values)}
    if ON_RESET in machine.apply_times:
        body["@Redfish.SettingsApplyTime"] = {"ApplyTime": ON_RESET}
    response = machine.client.send_request(
        "PATCH", machine.settings_path, body, _make_if_match_header(machine.settings_etag)
    )
    if response.status in (404, 405) and not machine.settings_exist:
        creation = machine.client.send_request("POST", machine.settings_path, body)
        if not creation.is_success:
            return creation
        after = machine.client.fetch_resource_if_present(machine.settings_path)
        shown = (after.body.get("Attributes") or {}) if after else {}
        if all(shown.get(name) == value for name, value in values.items()):
            return creation
        return machine.client.send_request(
            "PATCH", machine.settings_path, body, _make_if_match_header(after.etag if after else None)
        )
    if response.status in (412, 428):
        current = machine.read_machine_again()
        if current.staged != machine.staged or current.active != machine.active:
            raise BmcError(
                f"Somebody else changes the BIOS settings at the BMC {machine.bmc_name} right now. Nothing was changed "
                "by this run; run again later."
            )
        response = machine.client.send_request(
            "PATCH", machine.settings_path, body, _make_if_match_header(current.settings_etag or "*")
        )
    return response


def clear_pending_settings_and_jobs(machine: Machine) -> Machine:
    """Remove all pending settings, the jobs first, and return the machine after that."""
    client = machine.client
    for job in machine.jobs:
        _require_successful_response(machine, client.send_request("DELETE", job.path), f"delete the job {job.id}")
    machine_after = machine.read_machine_again()
    if machine_after.pending_values:
        if machine_after.vendor == "Dell":
            action = _find_clear_pending_action_of_dell(machine_after)
            _require_successful_response(
                machine_after, client.send_request("POST", action, {}), "clear what is pending"
            )
        else:
            _require_successful_response(
                machine_after,
                send_settings_with_entity_tag(
                    machine_after,
                    {name: machine_after.active.get(name) for name in machine_after.pending_values},
                ),
                "take back what is pending",
            )
        machine_after = machine.read_machine_again()
    if machine_after.pending_values:
        raise BmcError(
            f"The BMC {machine.bmc_name} still has {', '.join(machine_after.pending_values)} pending after the request "
            "to clear pending settings. Clear them in its web interface."
        )
    return machine_after


def _restore_earlier_pending_values(
    machine: Machine, pending_before: Mapping[str, Value], sent: Mapping[str, Value]
) -> None:
    if machine.jobs:
        clear_pending_settings_and_jobs(machine)
        return
    restored = {}
    for name, sent_value in sent.items():
        value = pending_before.get(name, machine.active.get(name))
        if machine.staged.get(name) == sent_value and value not in (None, sent_value):
            restored[name] = value
    if restored:
        _require_successful_response(
            machine, send_settings_with_entity_tag(machine, restored), "take back what it had taken"
        )


def _find_or_create_job_of_dell(machine: Machine, location: str, values: Mapping[str, Value]) -> Job | None:
    """Return the job that applies the values, created where it is missing; None for vendors without such jobs.

    Without a job, a BMC of Dell would have the values pending for ever.
    """
    if machine.vendor != "Dell" or not machine.pending_values:
        return None
    if not machine.jobs and machine.jobs_path and "/Jobs/" not in location:
        # A newer iDRAC answers 200 without a job where the same values were pending already.
        response = machine.client.send_request("POST", machine.jobs_path, {"TargetSettingsURI": machine.settings_path})
        _require_successful_response(machine, response, "make the job that applies the settings")
        location = response.headers.get("location", "")
    if machine.jobs:
        return machine.jobs[0]
    job = Job(location, machine.client.fetch_resource_body(location)) if location else None
    if job is None:
        raise BmcError(
            f"The BMC {machine.bmc_name} has {', '.join(values)} pending and made no job for it, so no boot would "
            "apply it. Clear it with pending: clear, or make the job in the web interface of the BMC."
        )
    if job.state in ("Failed", "CompletedWithErrors"):
        raise BmcError(f"The job {job.id} of the BMC {machine.bmc_name} is {job.state}. Clear it with pending: clear.")
    return job


def _find_clear_pending_action_of_dell(machine: Machine) -> str:
    response = machine.client.fetch_resource_if_present(machine.settings_path)
    actions = response.body.get("Actions", {}) if response else {}
    oem = actions.get("Oem", {}) if isinstance(actions, dict) else {}
    action = oem.get("#DellManager.ClearPending") or oem.get("DellManager.ClearPending") or {}
    return str(action.get("target") or f"{machine.settings_path}/Actions/Oem/DellManager.ClearPending")


def _make_error_for_refused_settings(
    machine: Machine, values: Mapping[str, Value], response: Response, unlocked_by_others: set[str]
) -> BmcError:
    name = machine.bmc_name
    if response.says_licence_is_missing:
        return BmcError(
            f"The BMC {name} needs a licence to set the BIOS{response.quote_error_messages()}; Supermicro sells it as "
            "SFT-OOB-LIC or SFT-DCMS-SINGLE. Nothing was changed."
        )
    if response.messages_contain_any("UnableToModifyDuringSystemPOST"):
        return BmcError(
            f"The server of the BMC {name} is in its self-test. Run again when it has started. Nothing was changed."
        )
    blamed = [
        attribute for attribute in values if any(message.mentions_attribute(attribute) for message in response.messages)
    ]
    if (
        unlocked_by_others
        and response.messages_contain_any(*LOCKED_WORDS)
        and (not blamed or set(blamed) & unlocked_by_others)
    ):
        return LockedUntilBoot(f"The BMC {name} refuses {', '.join(sorted(unlocked_by_others))} for now.")
    if response.status in (412, 428):
        return BmcError(
            f"The BMC {name} says that its settings changed twice meanwhile. Nothing was changed; run again."
        )
    cause = f" because of {', '.join(blamed)}" if blamed else ""
    return BmcError(
        f"The BMC {name} refuses the settings{cause}: {response.status_and_error_messages()} Nothing was changed."
    )


def _require_successful_response(machine: Machine, response: Response, action: str) -> None:
    if not response.is_success:
        raise BmcError(f"The BMC {machine.bmc_name} does not {action}: {response.status_and_error_messages()}")


def _make_if_match_header(etag: str | None) -> dict[str, str]:
    return {"If-Match": etag} if etag else {"If-Match": "*"}
