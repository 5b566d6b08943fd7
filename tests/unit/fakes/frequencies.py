# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of acpi-cpufreq on the small machine, with a policy for each CPU.

Source: drivers/cpufreq/{cpufreq,acpi-cpufreq,cpufreq_userspace,freq_table}.c of Linux 6.12 and 7.3.
"""

from __future__ import annotations

import errno
import shutil
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq.policy import (
    BOOST,
    GLOBAL_BOOST,
    GOVERNOR,
    HOME,
    MAX,
    MIN,
    SPEED,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.msr.registers import CPB_DIS, HWCR
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import parse_cpulist
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import CPUS, Kernel, refuse
from ansible_collections.sovereign.epyc.tests.unit.fakes.registers import Registers

GENERIC = "userspace powersave ondemand conservative performance schedutil"
UNSUPPORTED = "<unsupported>"
#: What a policy of acpi-cpufreq shows on a 9754; the kernel knows how fast its CPUs boost.
ACPI = {
    "cpuinfo_min_freq": 1500000,
    "scaling_min_freq": 1500000,
    "scaling_setspeed": UNSUPPORTED,
    "scaling_driver": "acpi-cpufreq",
    "scaling_available_governors": GENERIC,
    "scaling_governor": "schedutil",
    "scaling_available_frequencies": "2250000 1900000 1500000",
    "cpuinfo_max_freq": 3107909,
    "scaling_max_freq": 2250000,
    "bios_limit": 2250000,
    "boost": 1,
    "cpb": 1,
}


class Frequencies:
    """The policies, whose boost is in the registers of the CPUs."""

    def __init__(self, kernel: Kernel, registers: Registers, linux: tuple[int, int] = (6, 12), **changes: Any) -> None:
        self.fs = kernel.fs
        #: Whether each policy remembers its own boost, as since Linux 6.16, when the machine's is switched or its CPU
        #: comes back.
        self.remembers_boost = linux >= (6, 16)
        self.registers = registers
        files = {**ACPI, **changes}
        if linux < (6, 11):
            del files[BOOST]
        self.states = sorted(int(word) for word in str(files["scaling_available_frequencies"]).split())
        cpus = parse_cpulist(self.fs.read(f"{CPUS}/present"))
        #: The limits and the speed that were asked for, by policy; the files show what came of it.
        self._limits = {cpu: {MIN: self.states[0], MAX: self.states[-1]} for cpu in cpus}
        self._speeds: dict[int, int] = {}
        self._kernel, self._files = kernel, files
        self._show_policies()
        for file, rule in {
            GOVERNOR: self._set_governor,
            MIN: self._set_limit,
            MAX: self._set_limit,
            SPEED: self._set_speed,
            BOOST: self._set_boost,
            "cpb": self._set_cpb,
        }.items():
            self.fs.add_rule(rf"{HOME}/policy\d+/{file}", rule)
        self.fs.add_rule(GLOBAL_BOOST, self._set_all_boost)
        kernel.cpus.followers.append(self._follow_cpu)
        self.fs.modules["acpi_cpufreq"] = self._load

    def _load(self, load: bool) -> None:
        if load:
            self._show_policies()
        else:
            shutil.rmtree(self._kernel.host.root / HOME[1:])

    def _show_policies(self) -> None:
        """Have the policies and the switch of the machine as the driver makes them."""
        for cpu in self._limits:
            for name, text in {**self._files, "affected_cpus": cpu, "related_cpus": cpu}.items():
                self._kernel.put(f"{HOME}/policy{cpu}/{name}", text)
        self._kernel.put(GLOBAL_BOOST, 1)

    def _set_governor(self, path: str, text: str) -> None:
        cpu = _cpu_of(path)
        self._must_be_awake(cpu)
        name = text.strip()
        if name not in self.fs.read(f"{HOME}/policy{cpu}/scaling_available_governors").split():
            raise refuse(errno.EINVAL)
        if name == self.fs.read(path):
            return
        self.fs.show(path, name)
        self._speeds.pop(cpu, None)
        if name == "userspace":
            self._speeds[cpu] = self._limits[cpu][MAX]
        self._show_speed(cpu)

    def _set_limit(self, path: str, text: str) -> None:
        cpu = _cpu_of(path)
        self._must_be_awake(cpu)
        self._limits[cpu][path.rpartition("/")[2]] = _parse_number(text)
        self._show_limits(cpu)

    def _show_limits(self, cpu: int) -> None:
        """Show the states of the table that the limits come to: the next above the lower, the next below the upper."""
        low, high = (min(max(self._limits[cpu][name], self.states[0]), self.states[-1]) for name in (MIN, MAX))
        low = min(low, high)
        if not any(low <= state <= high for state in self.states):
            high = min(state for state in self.states if state > high)
        self.fs.show(f"{HOME}/policy{cpu}/{MIN}", min(state for state in self.states if state >= low))
        self.fs.show(f"{HOME}/policy{cpu}/{MAX}", max(state for state in self.states if state <= high))
        self._show_speed(cpu)

    def _set_speed(self, path: str, text: str) -> None:
        cpu = _cpu_of(path)
        self._must_be_awake(cpu)
        if cpu not in self._speeds:
            raise refuse(errno.EINVAL)
        self._speeds[cpu] = _parse_number(text)
        self._show_speed(cpu)

    def _show_speed(self, cpu: int) -> None:
        """Show the frequency that the speed comes to within the limits; only one governor has a speed."""
        path = f"{HOME}/policy{cpu}/{SPEED}"
        if cpu not in self._speeds:
            self.fs.show(path, UNSUPPORTED)
            return
        low, high = (int(self.fs.read(f"{HOME}/policy{cpu}/{name}")) for name in (MIN, MAX))
        speed = min(max(self._speeds[cpu], low), high)
        self.fs.show(path, min(state for state in self.states if state >= speed))

    def _set_all_boost(self, path: str, text: str) -> None:
        """Switch every policy, whatever each had; older kernels do nothing where the switch is there already."""
        if text.strip() not in ("0", "1"):
            raise refuse(errno.EINVAL)
        if text.strip() == self.fs.read(path) and not self.remembers_boost:
            return
        self.fs.show(path, text.strip())
        for cpu in self._limits:
            own = f"{HOME}/policy{cpu}/{BOOST}"
            self.fs.show(f"{HOME}/policy{cpu}/cpb", text.strip())
            if self.remembers_boost and (self._sleeps(cpu) or self.fs.read(own) == text.strip()):
                continue
            if not self._sleeps(cpu):
                self._boost(cpu, text.strip() == "1")
            if BOOST in self._files:
                self.fs.show(own, text.strip())

    def _set_boost(self, path: str, text: str) -> None:
        """Switch one policy; nothing happens where the file shows that already, whatever was written to cpb."""
        self._must_be_awake(_cpu_of(path))
        if text.strip() not in ("0", "1") or self.fs.read(GLOBAL_BOOST) == "0":
            raise refuse(errno.EINVAL)
        if text.strip() != self.fs.read(path):
            self._boost(_cpu_of(path), text.strip() == "1")
            self.fs.show(path, text.strip())

    def _set_cpb(self, path: str, text: str) -> None:
        """Switch one policy by the older file, which shows the switch of the whole machine."""
        self._must_be_awake(_cpu_of(path))
        if text.strip() not in ("0", "1"):
            raise refuse(errno.EINVAL)
        self._boost(_cpu_of(path), text.strip() == "1")

    def _boost(self, cpu: int, on: bool) -> None:
        word = self.registers.words[cpu, HWCR]
        self.registers.words[cpu, HWCR] = word & ~(1 << CPB_DIS) if on else word | 1 << CPB_DIS

    def _sleeps(self, cpu: int) -> bool:
        return f"{HOME}/policy{cpu}" in self.fs.unreadable

    def _must_be_awake(self, cpu: int) -> None:
        if self._sleeps(cpu):
            raise refuse(errno.EBUSY)

    def _follow_cpu(self, cpu: int, online: bool) -> None:
        """A policy sleeps while its CPU is offline, and comes back as it was; in older kernels not with its boost."""
        if not online:
            self.fs.unreadable[f"{HOME}/policy{cpu}"] = errno.EBUSY
            return
        del self.fs.unreadable[f"{HOME}/policy{cpu}"]
        own, boost = f"{HOME}/policy{cpu}/{BOOST}", self.fs.read(GLOBAL_BOOST)
        if self.remembers_boost and boost == "1":
            boost = self.fs.read(own)
        self._boost(cpu, boost == "1")
        if BOOST in self._files:
            self.fs.show(own, boost)


def _cpu_of(path: str) -> int:
    return int(path.split("/")[-2][len("policy") :])


def _parse_number(text: str) -> int:
    if not text.strip().isdecimal():
        raise refuse(errno.EINVAL)
    return int(text)
