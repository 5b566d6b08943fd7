# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine for tests of how a request for resctrl groups is expanded."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.topology import Topology
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel.resctrl import ResctrlFeatures
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.resctrl.expand import Expansion
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.resctrl.request import parse_resctrl_request

IDS = range(4)


class Case:
    """A small machine with resctrl mounted: four domains of 16 ways of 1 MiB, and only the default group."""

    def __init__(self, top: Topology) -> None:
        self.top = top
        self.able: ResctrlFeatures = top.resctrl or ResctrlFeatures()
        self.able.mount_point = "/sys/fs/resctrl"
        self.able.throttle_max = {"MB": 2048}
        self.found: dict[str, str | None] = {}
        self.gone: set[str] = set()
        self.remarks: list[str] = []
        self.there("default", cpus="0-15")

    def there(
        self, name: str, cpus: str = "", mode: str = "shareable", mask: str = "ffff", limit: str = "2048"
    ) -> None:
        """Put a group among those found."""
        self.found[f"resctrl:{name}"] = "present"
        self.found[f"resctrl:{name}/cpus"] = cpus
        self.found[f"resctrl:{name}/mode"] = mode
        for number in IDS:
            self.found[f"resctrl:{name}/L3/{number}"] = mask
            self.found[f"resctrl:{name}/MB/{number}"] = limit

    def hide(self, resource: str) -> None:
        """Let the kernel not offer a resource."""
        self.found = {name: value for name, value in self.found.items() if f"/{resource}/" not in name}

    def wanted(self, *groups: dict[str, Any], default: dict[str, Any] | None = None) -> dict[str, str | None]:
        expansion = Expansion(
            parse_resctrl_request(groups, default, "none"), self.top, self.able, self.found, self.gone
        )
        wanted = expansion.wanted_settings()
        self.remarks = expansion.remarks
        return wanted

    def refused(self, *groups: dict[str, Any], default: dict[str, Any] | None = None) -> str:
        with pytest.raises(BadRequest) as caught:
            self.wanted(*groups, default=default)
        return str(caught.value)


def masks(wanted: dict[str, str | None], group: str, resource: str = "L3") -> list[str | None]:
    return [wanted.get(f"resctrl:{group}/{resource}/{number}") for number in IDS]


def with_cdp(case: Case) -> Case:
    case.able.mount_options = ("cdp",)
    for name in [name for name in case.found if "/L3/" in name]:
        mask = case.found.pop(name)
        for resource in ("L3CODE", "L3DATA"):
            case.found[name.replace("/L3/", f"/{resource}/")] = mask
    return case
