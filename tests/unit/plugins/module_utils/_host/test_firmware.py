# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Frequencies that no EPYC has, as wrong CPPC tables of a BIOS make the kernel show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.survey import Survey
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._host.plan_text import render_plan
from ansible_collections.sovereign.epyc.plugins.module_utils._verify import boot_service
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.checklist import Checklist
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.checklist_items import Item
from ansible_collections.sovereign.epyc.tests.unit.fakes.cpufreq_drivers import DRIVERS, knob, machine, refusal

CPU = "/sys/devices/system/cpu"
WAY_OUT = "Until then boot with amd_pstate=disable"


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_frequencies_of_a_good_host_are_no_fault(tmp_path: Path, driver: str) -> None:
    assert machine(tmp_path, driver).topology().frequency_fault == ""


@pytest.mark.parametrize(("driver", "khz", "mhz"), [("active", 550000, 550), ("passive", 0, 0)])
def test_a_highest_frequency_that_no_epyc_has_is_a_fault(tmp_path: Path, driver: str, khz: int, mhz: int) -> None:
    host = Host(machine(tmp_path, driver, cpuinfo_max_freq=khz).fs)
    fault = host.topology.frequency_fault
    assert f"shows {mhz} MHz as the highest frequency of CPU 0" in fault
    assert "fault of the BIOS" in fault
    assert WAY_OUT in fault
    assert render_plan(host.plan, host.topology).splitlines()[0] == f"FAULT: {fault}"


def test_the_driver_without_cppc_is_not_told_to_be_left(tmp_path: Path) -> None:
    fault = machine(tmp_path, "acpi-cpufreq", cpuinfo_max_freq=800000).topology().frequency_fault
    assert "shows 800 MHz" in fault
    assert "amd_pstate=disable" not in fault
    assert "Update the BIOS, and load its defaults." in fault


def without_driver(root: Path, nominal_mhz: int) -> Host:
    """A host to which amd-pstate could not bind: it takes no CPU with a nominal frequency of 0."""
    tree = machine(root, "active")
    tree.drop(f"{CPU}/cpufreq/policy*/*")
    for cpu in range(16):
        tree.put(f"{CPU}/cpu{cpu}/acpi_cppc/nominal_freq", nominal_mhz)
    return Host(tree.fs)


def test_no_driver_and_a_nominal_frequency_of_0_is_a_fault(tmp_path: Path) -> None:
    fault = without_driver(tmp_path, 0).topology.frequency_fault
    assert "give CPU 0 a nominal frequency of 0, so no cpufreq driver is bound" in fault
    assert WAY_OUT in fault


def test_no_driver_alone_is_no_fault_of_the_tables(tmp_path: Path) -> None:
    assert without_driver(tmp_path, 2250).topology.frequency_fault == ""


def test_a_nominal_frequency_of_0_with_a_driver_is_no_fault(tmp_path: Path) -> None:
    """Zen 2 has none, and its drivers work."""
    tree = machine(tmp_path, "passive")
    for cpu in range(16):
        tree.put(f"{CPU}/cpu{cpu}/acpi_cppc/nominal_freq", 0)
    assert tree.topology().frequency_fault == ""


@pytest.mark.parametrize("setting", [{"max": "highest"}, {"min": "lowest"}, {"speed": "400MHz"}])
def test_limits_by_such_frequencies_are_refused_with_the_fault(tmp_path: Path, setting: dict[str, str]) -> None:
    message = refusal(machine(tmp_path, "passive", cpuinfo_max_freq=550000), {"cpus": "all", **setting})
    assert "550 MHz as the highest frequency of CPU 0" in message
    assert message.endswith("Until then min, max and speed mean nothing here, and nothing was changed.")


def test_a_governor_is_set_all_the_same_and_the_fault_told(tmp_path: Path) -> None:
    one = knob(machine(tmp_path, "passive", cpuinfo_max_freq=550000), {"cpus": "0", "governor": "performance"})
    assert one.wanted_settings()["cpufreq:policy0/scaling_governor"] == "performance"
    assert any("550 MHz" in remark for remark in one.list_remarks())


def check_host(root: Path, khz: int) -> list[Item]:
    tree = machine(root, "active", cpuinfo_max_freq=khz)
    tree.put("/proc/cmdline", "ro")
    tree.put("/sys/devices/system/cpu/isolated", "")
    rules = Checklist(bios={}, layers=[], units={}, allow_pending_reboot=False)
    return rules.check_host(Survey(Host(tree.fs), []), (boot_service.MISSING, ""))


def test_the_fault_is_the_first_item_of_the_checklist(tmp_path: Path) -> None:
    item = check_host(tmp_path / "bad", 550000)[0]
    assert (item.name, item.verdict) == ("firmware_frequencies", "wrong")
    assert "shows 550 MHz as the highest frequency of CPU 0" in item.sentence
    assert "firmware_frequencies" not in [item.name for item in check_host(tmp_path / "good", 3107909)]
