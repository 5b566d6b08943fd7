# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sends settings to the BMC for the next boot, and says what it refused.

No settings are sent with the apply time Immediate, which would reset the server.
"""

from __future__ import annotations

from .._errors import BadRequest
from .connection.responses import BmcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .attributes.registry import Value
    from .connection.responses import Response
    from .machine import Machine

ON_RESET = "OnReset"
#: The entity tag that stands for any, and the statuses of a BMC that wants another one, or one at all.
ANY_TAG = "*"
TAG_STATUSES = (412, 428)
#: Words in the message of a BMC that refuses a value because of another attribute.
LOCKED_WORDS = ("PropertyValueConflict", "PropertyNotWritable", "read-only", "read only", "dependen", "conflict")


class LockedUntilBoot(BmcError):
    """The BMC takes some of the values only when others of the same request are active."""


class NothingPending(BmcError):
    """None of the values is pending: the BMC refused them, or they were taken back, which a reading showed."""


class StillPending(BmcError):
    """Some of the values are pending, or may become so; ``names`` has the names of these attributes."""

    def __init__(self, sentence: str, names: Iterable[str], **details: object) -> None:
        super().__init__(sentence, **details)
        self.names = set(names)


def refuse_other_apply_times(machine: Machine) -> None:
    """Raise BadRequest for a BMC that names its apply times and does not offer to wait for the next reset."""
    if machine.apply_times and ON_RESET not in machine.apply_times:
        raise BadRequest(
            f"The BMC {machine.bmc_name} applies settings only at {', '.join(machine.apply_times)}, and not at the "
            f"next reset ({ON_RESET}). It may reset the server for that while it serves, so no setting is sent. Set "
            "them in the setup of the machine, or update the BMC. Nothing was changed."
        )


def send_settings_with_entity_tag(machine: Machine, values: Mapping[str, Value]) -> Response:
    """Send values, with the entity tag that was read before or in the form that this BMC takes.

    They are only sent once more where the settings are those that were read. Raises NothingPending for a BMC that takes
    no entity tag and no request without one.
    """
    refuse_other_apply_times(machine)
    registry = machine.registry
    body: dict[str, Any] = {"Attributes": registry.json_forms(values) if registry else dict(values)}
    if ON_RESET in machine.apply_times:
        body["@Redfish.SettingsApplyTime"] = {"ApplyTime": ON_RESET}
    response = _patch_or_create(machine, body, machine.settings_etag)
    if response.status not in TAG_STATUSES:
        return response
    current = _read_unchanged_machine(machine)
    if current.settings_etag != machine.settings_etag:
        response = _patch_or_create(current, body, current.settings_etag)
        if response.status not in TAG_STATUSES:
            return response
        before, current = current, _read_unchanged_machine(machine)
        if current.settings_etag != before.settings_etag:
            raise NothingPending(
                f"The BMC {machine.bmc_name} says that its settings changed twice meanwhile. Nothing was changed; run "
                "again."
            )
    for tag in _other_entity_tags(current):
        response = _patch_or_create(current, body, tag)
        # Some BMCs take * for an error of the request.
        if response.status not in TAG_STATUSES and not (tag == ANY_TAG and response.status == 400):
            return response
    raise NothingPending(
        f"The BMC {machine.bmc_name} refuses the settings because of the entity tag, with an entity tag and without: "
        f"{response.status_and_error_messages()} Nothing was changed. An update of the BMC may help."
    )


def _patch(machine: Machine, body: Mapping[str, Any], tag: str | None) -> Response:
    headers = {"If-Match": tag} if tag else {}
    return machine.client.send_request("PATCH", machine.settings_path, body, headers)


def _patch_or_create(machine: Machine, body: Mapping[str, Any], tag: str | None) -> Response:
    """Send settings to their resource; some BMCs want it created first, with the values or without."""
    response = _patch(machine, body, tag)
    if machine.settings_exist or response.status not in (404, 405):
        return response
    creation = machine.client.send_request("POST", machine.settings_path, body)
    if not creation.is_success:
        return creation
    after = machine.client.fetch_resource_if_present(machine.settings_path)
    shown = after.body.get("Attributes") if after else None
    if isinstance(shown, dict) and all(shown.get(name) == value for name, value in body["Attributes"].items()):
        return creation
    return _patch(machine, body, (after.etag if after else None) or ANY_TAG)


def _read_unchanged_machine(machine: Machine) -> Machine:
    """Read the machine again; raises NothingPending if its settings are not those that were read before."""
    current = machine.read_machine_again()
    if current.staged != machine.staged or current.active != machine.active:
        raise NothingPending(
            f"Somebody else changes the BIOS settings at the BMC {machine.bmc_name} right now. Nothing was changed "
            "by this run; run again later."
        )
    return current


def _other_entity_tags(machine: Machine) -> list[str | None]:
    """Return the entity tags to try after that of the settings: none, that of the active settings, and other forms."""
    tag = machine.settings_etag
    strong = tag[2:] if tag and tag.startswith("W/") else tag
    tags = [None, machine.bios.etag, strong, strong and strong.strip('"'), ANY_TAG]
    return [other for other in dict.fromkeys(tags) if other != tag]


def make_error_for_refused_settings(
    machine: Machine, values: Mapping[str, Value], response: Response, unlocked_by_others: set[str]
) -> LockedUntilBoot | NothingPending:
    name = machine.bmc_name
    if response.says_licence_is_missing:
        return NothingPending(
            f"The BMC {name} needs a licence to set the BIOS{response.quote_error_messages()}; Supermicro sells it as "
            "SFT-OOB-LIC or SFT-DCMS-SINGLE. Nothing was changed."
        )
    if response.messages_contain_any("UnableToModifyDuringSystemPOST"):
        return NothingPending(
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
    cause = f" because of {', '.join(blamed)}" if blamed else ""
    return NothingPending(
        f"The BMC {name} refuses the settings{cause}: {response.status_and_error_messages()} Nothing was changed."
    )


def require_successful_response(machine: Machine, response: Response, action: str) -> None:
    if not response.is_success:
        raise BmcError(f"The BMC {machine.bmc_name} does not {action}: {response.status_and_error_messages()}")
