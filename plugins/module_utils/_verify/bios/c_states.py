# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Idle states: the deepest one that the firmware offers to cores.

Source: drivers/acpi/processor_idle.c and Documentation/admin-guide/pm/cpuidle.rst of the Linux kernel. A state
that the kernel has disabled counts as offered.
"""

from __future__ import annotations

from .setting import OFF, ON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .setting import KernelView, Reading

CPUS = "/sys/devices/system/cpu"
#: The only idle driver that uses the idle states of the firmware.
DRIVER = "acpi_idle"
#: Boot parameters that hide states of the firmware.
LIMITING_PARAMETERS = ("processor.max_cstate=", "processor.nocst", "cpuidle.off=", "idle=")


def read_firmware_c_states(view: KernelView) -> Reading:
    """Return whether the firmware offers C2 or a deeper state."""
    if word := view.find_first_boot_parameter(*LIMITING_PARAMETERS):
        return None, f"the kernel was started with {word}"
    driver = view.fs.read_if_present(f"{CPUS}/cpuidle/current_driver") or "none"
    if driver != DRIVER:
        return None, f"the driver of idle states is {driver}, and only {DRIVER} has those of the firmware"
    folder = f"{CPUS}/cpu{view.top.online[0]}/cpuidle"
    states = [f"{folder}/{name}" for name in view.fs.list_names(folder)]
    names = {
        view.fs.read_if_present(f"{state}/name") or "": view.fs.read_if_present(f"{state}/latency") for state in states
    }
    how = f"cpuidle has {', '.join(names)}"
    deep = [name for name in names if name[:1] == "C" and name[1:].isdecimal() and int(name[1:]) >= 2]
    if not deep:
        return OFF, how
    return ON, f"{how}; {deep[-1]} takes {names[deep[-1]]} us to wake from"
