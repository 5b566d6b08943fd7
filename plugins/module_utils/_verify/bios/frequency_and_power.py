# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boost, CPPC, and the power limit that the management port of the CPU (HSMP) reports.

Source: Documentation/admin-guide/pm/amd-pstate.rst, Documentation/arch/x86/amd_hsmp.rst and
drivers/platform/x86/amd/hsmp/hwmon.c of the Linux kernel.
"""

from __future__ import annotations

from .setting import OFF, ON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .setting import KernelView, Reading

CPUS = "/sys/devices/system/cpu"
HWMON, HSMP_SENSOR = "/sys/class/hwmon", "amd_hsmp_hwmon"
HSMP_DRIVERS = ("amd_hsmp", "hsmp_acpi")
#: The first letters of the build options of these drivers, of which newer kernels have two.
HSMP_BUILD_OPTION = "CONFIG_AMD_HSMP"


def read_boost(view: KernelView) -> Reading:
    """Return whether cores may run faster than their base frequency."""
    if "cpb" not in view.top.flags:
        return OFF, "the CPU does not show the flag cpb"
    path = f"{CPUS}/cpufreq/boost"
    value = view.fs.read_if_present(path)
    if value is None:
        return None, f"there is no {path}, and the CPU flag cpb only says that boost is possible"
    if value == "1":
        return ON, f"{path} is 1"
    return OFF, f"{path} is {value}, which a program may have set"


def read_firmware_cppc(view: KernelView) -> Reading:
    """Return whether the firmware offers CPPC."""
    top = view.top
    if (top.cpufreq_driver or "").startswith("amd-pstate"):
        return ON, f"the driver is {top.cpufreq_driver}"
    if view.fs.is_dir(f"{CPUS}/cpu{top.online[0]}/acpi_cppc"):
        return ON, f"the firmware describes it in {CPUS}/cpu{top.online[0]}/acpi_cppc"
    if not view.fs.is_dir("/sys/firmware/acpi"):
        return None, "the kernel shows no ACPI"
    return OFF, f"the firmware gives no {CPUS}/cpu{top.online[0]}/acpi_cppc"


def read_core_ranking(view: KernelView) -> Reading:
    """Return whether the firmware ranks cores."""
    top = view.top
    path = f"{CPUS}/cpufreq/policy{top.online[0]}/amd_pstate_hw_prefcore"
    value = view.fs.read_if_present(path)
    if value is None:
        return None, f"only the driver amd-pstate shows it, and the driver here is {top.cpufreq_driver or 'none'}"
    return (ON if value == "enabled" else OFF), f"{path} is {value}"


def read_hsmp_availability(view: KernelView) -> Reading:
    """Return whether the management port of the CPU (HSMP) answers."""
    if view.fs.read_status("/dev/hsmp") is not None:
        return ON, "/dev/hsmp is there"
    loaded = [driver for driver in HSMP_DRIVERS if view.fs.is_dir(f"/sys/module/{driver}")]
    if loaded:
        return OFF, f"the driver {loaded[0]} is loaded, but HSMP does not answer"
    if _kernel_lacks_hsmp_driver(view):
        return None, (
            f"this kernel was built without a driver for it (no {HSMP_BUILD_OPTION} in "
            f"/boot/config-{view.top.kernel}), as the kernels of Debian are, so only the BMC or another kernel shows it"
        )
    return None, f"neither {' nor '.join(HSMP_DRIVERS)} is loaded; load one with modprobe, then /dev/hsmp shows it"


def _kernel_lacks_hsmp_driver(view: KernelView) -> bool:
    """Return whether the configuration of the running kernel is there, and has no driver for HSMP."""
    configuration = view.fs.read_if_present(f"/boot/config-{view.top.kernel}")
    return configuration is not None and not any(
        row.startswith(HSMP_BUILD_OPTION) for row in configuration.splitlines()
    )


def read_lowest_power_limit(view: KernelView) -> Reading:
    """Return the lowest power limit of all sockets in watts, as 400 W."""
    folders = [f"{HWMON}/{name}" for name in view.fs.list_names(HWMON)]
    sensors = [folder for folder in folders if view.fs.read_if_present(f"{folder}/name") == HSMP_SENSOR]
    limits = [int(view.fs.read_if_present(f"{folder}/power1_cap") or 0) // 1000000 for folder in sensors]
    if not limits:
        needs = "HSMP, its driver, and Linux 6.16 or newer"
        if _kernel_lacks_hsmp_driver(view):
            needs += "; this kernel was built without the driver, as those of Debian are"
        return None, f"no sensor {HSMP_SENSOR} in {HWMON}: it needs {needs}"
    if not min(limits):
        return None, f"the sensor {HSMP_SENSOR} shows no limit"
    return f"{min(limits)} W", f"power1_cap of the sensor {HSMP_SENSOR}"
