# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.firmware import judged


@pytest.fixture
def host(tmp_path: Path) -> hosts.Host:
    host = hosts.build(tmp_path)
    host.put("/proc/cmdline", "root=/dev/sda1 ro")
    return host


def flags(host: hosts.Host, more: str) -> None:
    path = host.root / "proc/cpuinfo"
    path.write_text(path.read_text().replace("fpu msr", f"fpu msr {more}"))


def test_the_firmware_offers_an_iommu_by_a_table(host: hosts.Host) -> None:
    assert "no ACPI tables" in judged(host, iommu="on")["iommu"].sentence
    host.put("/sys/firmware/acpi/tables/APIC", "")
    assert judged(host, iommu="on")["iommu"].verdict == "wrong"
    host.put("/sys/firmware/acpi/tables/IVRS", "")
    item = judged(host, iommu="on")["iommu"]
    assert item.verdict == "ok"
    assert "though the kernel shows none" in item.sentence
    host.put("/sys/class/iommu/ivhd0/uevent", "")
    host.put("/sys/kernel/iommu_groups/0/type", "identity")
    assert "1 in /sys/class/iommu, with 1 groups of devices" in judged(host)["iommu"].sentence


@pytest.mark.parametrize(
    ("more", "line", "tsme", "found"),
    [
        ("", "", None, None),
        ("", "", "0", "off"),
        ("", "", "1", "tsme"),
        ("sme sev", "", "0", "off"),
        ("sme sev", "mem_encrypt=on", "0", "sme"),
        ("sme sev", "mem_encrypt=on", None, "sme"),
        ("sme sev", "mem_encrypt=on", "1", "tsme"),
        ("", "mem_encrypt=on", "0", "off"),  # the BIOS does not let the kernel have it
        ("sme", "", None, None),
    ],
)
def test_memory_is_encrypted_by_the_bios_or_by_the_kernel(
    host: hosts.Host, more: str, line: str, tsme: str | None, found: str | None
) -> None:
    flags(host, more)
    host.put("/proc/cmdline", f"ro {line}")
    host.put("/sys/bus/pci/drivers/ccp/module", "")
    host.put("/sys/bus/pci/drivers/ccp/0000:01:00.5/vendor", "0x1022")
    if tsme is not None:
        host.put("/sys/bus/pci/drivers/ccp/0000:41:00.5/tsme_status", tsme)
    item = judged(host, memory_encryption="off")["memory_encryption"]
    assert item.found == found
    assert item.verdict == {"off": "ok", None: "unknown"}.get(found, "wrong")
    if more and found in ("off", "sme"):
        assert "flags sme, sev" in item.sentence
