# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the running kernel shows of the settings that only the BIOS can change.

A setting that the kernel does not show is "unknown": the sentence then says where to look instead. Attribute names are
those of the vendors' Redfish services; the menus are those of AMI's setup, which most other boards have.
Source: Documentation/ABI/testing/sysfs-devices-system-cpu, Documentation/admin-guide/pm/amd-pstate.rst and
Documentation/arch/x86/amd_hsmp.rst of the Linux kernel; the attribute names from dumps of each vendor's servers.
"""

from __future__ import annotations

from .._notation import cmdline
from .items import OK, PENDING, UNASKED, UNKNOWN, WRONG, Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Optional

    from .._host.topology import Topology
    from .._io.kernelfs import KernelFS

    #: The value in force, None where the kernel does not show it, and how we know or why not.
    Seen = tuple[Optional[str], str]

CPUS = "/sys/devices/system/cpu"
ON, OFF = "on", "off"
#: Word in the vendor's name in DMI -> the vendor; all others have AMI's setup.
VENDORS = {"Dell": "Dell", "HPE": "HPE", "Hewlett": "HPE", "Lenovo": "Lenovo", "Supermicro": "Supermicro"}
#: How many nodes the BIOS can make of a socket; NPS0 makes one node of two sockets.
NPS = (1, 2, 4)
HSMP_DRIVERS = ("amd_hsmp", "hsmp_acpi")


class Setting:
    """One BIOS setting: how to see it, what a wrong value costs, and what it is called.

    ``costs`` maps a wrong value to what it costs; "" stands for any other value. ``menu`` is the place in AMI's setup,
    ``names`` the attribute by vendor.
    """

    __slots__ = ("costs", "menu", "names", "see", "title")

    def __init__(
        self,
        title: str,
        see: Callable[[KernelFS, Topology], Seen],
        costs: dict[str, str],
        menu: str,
        names: dict[str, str],
    ) -> None:
        self.title = title
        self.see = see
        self.costs = costs
        self.menu = menu
        self.names = names


def check(
    fs: KernelFS, top: Topology, expected: Mapping[str, str], soon: Mapping[str, str] | None = None
) -> list[Item]:
    """Return an item for each setting of SETTINGS; ``expected`` holds the requested values.

    ``soon`` holds what the kernel is told later in the same run, in place of the BIOS.
    """
    vendor, later = vendor_of(fs), soon or {}
    return [
        _judge(name, setting.see(fs, top), expected.get(name), vendor, later.get(name))
        for name, setting in SETTINGS.items()
    ]


def vendor_of(fs: KernelFS) -> str:
    """Return the vendor whose names to use, "" for one that has AMI's setup."""
    text = fs.find("/sys/class/dmi/id/sys_vendor") or ""
    return next((name for word, name in VENDORS.items() if word.lower() in text.lower()), "")


def _judge(name: str, seen: Seen, expected: str | None, vendor: str, soon: str | None) -> Item:
    setting, (found, how) = SETTINGS[name], seen
    if expected is None:
        sentence = f"It is {found} ({how})." if found else f"Unknown: {how}. {_place(setting, vendor)}"
        return Item(name, setting.title, UNASKED, sentence, None, found)
    if found is None:
        sentence = f"It should be {expected}, but its value is unknown: {how}. {_cost(setting, '')} "
        return Item(name, setting.title, UNKNOWN, sentence + _place(setting, vendor), expected, None)
    if found == expected:
        return Item(name, setting.title, OK, f"It is {found} ({how}).", expected, found)
    if soon == expected:
        sentence = f"It is {found} ({how}). Later in this run the kernel makes it {soon}, as it should be."
        return Item(name, setting.title, PENDING, sentence, expected, found)
    sentence = f"It is {found} ({how}) and should be {expected}. {_cost(setting, found)} {_place(setting, vendor)}"
    return Item(name, setting.title, WRONG, sentence, expected, found)


def _cost(setting: Setting, found: str) -> str:
    return setting.costs.get(found) or setting.costs[""]


def _place(setting: Setting, vendor: str) -> str:
    if vendor in setting.names:
        return f"In the BIOS of this {vendor} it is the attribute {setting.names[vendor]}."
    return f"In the BIOS it is usually under AMD CBS, {setting.menu}."


def _nps(fs: KernelFS, top: Topology) -> Seen:
    for word in cmdline.split(fs.read("/proc/cmdline")):
        if word == "numa=off" or word.startswith("numa=fake"):
            return None, f"the kernel was started with {word}"
    nodes, sockets = len([node for node in top.nodes if node.cpus]), len(top.sockets)
    how = f"{nodes} NUMA nodes with CPUs, {sockets} socket{'s' if sockets > 1 else ''}, {len(top.l3)} L3 domains"
    if not fs.is_dir("/sys/devices/system/node/node0"):
        return None, "the kernel shows no NUMA nodes"
    if nodes == 1 and sockets == 2:
        return "NPS0", how
    per_socket, rest = divmod(nodes, sockets)
    if per_socket in NPS and not rest:
        return f"NPS{per_socket}", how
    if nodes == len(top.l3):
        return None, f"each L3 domain is a node of its own ({how})"
    return None, f"no BIOS setting gives {how}"


def _l3_as_numa(fs: KernelFS, top: Topology) -> Seen:
    nodes, sockets = len([node for node in top.nodes if node.cpus]), len(top.sockets)
    how = f"{nodes} NUMA nodes, {len(top.l3)} L3 domains"
    if nodes != len(top.l3):
        return OFF, how
    if nodes // sockets > max(NPS):
        return ON, how
    return None, f"NPS{nodes // sockets} alone gives one node per L3 domain too ({how})"


def _smt(fs: KernelFS, top: Topology) -> Seen:
    if fs.find(f"{CPUS}/smt/active") == "1":
        return ON, f"{CPUS}/smt/active is 1"
    if top.smt in ("off", "forceoff"):
        return OFF, f"the kernel turned it off, {CPUS}/smt/control is {top.smt}; the BIOS has it on"
    if top.smt in ("on", "notsupported"):
        return OFF, f"{CPUS}/smt/active is 0"
    return None, f"{CPUS}/smt/control is {top.smt}"


def _boost(fs: KernelFS, top: Topology) -> Seen:
    if "cpb" not in top.flags:
        return OFF, "the CPU does not show the flag cpb"
    path = f"{CPUS}/cpufreq/boost"
    value = fs.find(path)
    if value is None:
        return None, f"there is no {path}, and the CPU flag cpb only says that boost is possible"
    return (ON if value == "1" else OFF), f"{path} is {value}" + (
        "" if value == "1" else ", which a program may have set"
    )


def _cppc(fs: KernelFS, top: Topology) -> Seen:
    if (top.cpufreq_driver or "").startswith("amd-pstate"):
        return ON, f"the driver is {top.cpufreq_driver}"
    if fs.is_dir(f"{CPUS}/cpu{top.online[0]}/acpi_cppc"):
        return ON, f"the firmware describes it in {CPUS}/cpu{top.online[0]}/acpi_cppc"
    if not fs.is_dir("/sys/firmware/acpi"):
        return None, "the kernel shows no ACPI"
    return OFF, f"the firmware gives no {CPUS}/cpu{top.online[0]}/acpi_cppc"


def _preferred_cores(fs: KernelFS, top: Topology) -> Seen:
    path = f"{CPUS}/cpufreq/policy{top.online[0]}/amd_pstate_hw_prefcore"
    value = fs.find(path)
    if value is None:
        return None, f"only the driver amd-pstate shows it, and the driver here is {top.cpufreq_driver or 'none'}"
    return (ON if value == "enabled" else OFF), f"{path} is {value}"


def _determinism(fs: KernelFS, top: Topology) -> Seen:
    return None, "no kernel file shows it"


def _df_cstates(fs: KernelFS, top: Topology) -> Seen:
    return None, "no kernel file shows it"


def _hsmp(fs: KernelFS, top: Topology) -> Seen:
    if fs.status("/dev/hsmp") is not None:
        return ON, "/dev/hsmp is there"
    loaded = [driver for driver in HSMP_DRIVERS if fs.is_dir(f"/sys/module/{driver}")]
    if loaded:
        return OFF, f"the driver {loaded[0]} is loaded, but HSMP does not answer"
    return None, f"neither {' nor '.join(HSMP_DRIVERS)} is loaded; load one with modprobe, then /dev/hsmp shows it"


SETTINGS = {
    "nps": Setting(
        "NUMA nodes per socket",
        _nps,
        {
            "": "With too few nodes no thread can be kept on the memory channels next to it; with too many, a process "
            "that is bound to one has only its share of the bandwidth."
        },
        "DF Common Options, NUMA nodes per socket",
        {
            "Dell": "NumaNodesPerSocket",
            "HPE": "NumaMemoryDomainsPerSocket",
            "Lenovo": "Memory_NUMANodesperSocket",
            "Supermicro": "NUMANodesPerSocket",
        },
    ),
    "l3_as_numa": Setting(
        "L3 as NUMA node",
        _l3_as_numa,
        {
            ON: "Every L3 domain then is a node without memory channels of its own, so a policy by node says nothing "
            "about bandwidth.",
            "": "A policy by node then means other CPUs than were planned for.",
        },
        "DF Common Options, ACPI SRAT L3 cache as NUMA domain",
        {
            "Dell": "CcxAsNumaDomain",
            "HPE": "LastLevelCacheAsNUMANode",
            "Lenovo": "Processors_ACPISRATL3CacheasNUMADomain",
            "Supermicro": "ACPISRATL3CacheAsNUMADomain",
        },
    ),
    "smt": Setting(
        "SMT",
        _smt,
        {
            ON: "Two threads then share the caches of one core, and the memory has no more bandwidth for them. The "
            "module sysfs_settings can turn it off without the BIOS, with smt: 'off'.",
            "": "Half of the threads that were planned for are not there.",
        },
        "CPU Common Options, SMT control",
        {"Dell": "LogicalProc", "HPE": "ProcSMT", "Lenovo": "Processors_SMTMode", "Supermicro": "SMTControl"},
    ),
    "boost": Setting(
        "core performance boost",
        _boost,
        {
            OFF: "No core then runs faster than its base frequency, which slows down work that runs from its caches.",
            "": "Cores then leave their base frequency as power and heat allow.",
        },
        "CPU Common Options, core performance boost",
        {
            "Dell": "ProcTurboMode",
            "HPE": "ProcAMDBoost",
            "Lenovo": "Processors_CorePerformanceBoost",
            "Supermicro": "CorePerformanceBoost",
        },
    ),
    "cppc": Setting(
        "CPPC",
        _cppc,
        {
            OFF: "The driver amd-pstate cannot work then, and the kernel can only choose one of three P-states.",
            "": "The kernel may then choose amd-pstate, for which frequencies are planned in another way.",
        },
        "NBIO Common Options, SMU Common Options, CPPC",
        {"HPE": "PowerRegulator", "Lenovo": "Processors_CPPC"},
    ),
    "preferred_cores": Setting(
        "CPPC preferred cores",
        _preferred_cores,
        {"": "The scheduler then prefers some cores, which has no effect on pinned threads."},
        "NBIO Common Options, SMU Common Options, CPPC preferred cores",
        {},
    ),
    "determinism": Setting(
        "determinism",
        _determinism,
        {
            "": "Performance determinism holds every CPU of a SKU to the same speed, power determinism lets each one "
            "use all the power it is allowed."
        },
        "NBIO Common Options, SMU Common Options, determinism control",
        {
            "Dell": "DeterminismSlider",
            "HPE": "PerformanceDeterminism",
            "Lenovo": "Processors_DeterminismSlider",
            "Supermicro": "DeterminismControl",
        },
    ),
    "df_cstates": Setting(
        "DF C-states",
        _df_cstates,
        {"": "An idle data fabric goes to sleep where they are on, and the first accesses after that wait for it."},
        "NBIO Common Options, SMU Common Options, DF C-states",
        {
            "Dell": "DfCState",
            "HPE": "DataFabricCStateEnable",
            "Lenovo": "Processors_DFC_States",
            "Supermicro": "DFCstates",
        },
    ),
    "hsmp": Setting(
        "HSMP",
        _hsmp,
        {"": "Without it only root can read the memory bandwidth of a socket."},
        "NBIO Common Options, SMU Common Options, HSMP support",
        {},
    ),
}
