# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the kernel lets root write registers (MSRs): lockdown and a parameter of the driver forbid it.

Reading registers stays possible.
Source: kernel_lockdown(7); msr_write in arch/x86/kernel/msr.c of the Linux kernel.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.kernelfs import KernelFS

LOCKDOWN = "/sys/kernel/security/lockdown"
ALLOW_WRITES = "/sys/module/msr/parameters/allow_writes"
#: The beginning of a message that ends with the reason.
READ_ONLY = "Registers of this host can be read but not written: "


def registers_read_only_reason(fs: KernelFS) -> str:
    """Return why root cannot write registers, with what to do; an empty text where root can."""
    mode = fs.read_if_present(LOCKDOWN) or ""
    if "[integrity]" in mode or "[confidentiality]" in mode:
        return (
            f"the kernel is locked down, as {LOCKDOWN} shows ({mode}); Secure Boot does that on most "
            "distributions. Switch the prefetchers and boost in the BIOS, which has the same switches for the "
            "whole machine; or boot without Secure Boot and without lockdown= on the kernel's command line."
        )
    if fs.read_if_present(ALLOW_WRITES) == "off":
        return (
            f"{ALLOW_WRITES} is off. Somebody set msr.allow_writes=off; write 'on' into that file, or remove the "
            "boot parameter or the line in /etc/modprobe.d that sets it."
        )
    return ""
