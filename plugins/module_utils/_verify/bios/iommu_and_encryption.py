# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The IOMMU, and the encryption of memory.

The Linux kernel removes the CPU flag sme where the BIOS does not allow SME (arch/x86/kernel/cpu/amd.c).
Source: Documentation/ABI/testing/sysfs-class-iommu and sysfs-driver-ccp, and Documentation/arch/x86
(amd-memory-encryption.rst) of the Linux kernel.
"""

from __future__ import annotations

from .setting import OFF, ON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .setting import KernelView, Reading

TABLES = "/sys/firmware/acpi/tables"
IOMMUS, GROUPS = "/sys/class/iommu", "/sys/kernel/iommu_groups"
SECURITY_PROCESSORS = "/sys/bus/pci/drivers/ccp"
SME, TSME = "sme", "tsme"


def read_iommu(view: KernelView) -> Reading:
    """Return whether the firmware describes an IOMMU in an ACPI table."""
    units, groups = len(view.fs.list_names(IOMMUS)), len(view.fs.list_names(GROUPS))
    if units:
        return ON, f"{units} in {IOMMUS}, with {groups} groups of devices"
    if view.fs.read_status(f"{TABLES}/IVRS") is not None:
        return ON, f"the firmware has the ACPI table IVRS, though the kernel shows none in {IOMMUS}"
    if not view.fs.is_dir(TABLES):
        return None, "the kernel shows no ACPI tables"
    return OFF, "the firmware has no ACPI table IVRS"


def read_memory_encryption(view: KernelView) -> Reading:
    """Return the active encryption of memory: "tsme" by the BIOS alone, "sme" by the kernel, or "off"."""
    fs, flags = view.fs, view.top.flags
    files = [f"{SECURITY_PROCESSORS}/{name}/tsme_status" for name in fs.list_names(SECURITY_PROCESSORS)]
    statuses = {path: value for path in files for value in [fs.read_if_present(path)] if value is not None}
    for path, value in statuses.items():
        if value == "1":
            return TSME, f"{path} is 1"
    allowed = ", ".join(flag for flag in ("sme", "sev", "sev_es", "sev_snp") if flag in flags)
    flags_message = f"flags {allowed}" if allowed else "no flag sme, so the BIOS does not allow the kernel to use SME"
    if "sme" in flags and view.find_first_boot_parameter("mem_encrypt=on"):
        return SME, f"the kernel was started with mem_encrypt=on; {flags_message}"
    if not statuses:
        return None, f"no device of {SECURITY_PROCESSORS} has tsme_status, which shows TSME; of SME: {flags_message}"
    return OFF, f"{next(iter(statuses))} is 0; {flags_message}"
