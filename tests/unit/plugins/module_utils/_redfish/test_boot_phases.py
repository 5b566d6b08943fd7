# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""By which boot BIOS settings can be made, and that one blocked setting holds back all others."""

from __future__ import annotations

from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.attributes.registry import Registry
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.attributes.resolve import (
    resolve_targets_and_missing_options,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.boot_phases import (
    BootPhases,
    plan_targets_by_boot,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.bmcs import enumeration, locked

ATTRIBUTES = [
    enumeration("ProcSMT", "Enabled", "Disabled"),
    enumeration("MinProcIdlePower", "C6", "NoCStates"),
    enumeration("WorkloadProfile", "GeneralPowerEfficientCompute", "Custom"),
    enumeration("InfinityFabricPstate", "Auto", "P0", ReadOnly=True),
]
ACTIVE = {
    "ProcSMT": "Enabled",
    "MinProcIdlePower": "C6",
    "WorkloadProfile": "GeneralPowerEfficientCompute",
    "InfinityFabricPstate": "Auto",
}
LOCK = locked("MinProcIdlePower", "WorkloadProfile", "Custom")


def planned(wanted: dict[str, str], **active: str) -> BootPhases:
    """Return the phases of attributes by name on a machine of HPE whose profile is not opened."""
    registry = Registry({"RegistryEntries": {"Attributes": ATTRIBUTES, "Dependencies": [LOCK]}})
    values = {**ACTIVE, **active}
    return plan_targets_by_boot(
        registry,
        "HPE",
        resolve_targets_and_missing_options(registry, "HPE", values, {}, wanted)[0],
        values,
        {},
        unlock=False,
    )


def test_without_a_lock_one_boot_makes_all() -> None:
    plan = planned({"ProcSMT": "Disabled", "WorkloadProfile": "Custom", "MinProcIdlePower": "NoCStates"})
    assert (set(plan.first_boot), plan.boot_count) == ({"ProcSMT", "WorkloadProfile", "MinProcIdlePower"}, 1)


def test_a_blocked_setting_holds_back_the_first_boot() -> None:
    plan = planned({"ProcSMT": "Disabled", "MinProcIdlePower": "NoCStates"})
    assert set(plan.blocked) == {"MinProcIdlePower"}
    assert (plan.first_boot, plan.second_boot, plan.boot_count) == ({}, {}, 0)
