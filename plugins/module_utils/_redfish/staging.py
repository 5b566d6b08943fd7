# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings sent to a BMC: all of them or none, read back, with the job that applies them where one is needed.

Nothing is ever sent with the apply time Immediate, which would reset the server.
"""

from __future__ import annotations

from .connection.responses import BmcError
from .machine import Job, look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .attributes.registry import Value
    from .connection.responses import Answer
    from .machine import Machine

ON_RESET = "OnReset"
#: What a BMC says of a value that depends on one which is not in force yet.
LOCKED = ("PropertyValueConflict", "PropertyNotWritable", "read-only", "read only", "dependen", "conflict")


class NotYet(BmcError):
    """The BMC takes some of the values only when others of the same request are in force."""


def stage(machine: Machine, values: Mapping[str, Value], later: set[str]) -> tuple[Machine, Job | None]:
    """Send values and read them back; returns the machine as it is then, and the job. Raises when not all are pending.

    ``later`` has the names that other values of the request set free; where the BMC refuses one of them, NotYet is
    raised, and nothing was changed.
    """
    client, before = machine.client, machine.pending
    answer = send(machine, values)
    if answer.status not in (200, 201, 202, 204):
        raise _refused(machine, values, answer, later)
    location = answer.headers.get("location", "")
    now = look(client, str(machine.system.get("Id") or "") or None)
    if now.blind:
        # Nothing shows what waits for the boot; the answer is all there is.
        return now, None
    lost = [name for name, value in values.items() if now.staged.get(name, now.active.get(name)) != value]
    if lost:
        _put_back(now, before, values)
        raise BmcError(
            f"The BMC {client.access.name} took the request and dropped {', '.join(lost)} of it, without a word. What "
            "it had taken was put back, nothing is pending from this run. Look for what locks it with epyc_bios_info."
        )
    return now, _job(now, location, values)


def send(machine: Machine, values: Mapping[str, Value]) -> Answer:
    """Send values to the pending object, with the entity tag of the look; once more where only that was stale."""
    body: dict[str, Any] = {"Attributes": dict(values)}
    if ON_RESET in machine.apply_times:
        body["@Redfish.SettingsApplyTime"] = {"ApplyTime": ON_RESET}
    answer = machine.client.ask("PATCH", machine.target, body, _match(machine.target_etag))
    if answer.status in (404, 405) and not machine.target_exists:
        made = machine.client.ask("POST", machine.target, body)
        if made.status not in (200, 201, 202, 204):
            return made
        after = machine.client.find(machine.target)
        shown = (after.body.get("Attributes") or {}) if after else {}
        if all(shown.get(name) == value for name, value in values.items()):
            return made
        return machine.client.ask("PATCH", machine.target, body, _match(after.etag if after else None))
    if answer.status in (412, 428):
        again = look(machine.client, str(machine.system.get("Id") or "") or None)
        if again.staged != machine.staged or again.active != machine.active:
            raise BmcError(
                f"Somebody else changes the BIOS settings at the BMC {machine.client.access.name} right now. Nothing "
                "was changed by this run; run again when they are done."
            )
        answer = machine.client.ask("PATCH", machine.target, body, _match(again.target_etag or "*"))
    return answer


def clear(machine: Machine) -> Machine:
    """Take back everything that is pending, jobs first; returns the machine as it is then."""
    client = machine.client
    for job in machine.jobs:
        _expect(machine, client.ask("DELETE", job.path), f"delete the job {job.id}")
    now = look(client, str(machine.system.get("Id") or "") or None)
    if now.pending:
        if now.vendor == "Dell":
            action = _clear_action(now)
            _expect(now, client.ask("POST", action, {}), "clear what is pending")
        else:
            _expect(now, send(now, {name: now.active.get(name) for name in now.pending}), "take back what is pending")
        now = look(client, str(machine.system.get("Id") or "") or None)
    if now.pending:
        raise BmcError(
            f"The BMC {client.access.name} still has {', '.join(now.pending)} pending after it was told to clear it. "
            "Clear it in its web interface."
        )
    return now


def _put_back(now: Machine, before: Mapping[str, Value], sent: Mapping[str, Value]) -> None:
    if now.jobs:
        clear(now)
        return
    back = {name: before.get(name, now.active.get(name)) for name in sent if now.staged.get(name) == sent[name]}
    back = {name: value for name, value in back.items() if value is not None and now.staged.get(name) != value}
    if back:
        _expect(now, send(now, back), "take back what it had taken")


def _job(now: Machine, location: str, values: Mapping[str, Value]) -> Job | None:
    """Return the job that applies the values; without one Dell keeps them pending for ever."""
    if now.vendor != "Dell" or not now.pending:
        return None
    if not now.jobs and now.jobs_path and "/Jobs/" not in location:
        # A newer iDRAC answers 200 without a job where the same values were pending already.
        answer = now.client.ask("POST", now.jobs_path, {"TargetSettingsURI": now.target})
        _expect(now, answer, "make the job that applies the settings")
        location = answer.headers.get("location", "")
    if now.jobs:
        return now.jobs[0]
    job = Job(location, now.client.get(location)) if location else None
    if job is None:
        raise BmcError(
            f"The BMC {now.client.access.name} has {', '.join(values)} pending and made no job for it, so no boot "
            "would apply it. Clear it with pending: clear, or make the job in its web interface."
        )
    if job.state in ("Failed", "CompletedWithErrors"):
        raise BmcError(
            f"The job {job.id} of the BMC {now.client.access.name} is {job.state}. Clear it with pending: clear."
        )
    return job


def _clear_action(machine: Machine) -> str:
    answer = machine.client.find(machine.target)
    actions = answer.body.get("Actions", {}) if answer else {}
    oem = actions.get("Oem", {}) if isinstance(actions, dict) else {}
    told = oem.get("#DellManager.ClearPending") or oem.get("DellManager.ClearPending") or {}
    return str(told.get("target") or f"{machine.target}/Actions/Oem/DellManager.ClearPending")


def _refused(machine: Machine, values: Mapping[str, Value], answer: Answer, later: set[str]) -> BmcError:
    name = machine.client.access.name
    if answer.licence:
        return BmcError(
            f"The BMC {name} needs a licence to set the BIOS{answer.reason()}; Supermicro sells it as SFT-OOB-LIC or "
            "SFT-DCMS-SINGLE. Nothing was changed."
        )
    if answer.says("UnableToModifyDuringSystemPOST"):
        return BmcError(
            f"The server of the BMC {name} is in its self-test. Run again when it has started. Nothing was changed."
        )
    blamed = [one for one in values if any(message.names(one) for message in answer.messages)]
    if later and answer.says(*LOCKED) and (not blamed or set(blamed) & later):
        return NotYet(f"The BMC {name} refuses {', '.join(sorted(later))} for now.")
    if answer.status in (412, 428):
        return BmcError(
            f"The BMC {name} says that its settings changed twice meanwhile. Nothing was changed; run again."
        )
    about = f" because of {', '.join(blamed)}" if blamed else ""
    return BmcError(f"The BMC {name} refuses the settings{about}: {answer.sentence()} Nothing was changed.")


def _expect(machine: Machine, answer: Answer, what: str) -> None:
    if answer.status not in (200, 201, 202, 204):
        raise BmcError(f"The BMC {machine.client.access.name} does not {what}: {answer.sentence()}")


def _match(etag: str | None) -> dict[str, str]:
    return {"If-Match": etag} if etag else {"If-Match": "*"}
