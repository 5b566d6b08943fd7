# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The frequency policies of a host of sixteen cores, as each driver of cpufreq shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq.knob import CpuFreq
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq.policy import HOME, PSTATE_STATUS
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.frequencies import ACPI, GENERIC, UNSUPPORTED

COMMON = {"cpuinfo_min_freq": 1500000, "scaling_min_freq": 1500000, "scaling_setspeed": UNSUPPORTED}
PASSIVE = {
    **COMMON,
    "scaling_driver": "amd-pstate",
    "scaling_available_governors": GENERIC,
    "scaling_governor": "schedutil",
    "cpuinfo_max_freq": 3107909,
    "amd_pstate_max_freq": 3107909,
    "scaling_max_freq": 3107909,
    "boost": 1,
}
ACTIVE = {
    **PASSIVE,
    "scaling_driver": "amd-pstate-epp",
    "scaling_available_governors": "performance powersave",
    "scaling_governor": "powersave",
    "energy_performance_preference": "balance_performance",
    "energy_performance_available_preferences": "default performance balance_performance balance_power power",
}
DRIVERS = {
    "acpi-cpufreq": (ACPI, None),
    "active": (ACTIVE, "active"),
    "passive": (PASSIVE, "passive"),
    "guided": (PASSIVE, "guided"),
}


def machine(root: Path, driver: str, smt: bool = False, **changes: Any) -> hosts.Host:
    """Sixteen cores, a policy for each; files that a change sets to None are not there."""
    files, status = DRIVERS[driver]
    tree = hosts.small(root, smt=smt)
    for core in range(16):
        cpus = f"{core} {core + 16}" if smt else f"{core}"
        for name, text in {**files, "affected_cpus": cpus, "related_cpus": cpus, **changes}.items():
            if text is not None:
                tree.put(f"{HOME}/policy{core}/{name}", text)
        tree.put(f"/sys/devices/system/cpu/cpu{core}/acpi_cppc/nominal_freq", 2250)
    tree.put(f"{HOME}/boost", 1)
    if status:
        tree.put(PSTATE_STATUS, status)
    return tree


def knob(tree: hosts.Host, *settings: dict[str, Any], **intent: Any) -> CpuFreq:
    return CpuFreq(Host(tree.fs, intent), settings)


def refusal(tree: hosts.Host, *settings: dict[str, Any]) -> str:
    with pytest.raises(BadRequest) as caught:
        knob(tree, *settings).wanted_settings()
    return str(caught.value)
