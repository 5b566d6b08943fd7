# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""CPUID leaves of CPU 0, read through the kernel's cpuid driver.

Source: Documentation/admin-guide/devices.txt and arch/x86/kernel/cpuid.c of the Linux kernel: the file offset is the
leaf in the low 32 bits and the subleaf above, and 16 bytes come back.
"""

from __future__ import annotations

from .._errors import Absent, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.kernelfs import KernelFS


def read_cpuid(fs: KernelFS, leaf: int, subleaf: int = 0) -> tuple[int, int, int, int] | None:
    """Return EAX, EBX, ECX, EDX of a leaf; None where the driver is not loaded or the caller is not root."""
    try:
        registers = fs.read_at("/dev/cpu/0/cpuid", subleaf << 32 | leaf, 16)
    except (Absent, Refused):
        return None
    if len(registers) != 16:
        return None
    words = [int.from_bytes(registers[offset : offset + 4], "little") for offset in (0, 4, 8, 12)]
    return words[0], words[1], words[2], words[3]
