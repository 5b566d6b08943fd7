# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counts of interrupts by CPU and kind: timer ticks, device interrupts, and interrupts sent by other CPUs.

Source: Documentation/filesystems/proc.rst (/proc/interrupts) and arch/x86/kernel/irq.c of the Linux kernel.
"""

from __future__ import annotations

from .._errors import Absent, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.kernelfs import KernelFS

FILE = "/proc/interrupts"
#: The most bytes of the file, which has a row for each interrupt with a column for each CPU.
LARGEST = 64 << 20
TICKS, DEVICES, SENT = KINDS = ("ticks", "devices", "sent")
#: Kinds of rows other than devices. CPUs send interrupts to reschedule, to call a function, and to flush the TLB.
NAMED = {"LOC": TICKS, "RES": SENT, "CAL": SENT, "TLB": SENT}


def read_interrupt_counts(fs: KernelFS) -> dict[str, dict[int, int]]:
    """Return the number of interrupts since boot by kind and CPU; raises Absent or Refused."""
    header, *lines = fs.read(FILE, LARGEST).splitlines()
    cpus = [int(word[len("CPU") :]) for word in header.split()]
    found = {kind: [0] * len(cpus) for kind in KINDS}
    for line in lines:
        name, dummy, rest = line.partition(":")
        kind = DEVICES if name.strip().isdecimal() else NAMED.get(name.strip())
        words = rest.split(None, len(cpus))[: len(cpus)]
        if kind and len(words) == len(cpus):
            found[kind] = [total + int(word) for total, word in zip(found[kind], words)]
    return {kind: dict(zip(cpus, numbers)) for kind, numbers in found.items()}


def read_interrupt_counts_if_shown(fs: KernelFS) -> dict[str, dict[int, int]]:
    """Return the number of interrupts since boot by kind and CPU; empty where the file cannot be read."""
    try:
        return read_interrupt_counts(fs)
    except (Absent, Refused):
        return {}
