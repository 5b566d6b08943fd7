# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tree is as Linux 6.12 shows a server with two GPUs, one of which is given to a guest."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.vfio_devices import list_vfio_devices
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

DRIVERS, GROUPS = "/sys/bus/pci/drivers", "/sys/kernel/iommu_groups"
DEVICES = {"0000:41:00.0": "23", "0000:c1:00.0": "40", "0000:c2:00.0": "41"}


@pytest.fixture
def host(tmp_path: Path) -> hosts.Host:
    host = hosts.Host(tmp_path)
    for device, group in DEVICES.items():
        host.put(f"{GROUPS}/{group}/devices/{device}/class", "0x030200")
        host.put(f"{GROUPS}/{group}/type", "DMA-FQ")
    host.put("/sys/class/iommu/ivhd0/uevent", "")
    host.put("/dev/vfio/vfio", "")
    for name in ("bind", "module", "new_id", "uevent"):
        host.put(f"{DRIVERS}/vfio-pci/{name}", "")
    return host


def bind(host: hosts.Host, device: str, driver: str) -> None:
    host.put(f"{DRIVERS}/{driver}/{device}/vendor", "0x10de")


def test_a_driver_without_a_device_is_no_use(host: hosts.Host) -> None:
    bind(host, "0000:41:00.0", "nvidia")
    assert list_vfio_devices(host.fs) == []


def test_devices_of_each_driver_of_vfio_are_named(host: hosts.Host) -> None:
    bind(host, "0000:c1:00.0", "vfio-pci")
    host.put("/dev/vfio/40", "")
    assert list_vfio_devices(host.fs) == ["0000:c1:00.0 (IOMMU group 40, driver vfio-pci)"]
    bind(host, "0000:41:00.0", "mlx5_vfio_pci")
    assert list_vfio_devices(host.fs) == [
        "0000:41:00.0 (IOMMU group 23, driver mlx5_vfio_pci)",
        "0000:c1:00.0 (IOMMU group 40, driver vfio-pci)",
    ]


def test_a_group_in_use_without_a_driver_of_pci(host: hosts.Host) -> None:
    """As of a mediated device, which is a part of a device that keeps its own driver."""
    host.put("/dev/vfio/41", "")
    host.put("/dev/vfio/77", "")
    assert list_vfio_devices(host.fs) == [
        "0000:c2:00.0 (IOMMU group 41, /dev/vfio/41)",
        "a device (IOMMU group 77, /dev/vfio/77)",
    ]


def test_a_host_without_an_iommu(host: hosts.Host, tmp_path: Path) -> None:
    """VFIO can do without; the driver calls that unsafe."""
    bind(host, "0000:c1:00.0", "vfio-pci")
    host.put("/dev/vfio/noiommu-0", "")
    (tmp_path / "sys/class/iommu/ivhd0/uevent").unlink()
    (tmp_path / "sys/class/iommu/ivhd0").rmdir()
    assert list_vfio_devices(host.fs) == []
