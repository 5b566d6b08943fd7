# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The registry of the BIOS attributes of a machine, wherever its BMC has it.

Source: DMTF DSP8010, schema MessageRegistryFile.
"""

from __future__ import annotations

from .attributes.registry import Registry
from .connection.client import SERVICE_ROOT
from .connection.collections import fetch_member_paths
from .connection.responses import BmcError, RequestRefused
from .connection.shapes import list_or_empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from .machine import Machine

REGISTRIES_PATH = f"{SERVICE_ROOT}/Registries"
#: Beginnings of the names of registries that hold messages, and no attributes.
MESSAGE_REGISTRIES = ("Base", "TaskEvent", "ResourceEvent", "Privilege", "Telemetry")


def fetch_attribute_registry(machine: Machine) -> Registry:
    """Fetch the registry of the BIOS attributes, in whose spelling the machine has all values from then on."""
    client = machine.client
    name = str(machine.bios.body.get("AttributeRegistry") or "")
    for path in _list_registry_file_paths(machine, name):
        try:
            response = client.fetch_resource_if_present(path)
        except RequestRefused:
            continue
        for uri in _registry_urls_english_first(path, response.body if response else {}):
            document = client.fetch_resource_if_present(uri)
            registry = Registry(document.body if document else {})
            if len(registry):
                machine.use_spelling_of_registry(registry)
                return registry
    raise BmcError(
        f"The BMC {machine.bmc_name} has no registry of BIOS attributes{f' ({name})' if name else ''}, so it is "
        "unknown which values this machine takes. Boards of AMI send the registry to the BMC in their self-test: "
        "start the machine once while its BMC is up, then run again. Nothing was changed."
    )


def _list_registry_file_paths(machine: Machine, name: str) -> Iterator[str]:
    """Yield the paths of files that may name the registry, the likeliest first."""
    if name:
        yield f"{REGISTRIES_PATH}/{name}"
    # The name of the registry in the BIOS resource may differ from that in the collection of registries.
    members = fetch_member_paths(machine.client, REGISTRIES_PATH) or []
    likely = [path for path in members if _is_likely(path.rstrip("/").rsplit("/", 1)[-1], name)]
    yield from likely
    yield from (
        path
        for path in members
        if path not in likely and not path.rstrip("/").rsplit("/", 1)[-1].startswith(MESSAGE_REGISTRIES)
    )


def _is_likely(last: str, name: str) -> bool:
    return ("bios" in last.lower() and "attribute" in last.lower()) or (
        bool(name) and last.startswith(name.split(".")[0])
    )


def _registry_urls_english_first(path: str, resource: Mapping[str, Any]) -> list[str]:
    """Return the URLs of a registry; the URL of its English version comes first."""
    if isinstance(resource.get("RegistryEntries"), dict):
        return [str(resource.get("@odata.id") or path)]
    locations = [entry for entry in list_or_empty(resource.get("Location")) if isinstance(entry, dict)]
    locations.sort(key=lambda location: not str(location.get("Language") or "en").lower().startswith("en"))
    urls = []
    for location in locations:
        uri = location.get("Uri")
        # Older services of HPE have an object here.
        uri = uri.get("extref") or uri.get("@odata.id") if isinstance(uri, dict) else uri
        urls += [uri] if isinstance(uri, str) and uri else []
    return urls
