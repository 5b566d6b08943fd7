# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The versions of the firmware of a host: BIOS and microcode.

Source: Documentation/ABI/testing/sysfs-devices-system-cpu (microcode) of the Linux kernel.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.kernelfs import KernelFS


def read_bios_version(fs: KernelFS) -> str | None:
    """Return the version of the BIOS; None where the kernel does not show it."""
    return fs.read_if_present("/sys/class/dmi/id/bios_version")


def read_microcode_version(fs: KernelFS) -> str | None:
    """Return the version of the microcode of CPU 0; None where the kernel does not show it."""
    return fs.read_if_present("/sys/devices/system/cpu/cpu0/microcode/version")
