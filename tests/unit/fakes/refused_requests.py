# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests that the modules refuse on the small machine, each with words that the sentence must have.

The unit tests hold the sentences against the words, and tests/lab the fake kernels against a real one, which must lead
to the very same sentences.
"""

from __future__ import annotations

from typing import Any

#: The options of a request, or its settings alone, and the words, by what is wrong with it.
Table = dict[str, tuple[Any, list[str]]]


def _raw(register: str, bits: str = "13", value: str = "1") -> dict[str, Any]:
    return {"cpus": "3", "register": register, "bits": bits, "value": value}


def _off(cpus: str, *names: str) -> dict[str, Any]:
    return {"cpus": cpus, "prefetch_control": dict.fromkeys(names, "disabled")}


#: With CPU 5 offline, and CPU 15 in the group foreign of somebody else, who has mounted resctrl with no options.
RESCTRL: Table = {
    "mask 0": ({"groups": [{"name": "new", "l3": {"all": "0"}}]}, ["mask '0'", "at least 1 way"]),
    "mask too wide": ({"groups": [{"name": "new", "l3": {"2": "1ffff"}}]}, ["L3 domain 2", "1ffff", "16 ways", "ffff"]),
    "more than all": ({"groups": [{"name": "new", "l3": {"all": "17 ways"}}]}, ["L3 domain 0", "new 17", "16 ways"]),
    "a sum too large": (
        {"groups": [{"name": "new", "l3": {"all": "12MiB"}}], "default": {"l3": {"all": "5 ways"}}},
        ["new 12 + default 5 = 17 ways", "16 ways"],
    ),
    "unknown domain": ({"groups": [{"name": "new", "l3": {"4": "f"}}]}, ["no L3 domain 4", "0-3"]),
    "unknown domain of mb": ({"groups": [{"name": "new", "mb": {"9": 20}}]}, ["no L3 domain 9", "0-3"]),
    "duplicate domain": ({"groups": [{"name": "new", "l3": {"1": "f", "0-2": "ff"}}]}, ["domain 1 is named twice"]),
    "duplicate group": ({"groups": [{"name": "new"}, {"name": "new"}]}, ["new is named twice"]),
    "too many groups": (
        {"groups": [{"name": f"g{number}"} for number in range(15)]},
        ["17 groups", "16 classes of service (CLOSIDs)", "foreign", "purge"],
    ),
    "slash": ({"groups": [{"name": "a/b"}]}, ["'a/b' is no name", "slash"]),
    "info": ({"groups": [{"name": "info"}]}, ["'info' is no name", "info"]),
    "parent": ({"groups": [{"name": ".."}]}, ["'..' is no name"]),
    "CPU offline": ({"groups": [{"name": "new", "cpus": "4-6"}]}, ["CPU 5 is offline", "online"]),
    "CPU that is not there": ({"groups": [{"name": "new", "cpus": "16"}]}, ["no CPU 16", "0-4,6-15"]),
    "CPU in two groups": (
        {"groups": [{"name": "new", "cpus": "1-3"}, {"name": "more", "cpus": "3-4"}]},
        ["CPU 3", "groups new and more", "only one"],
    ),
    "CPU of a foreign group": ({"groups": [{"name": "new", "cpus": "12-15"}]}, ["CPU 15", "group foreign"]),
    "mba_mbps": ({"mount_options": ["mba_mbps"]}, ["mba_mbps", "AMD", "GB/s"]),
    "other options than mounted": ({"mount_options": ["cdp"]}, ["already mounted with no options", "cdp", "resets"]),
    "code without cdp": ({"groups": [{"name": "new", "l3_code": {"all": "f"}}]}, ["l3_code", "option cdp"]),
    "a number for a mask": ({"groups": [{"name": "new", "l3": {"all": 8}}]}, ["text", "8", "quotes"]),
    "no bandwidth": ({"groups": [{"name": "new", "mb": {"all": "fast"}}]}, ["'fast' is no bandwidth", "GB/s", "max"]),
    "too much bandwidth": ({"groups": [{"name": "new", "mb": {"all": 300}}]}, ["300 GB/s", "256 GB/s", "'max'"]),
    "unit that does not run": (
        {"groups": [{"name": "new", "tasks_of": ["nosuch.service"]}]},
        ["nosuch.service", "does not run"],
    ),
    "process that is not there": ({"groups": [{"name": "new", "tasks_of": ["999999"]}]}, ["no process 999999"]),
    "what the kernel refuses": (  # Only found out after the group was made and its masks were written.
        {"groups": [{"name": "new", "cpus": "1-3", "l3": {"all": "4 ways"}, "mode": "exclusive"}]},
        ["new/mode", "The kernel says: Schemata overlaps", "put back"],
    ),
}

SYSFS: Table = {
    "SMT that is not there": ({"smt": "on"}, ["smt", "notsupported", "BIOS"]),
    "a watchdog without a counter": ({"nmi_watchdog": True}, ["nmi_watchdog", "no performance counter", "at 0"]),
    "a mask that is ignored": (
        {"workqueue_cpus": "0-3", "writeback_cpus": "4-7"},
        ["writeback_cpus", "none in common", "Choose CPUs of 0-3"],
    ),
    "a CPU that is not there": ({"workqueue_cpus": "16"}, ["CPU 16 is not on this host", "0-15"]),
    "no CPU": ({"workqueue_cpus": "nothing"}, ["'nothing' names no CPUs"]),
    "a word that Ansible knows not": ({"thp": "sometimes"}, ["thp", "always, madvise, never"]),
}

#: The settings of each request, with CPU 5 offline.
CPUFREQ: Table = {
    "the recipe's speed": (
        [{"cpus": "all", "speed": "3.1GHz"}],
        ["policy0", "3100 MHz cannot be had", "2250 MHz, 1900 MHz, 1500 MHz", "silently", "boost to true here"],
    ),
    "between two P-states": ([{"cpus": "3", "max": "2GHz"}], ["policy3", "no P-state", "The nearest is 1900 MHz"]),
    "no unit": ([{"cpus": "all", "max": "2250"}], ["'2250' is no frequency", "2250MHz"]),
    "an unknown governor": ([{"cpus": "all", "governor": "turbo"}], ["no governor turbo", "userspace", "schedutil"]),
    "speed under another governor": (
        [{"cpus": "all", "governor": "performance", "speed": "1900MHz"}],
        ["needs the governor userspace", "performance"],
    ),
    "epp": ([{"cpus": "all", "epp": "power"}], ["no energy performance preference", "amd_pstate=active"]),
    "two values": (
        [{"cpus": "all", "boost": True}, {"cpus": "ccd1", "boost": False}],
        ["CPU 8 is asked for two values", "boost=True for all", "boost=False for ccd1"],
    ),
    "min above max": (
        [{"cpus": "all", "min": "2250MHz", "max": "1900MHz"}],
        ["min is 2250 MHz", "max is 1900 MHz", "Give both"],
    ),
    "a CPU that is offline": ([{"cpus": "4-6", "boost": False}], ["CPU 5 is offline"]),
    "the last entry is wrong": (
        [{"cpus": "0-3", "governor": "performance"}, {"cpus": "15", "speed": "3GHz"}],
        ["policy15", "3000 MHz cannot be had"],
    ),
}

#: The settings of each request, with CPU 5 offline; that undocumented bits are allowed does not help.
MSR: Table = {
    "DE_CFG": ([_raw("0xc0011029", "9")], ["DE_CFG", "never writes it, whatever is allowed"]),
    "EFER": ([_raw("0xc0000080")], ["EFER", "never writes it"]),
    "another bit of HWCR": ([_raw("0xc0010015", "0")], ["not CpbDis", "never writes them"]),
    "the CPU is offline": ([_off("4-6", "l1_stream")], ["CPU 5 is offline"]),
    "two values": (
        [_off("all", "l1_stream"), {"cpus": "l3:1", "prefetch_control": {"l1_stream": "enabled"}}],
        ["CPU 4 is asked for two values of bit 0", "l1_stream=disabled for all", "l1_stream=enabled for l3:1"],
    ),
    "a value too large": ([_raw("0xc0011022", "13", "2")], ["value: '2'", "0 to 0x1"]),
    "a range that YAML took for a number": ([_raw("0xc0011022", "913")], ["Quote a range"]),
    "the last entry is wrong": ([_off("all", "up_down"), _raw("0x10")], ["time stamp counter"]),
}

#: The settings of each request, which is refused until undocumented bits are allowed.
UNDOCUMENTED: Table = {
    "dc_cfg on Zen": ([{"cpus": "3", "dc_cfg": {"hardware_prefetch": "disabled"}}], ["before 17h", "prefetch_control"]),
    "a reserved bit": ([_raw("0xc0000108", "4")], ["not on the list", "allow_undocumented"]),
    "a register nobody knows": ([_raw("0xc0011020")], ["not on the list", "hang the machine"]),
}
