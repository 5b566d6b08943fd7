# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counters of the frequency of CPUs, read before and after a measurement; a guest does not have them.

While a CPU is not idle, it counts MPERF at its nominal frequency and APERF at its real frequency. The ratio of both
counts gives the mean frequency of the time with work.

Source: MSRs 0xE7 and 0xE8 of the AMD64 Architecture Programmer's Manual, volume 2;
Documentation/admin-guide/acpi/cppc_sysfs.rst of the Linux kernel.
"""

from __future__ import annotations

from ..._errors import Absent, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..._io.kernelfs import KernelFS

    #: APERF and MPERF by CPU.
    Cycles = dict[int, tuple[int, int]]

MPERF, APERF = 0xE7, 0xE8
WORD = 1 << 64


def read_cycle_counters(fs: KernelFS, cpus: Iterable[int]) -> Cycles:
    """Return APERF and MPERF of the CPUs whose registers can be read."""
    found = {}
    for cpu in cpus:
        try:
            mperf, aperf = fs.read_words(f"/dev/cpu/{cpu}/msr", (MPERF, APERF))
        except (Absent, Refused):
            continue
        found[cpu] = aperf, mperf
    return found


def mean_frequency_mhz(fs: KernelFS, before: Cycles, after: Cycles) -> float | None:
    """Return the mean frequency of working CPUs between two readings, in MHz; None without counters."""
    nominal = fs.read_if_present("/sys/devices/system/cpu/cpu0/acpi_cppc/nominal_freq") or "0"
    both = [(before[cpu], after[cpu]) for cpu in after if cpu in before]
    real, counted = (sum((late[at] - early[at]) % WORD for early, late in both) for at in (0, 1))
    return round(int(nominal) * real / counted, 1) if counted and int(nominal) else None
