# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The versions of the firmware of a host, BIOS and microcode, and frequencies of its tables that cannot be true.

Sources: Documentation/ABI/testing/sysfs-devices-system-cpu (microcode) and drivers/cpufreq/amd-pstate.c of the Linux
kernel, which binds to no CPU whose CPPC tables have a highest or a nominal frequency of 0; such CPUs then stay at the
frequency of their boot, as 550 MHz.
"""

from __future__ import annotations

from .._notation.numbers import parse_whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .._io.kernelfs import KernelFS

CPUS = "/sys/devices/system/cpu"
#: Every EPYC can run faster than this.
LEAST_HIGHEST_KHZ = 1_000_000
WAY_OUT_OF_CPPC = (
    "Update the BIOS. Until then boot with amd_pstate=disable, with which the kernel takes acpi-cpufreq and the "
    "P-states of the BIOS, or switch CPPC off in the BIOS (NBIO Common Options, SMU Common Options)."
)


def read_bios_version(fs: KernelFS) -> str | None:
    """Return the version of the BIOS; None where the kernel does not show it."""
    return fs.read_if_present("/sys/class/dmi/id/bios_version")


def read_microcode_version(fs: KernelFS) -> str | None:
    """Return the version of the microcode of CPU 0; None where the kernel does not show it."""
    return fs.read_if_present("/sys/devices/system/cpu/cpu0/microcode/version")


def implausible_frequency_message(fs: KernelFS, cpus: Iterable[int], driver: str | None) -> str:
    """Return sentences on frequencies that cannot be true, and on the way out; "" where those of these CPUs can be.

    ``driver`` is the bound cpufreq driver. A highest frequency is judged with a driver, and a nominal frequency without
    one: the BIOS of Zen 2 gives none, which amd-pstate knows, and acpi-cpufreq does not need it.
    """
    for cpu in cpus:
        if driver is None:
            nominal = fs.read_if_present(f"{CPUS}/cpu{cpu}/acpi_cppc/nominal_freq")
            if nominal == "0":
                return (
                    f"The CPPC tables of the BIOS give CPU {cpu} a nominal frequency of 0, so no cpufreq driver is "
                    "bound, and the cores stay at the low frequency of their boot. It is a fault of the BIOS. "
                    f"{WAY_OUT_OF_CPPC}"
                )
            continue
        highest = parse_whole_number(fs.read_if_present(f"{CPUS}/cpufreq/policy{cpu}/cpuinfo_max_freq") or "")
        if highest is not None and highest < LEAST_HIGHEST_KHZ:
            way_out = WAY_OUT_OF_CPPC if driver.startswith("amd-pstate") else "Update the BIOS, and load its defaults."
            return (
                f"The driver {driver} shows {highest // 1000} MHz as the highest frequency of CPU {cpu}, and every "
                f"EPYC is faster. It is a fault of the BIOS, whose tables are wrong, or of the driver. {way_out}"
            )
    return ""
