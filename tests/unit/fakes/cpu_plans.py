# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans of the CPUs of a host, and the request that the recipe makes."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.ccds import L3Domain
from ansible_collections.sovereign.epyc.plugins.module_utils._host.intent import Intent
from ansible_collections.sovereign.epyc.plugins.module_utils._host.plan import Plan, build_plan
from ansible_collections.sovereign.epyc.plugins.module_utils._host.topology import Topology

EACH_NODE = {"cores": 1, "per": "node"}
RECIPE = {"housekeeping": EACH_NODE, "draft": {"ccds": 1, "l3": "12MiB"}, "verify": {"l3": "12MiB"}}
FULL = 0xFFFF


def planned(top: Topology, **raw: Any) -> Plan:
    return build_plan(Intent.from_options(raw), top)


def refused(top: Topology, **raw: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        planned(top, **raw)
    return str(caught.value)


def cpus_of(domains: list[L3Domain]) -> set[int]:
    return {cpu for domain in domains for cpu in domain.cpus}


def every_cpu_has_one_role(result: Plan, top: Topology) -> None:
    parts = [result.housekeeping, result.draft, result.verify, result.idle]
    assert sorted(cpu for part in parts for cpu in part) == list(top.online)
    assert all(cpu in getattr(result, result.role_of(cpu)) for cpu in top.online)
