# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Devices that are handed on through the IOMMU, to a guest or to a program (VFIO), and are lost without one.

Source: Documentation/driver-api/vfio.rst and Documentation/ABI/testing/sysfs-kernel-iommu_groups of the Linux kernel.
"""

from __future__ import annotations

import re

from .iommu_and_encryption import GROUPS, IOMMUS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..._io.kernelfs import KernelFS

DRIVERS = "/sys/bus/pci/drivers"
#: Has a node for each group of devices that a driver of VFIO has.
NODES = "/dev/vfio"
ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def iommu_users(fs: KernelFS) -> list[str]:
    """Return the devices with their group and driver, and groups whose devices are none of PCI.

    None where there is no IOMMU: VFIO has a mode without, whose devices lose nothing.
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
    found = [
        f"{device} (IOMMU group {groups.get(device, 'unknown')}, driver {driver})"
        for device, driver in sorted(drivers.items())
    ]
    told = {groups.get(device) for device in drivers}
    for group in fs.list_names(NODES):
        if group.isdigit() and group not in told:
            devices = [device for device, its in sorted(groups.items()) if its == group]
            found.append(f"{', '.join(devices) or 'a device'} (IOMMU group {group}, {NODES}/{group})")
    return found
