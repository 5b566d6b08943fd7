# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The BIOS as its BMC shows it: the machine, its settings by option and by attribute, and parts of its registry."""

from __future__ import annotations

from .._errors import BadRequest
from .attributes.catalogue import BIOS_OPTIONS
from .attributes.redaction import redact_secret_values
from .attributes.resolve import find_attribute_of_option, subject_never_set_over_redfish
from .connection.responses import BmcError
from .machine import read_machine_settings_and_jobs
from .registry_files import fetch_attribute_registry
from .settings_table import build_claims_for_bios_check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .attributes.registry import Attribute
    from .connection.client import RedfishClient

#: Words in the option ``describe`` that stand for groups of attributes.
CATALOGUE, ALL = "catalogue", "all"


def read_result_of_bios_info_module(
    client: RedfishClient, system_id: str | None, describe: Sequence[str]
) -> dict[str, Any]:
    """Return the result of the module epyc_bmc_bios_info: machine, settings, and the descriptions of attributes.

    Without a registry, descriptions and claims are empty, and a remark has the reason.
    """
    machine = read_machine_settings_and_jobs(client, system_id)
    remarks = [remark for remark in (machine.doubt, machine.no_place_reason) if remark]
    try:
        registry = fetch_attribute_registry(machine)
    except BmcError as error:
        registry = None
        remarks.append(str(error))
    described: list[Attribute] = []
    if registry is not None:
        known = [find_attribute_of_option(registry, machine.vendor, option) for option in BIOS_OPTIONS]
        for name in describe:
            if name == ALL:
                described += registry.attributes.values()
            elif name == CATALOGUE:
                described += [attribute for attribute in known if attribute is not None]
            else:
                attribute = registry.find_attribute(name)
                if attribute is None:
                    similar = registry.list_similar_names(name)
                    hint = f" Did you mean {' or '.join(similar)}?" if similar else ""
                    raise BadRequest(f"describe: this machine has no attribute {name}.{hint}")
                described.append(attribute)
    return {
        "machine": {**machine.summary, "apply_times": machine.apply_times},
        "claims": build_claims_for_bios_check(registry, machine) if registry else {},
        "active": redact_secret_values(machine.active, registry),
        "pending": redact_secret_values(machine.pending_values, registry),
        "jobs": machine.job_summaries,
        "messages": [message.text or message.id for message in machine.failure_messages_of_last_boot],
        "registry": {attribute.name: _describe_attribute(attribute) for attribute in described},
        "remarks": remarks,
    }


def _describe_attribute(attribute: Attribute) -> dict[str, Any]:
    return {
        "title": attribute.title,
        "menu": attribute.menu,
        "type": attribute.type,
        "takes": attribute.format_allowed_values(),
        "flags": [flag for flag, is_set in attribute.flags.items() if is_set],
        "never_set": subject_never_set_over_redfish(attribute),
    }
