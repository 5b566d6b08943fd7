# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sleep: the deepest state that the firmware offers to idle cores.

Source: drivers/acpi/processor_idle.c and Documentation/admin-guide/pm/cpuidle.rst of the Linux kernel. Whether the
kernel uses a state is another thing: a state that is disabled is offered all the same.
"""

from __future__ import annotations

from .setting import OFF, ON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .setting import Look, Seen

CPUS = "/sys/devices/system/cpu"
#: The only driver whose states are those of the firmware.
DRIVER = "acpi_idle"
#: Boot parameters that leave states out.
LIMITS = ("processor.max_cstate=", "processor.nocst", "cpuidle.off=", "idle=")


def c_states(look: Look) -> Seen:
    """Return whether C2 is there, or a deeper state."""
    if word := look.told(*LIMITS):
        return None, f"the kernel was started with {word}"
    driver = look.fs.read_if_present(f"{CPUS}/cpuidle/current_driver") or "none"
    if driver != DRIVER:
        return None, f"the driver of idle states is {driver}, and only {DRIVER} has those of the firmware"
    folder = f"{CPUS}/cpu{look.top.online[0]}/cpuidle"
    states = [f"{folder}/{name}" for name in look.fs.list_names(folder)]
    names = {
        look.fs.read_if_present(f"{state}/name") or "": look.fs.read_if_present(f"{state}/latency") for state in states
    }
    how = f"cpuidle has {', '.join(names)}"
    deep = [name for name in names if name[:1] == "C" and name[1:].isdecimal() and int(name[1:]) >= 2]
    if not deep:
        return OFF, how
    return ON, f"{how}; {deep[-1]} takes {names[deep[-1]]} us to wake from"
