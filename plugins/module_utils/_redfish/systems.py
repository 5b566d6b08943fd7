# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The systems of a BMC, and which of them is the server.

A BMC may show several systems: cards with processors of their own, the baseboard of accelerators, or a second server.
Only a server that is alone among others is taken without its name.
Source: DMTF DSP8010, schema ComputerSystem.
"""

from __future__ import annotations

import re

from .connection.client import SERVICE_ROOT
from .connection.collections import fetch_member_paths
from .connection.responses import BmcBusy, BmcError, NoRedfish, RequestRefused
from .connection.shapes import nested_object_or_empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .connection.client import RedfishClient

SYSTEMS_PATH = f"{SERVICE_ROOT}/Systems"
#: Names of systems that are no servers, although some BMCs call them physical.
NO_SERVER_NAMES = re.compile(r"dpu|bluefield|hgx|baseboard|smartnic", re.IGNORECASE)


class System:
    """A system: its path, its resource, and ``doubt``, a sentence on why it may not be the server, or ""."""

    def __init__(self, path: str, resource: Mapping[str, Any]) -> None:
        self.path = path
        self.resource = resource
        self.doubt = ""

    @property
    def path_name(self) -> str:
        """Return the last part of the path."""
        return self.path.rstrip("/").rsplit("/", 1)[-1]

    @property
    def id(self) -> str:
        return str(self.resource.get("Id") or self.path_name)

    @property
    def bios_path(self) -> str:
        """Return the path of its BIOS settings, "" for a system without any."""
        return find_nested_link_path(self.resource, "Bios")

    @property
    def is_server(self) -> bool:
        return str(self.resource.get("SystemType") or "Physical") == "Physical" and not (
            NO_SERVER_NAMES.search(self.id) or NO_SERVER_NAMES.search(self.path_name)
        )


def find_nested_link_path(resource: Mapping[str, Any], *keys: str) -> str:
    """Return the path of a link under nested keys of a resource; "" where the resource has no such link."""
    return str(nested_object_or_empty(resource, *keys).get("@odata.id") or "")


def find_system_by_name_or_only_server(client: RedfishClient, name: str | None) -> System:
    """Return the system with a name, which is its Id or the last part of its path; or the only server.

    Raises BmcError where there is no such system, or more than one server.
    """
    paths = fetch_member_paths(client, SYSTEMS_PATH) or []
    named_paths = [path for path in paths if name and System(path, {}).path_name == name]
    if named_paths or len(paths) == 1:
        only = System((named_paths or paths)[0], {})
        only.resource = client.fetch_resource_body(only.path)
        if not name or name in (only.id, only.path_name):
            return _require_bios(client, [only])
    systems, failed = _fetch_systems(client, paths)
    if name:
        named = [system for system in systems if system.id == name]
        if len(named) == 1:
            return named[0]
        known_names = _format_names([*systems, *failed]) or "none"
        raise BmcError(f"The BMC {client.access.bmc_name} has no system {name}, but {known_names}.")
    return _choose_only_server(client, systems, failed)


def _fetch_systems(client: RedfishClient, paths: Sequence[str]) -> tuple[list[System], list[System]]:
    """Return the systems of the paths that answer, and those that answer with an error."""
    systems, failed = [], []
    for path in paths:
        try:
            systems.append(System(path, client.fetch_resource_body(path)))
        except (BmcBusy, NoRedfish, RequestRefused):
            failed.append(System(path, {}))
    return systems, failed


def _choose_only_server(client: RedfishClient, systems: list[System], failed: list[System]) -> System:
    servers = [system for system in systems if system.bios_path and system.is_server]
    if len(servers) > 1:
        raise BmcError(
            f"The BMC {client.access.bmc_name} has several servers, {_format_names(servers)}. Choose one with the "
            "option system. Nothing was changed."
        )
    if not servers and failed:
        client.fetch_resource_body(failed[0].path)
    server = _require_bios(client, servers)
    unknown = [system for system in failed if system.is_server]
    if unknown:
        server.doubt = (
            f"It is not sure that {server.id} is the server of the BMC {client.access.bmc_name}, because "
            f"{_format_names(unknown)} answers with an error. Say its name with the option system."
        )
    return server


def _require_bios(client: RedfishClient, systems: Sequence[System]) -> System:
    for system in systems:
        if system.bios_path:
            return system
    raise BmcError(f"The BMC {client.access.bmc_name} shows no system with a BIOS. Nothing was changed.")


def _format_names(systems: Sequence[System]) -> str:
    """Return the names of systems as the option ``system`` takes them: their Ids, or the paths where Ids are equal."""
    ids = [system.id for system in systems]
    return ", ".join(ids if len(set(ids)) == len(ids) else [system.path_name for system in systems])
