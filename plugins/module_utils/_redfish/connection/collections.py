# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collections of a BMC, whose members may be on several pages.

Source: DMTF DSP0266, "Collections of resources", Members@odata.nextLink.
"""

from __future__ import annotations

from .responses import RequestRefused
from .shapes import list_or_empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .client import RedfishClient

#: The most pages of a collection that are read; a log has more, and none is needed here.
MAX_PAGES = 100


def fetch_members(client: RedfishClient, path: str) -> list[Mapping[str, Any]] | None:
    """Return the members of all pages of a collection; None for a collection that the BMC does not have."""
    response = client.fetch_resource_if_present(path)
    if response is None:
        return None
    members: list[Mapping[str, Any]] = []
    seen = {path}
    while response is not None:
        entries, next_page = response.body.get("Members"), response.body.get("Members@odata.nextLink")
        members += [entry for entry in list_or_empty(entries) if isinstance(entry, dict)]
        if not isinstance(next_page, str) or not next_page or next_page in seen or len(seen) > MAX_PAGES:
            break
        seen.add(next_page)
        response = client.fetch_resource_if_present(next_page)
    return members


def fetch_member_paths(client: RedfishClient, path: str) -> list[str] | None:
    """Return the paths of the members of a collection; None for a collection that the BMC does not have."""
    members = fetch_members(client, path)
    return None if members is None else list_paths(members)


def fetch_expanded_members(client: RedfishClient, path: str) -> list[Mapping[str, Any]] | None:
    """Return the members of a collection as whole resources where the BMC can expand it, or else as links."""
    try:
        members = fetch_members(client, f"{path}?$expand=*($levels=1)")
    except RequestRefused:
        members = None
    return fetch_members(client, path) if members is None else members


def list_paths(entries: object) -> list[str]:
    """Return the paths of a list of links, each once."""
    links = (
        [entry.get("@odata.id") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    )
    return list(dict.fromkeys(link for link in links if isinstance(link, str) and link))
