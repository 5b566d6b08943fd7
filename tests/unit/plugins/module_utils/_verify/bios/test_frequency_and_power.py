# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.firmware import judged

CPU = "/sys/devices/system/cpu"


@pytest.fixture
def host(tmp_path: Path) -> hosts.Host:
    host = hosts.build(tmp_path)
    host.put("/proc/cmdline", "root=/dev/sda1 ro")
    return host


def test_boost(host: hosts.Host) -> None:
    assert judged(host, boost="on")["boost"].found == "off"  # without the flag
    text = (host.root / "proc/cpuinfo").read_text()
    host.put("/proc/cpuinfo", text.replace("fpu msr", "fpu msr cpb"))
    assert judged(host, boost="on")["boost"].verdict == "unknown"
    for value, verdict in (("1", "ok"), ("0", "wrong")):
        host.put(f"{CPU}/cpufreq/boost", value)
        assert judged(host, boost="on")["boost"].verdict == verdict


def test_cppc(host: hosts.Host) -> None:
    assert judged(host, cppc="on")["cppc"].verdict == "unknown"
    host.put("/sys/firmware/acpi/tables/DSDT", "")
    assert judged(host, cppc="on")["cppc"].verdict == "wrong"
    host.put(f"{CPU}/cpu0/acpi_cppc/highest_perf", 255)
    assert judged(host, cppc="on")["cppc"].verdict == "ok"


def test_preferred_cores(host: hosts.Host) -> None:
    item = judged(host, preferred_cores="off")["preferred_cores"]
    assert item.verdict == "unknown"
    assert "only the driver amd-pstate shows it, and the driver here is acpi-cpufreq" in item.sentence
    host.put(f"{CPU}/cpufreq/policy0/amd_pstate_hw_prefcore", "disabled")
    assert judged(host, preferred_cores="off")["preferred_cores"].verdict == "ok"


def test_hsmp(host: hosts.Host) -> None:
    assert judged(host, hsmp="on")["hsmp"].verdict == "unknown"
    host.put("/sys/module/hsmp_acpi/refcnt", 0)
    assert judged(host, hsmp="on")["hsmp"].verdict == "wrong"
    host.put("/dev/hsmp", "")
    assert judged(host, hsmp="on")["hsmp"].verdict == "ok"


DEBIAN = "CONFIG_AMD_PSTATE=y\n# CONFIG_AMD_HSMP_ACPI is not set\n# CONFIG_AMD_HSMP_PLAT is not set"


def test_a_kernel_without_a_driver_for_hsmp_is_named(host: hosts.Host) -> None:
    """As those of Debian: modprobe helps nobody there."""
    assert "load one with modprobe" in judged(host, hsmp="on")["hsmp"].sentence
    host.put("/boot/config-6.12.0-test", DEBIAN)
    item = judged(host, hsmp="on", power_limit="400 W")["hsmp"]
    assert item.verdict == "unknown"
    assert "no CONFIG_AMD_HSMP in /boot/config-6.12.0-test), as the kernels of Debian are" in item.sentence
    assert "modprobe" not in item.sentence
    assert "built without the driver" in judged(host, power_limit="400 W")["power_limit"].sentence
    host.put("/boot/config-6.12.0-test", "CONFIG_AMD_HSMP_ACPI=m")
    assert "load one with modprobe" in judged(host, hsmp="on")["hsmp"].sentence


def sensor(host: hosts.Host, number: int, name: str, microwatts: int) -> None:
    host.put(f"/sys/class/hwmon/hwmon{number}/name", name)
    host.put(f"/sys/class/hwmon/hwmon{number}/power1_cap", microwatts)


def test_the_socket_that_may_take_least_counts(host: hosts.Host) -> None:
    assert judged(host, power_limit="400 W")["power_limit"].verdict == "unknown"
    sensor(host, 0, "power_meter", 90000000)
    assert judged(host, power_limit="400 W")["power_limit"].verdict == "unknown"
    sensor(host, 1, "amd_hsmp_hwmon", 400000000)
    assert judged(host, power_limit="400 W")["power_limit"].verdict == "ok"
    sensor(host, 2, "amd_hsmp_hwmon", 320000000)
    item = judged(host, power_limit="400 W")["power_limit"]
    assert (item.verdict, item.found) == ("wrong", "320 W")
    sensor(host, 2, "amd_hsmp_hwmon", 0)
    assert "shows no limit" in judged(host, power_limit="400 W")["power_limit"].sentence
