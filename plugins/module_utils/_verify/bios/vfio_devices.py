# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Devices that VFIO passes to a guest or a program, and that need the IOMMU.

Source: Documentation/driver-api/vfio.rst and Documentation/ABI/testing/sysfs-kernel-iommu_groups of the Linux kernel.
"""

from __future__ import annotations

import re

from .iommu_and_encryption import GROUPS, IOMMUS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..._io.kernelfs import KernelFS

DRIVERS = "/sys/bus/pci/drivers"
#: The folder with a device node for each group of devices that a VFIO driver has.
VFIO_NODES = "/dev/vfio"
ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def list_vfio_devices(fs: KernelFS) -> list[str]:
    """Return a text for each device of a VFIO driver, and for each group in use whose devices are not PCI devices.

    Without an IOMMU the list is empty, because VFIO devices that work without an IOMMU cannot lose it.
    """
    if not fs.list_names(IOMMUS):
        return []
    groups = {device: group for group in fs.list_names(GROUPS) for device in fs.list_names(f"{GROUPS}/{group}/devices")}
    drivers = {
        device: driver
        for driver in fs.list_names(DRIVERS)
        if "vfio" in driver
        for device in fs.list_names(f"{DRIVERS}/{driver}")
        if ADDRESS.fullmatch(device)
    }
    devices_shown = [
        f"{device} (IOMMU group {groups.get(device, 'unknown')}, driver {driver})"
        for device, driver in sorted(drivers.items())
    ]
    listed_groups = {groups.get(device) for device in drivers}
    for group in fs.list_names(VFIO_NODES):
        if group.isdigit() and group not in listed_groups:
            devices = [device for device, its in sorted(groups.items()) if its == group]
            devices_shown.append(f"{', '.join(devices) or 'a device'} (IOMMU group {group}, {VFIO_NODES}/{group})")
    return devices_shown
