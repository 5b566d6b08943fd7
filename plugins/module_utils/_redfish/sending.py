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
            f"next reset ({ON_RESET}). It may reset the server for that while it serves, so no setting is sent. Set them in "
            "the setup of the machine, or update the BMC. Nothing was changed."
        )


def send_settings_with_entity_tag(machine: Machine, values: Mapping[str, Value]) -> Response:
    """Send values with the entity tag that was read before.

    If only the entity tag has changed since, the values are sent again with the new tag.
    """
    refuse_other_apply_times(machine)
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
            raise NothingPending(
                f"Somebody else changes the BIOS settings at the BMC {machine.bmc_name} right now. Nothing was changed "
                "by this run; run again later."
            )
        response = machine.client.send_request(
            "PATCH", machine.settings_path, body, _make_if_match_header(current.settings_etag or "*")
        )
    return response


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
    if response.status in (412, 428):
        return NothingPending(
            f"The BMC {name} says that its settings changed twice meanwhile. Nothing was changed; run again."
        )
    cause = f" because of {', '.join(blamed)}" if blamed else ""
    return NothingPending(
        f"The BMC {name} refuses the settings{cause}: {response.status_and_error_messages()} Nothing was changed."
    )


def require_successful_response(machine: Machine, response: Response, action: str) -> None:
    if not response.is_success:
        raise BmcError(f"The BMC {machine.bmc_name} does not {action}: {response.status_and_error_messages()}")


def _make_if_match_header(etag: str | None) -> dict[str, str]:
    return {"If-Match": etag} if etag else {"If-Match": "*"}
