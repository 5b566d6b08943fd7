# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Registers without a CPU. tests/lab/test_msr_conformance.py holds them against the driver of a real kernel."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Collection
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._kernel.lockdown import ALLOW_WRITES
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.msr.knob import TAINT_BIT, TAINTED
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.msr.registers import HWCR
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import parse_cpulist
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import CPUS, Kernel, refuse

#: The registers of the small machine that keep what is written to them; the others drop it in silence.
KEPT = (0xC0000108, 0xC0010015, 0xC0010062, 0xC0011022)
#: What HWCR holds when a CPU starts: the time stamp counter runs at the base frequency.
BORN_HWCR = 1 << 24


def give_registers(tree: hosts.Host, cpus: Any) -> None:
    """Put sparse files where the msr driver has its devices: an offset in them is a register, as it is there."""
    for cpu in cpus:
        tree.put(f"/dev/cpu/{cpu}/msr", "")
        tree.put(f"/dev/cpu/{cpu}/cpuid", "answers come from TreeFS")
        os.truncate(tree.root / f"dev/cpu/{cpu}/msr", 0xC0012000)


class Registers:
    """The registers of all CPUs, and the kernel modules msr and cpuid, which nobody has loaded yet."""

    def __init__(self, kernel: Kernel, hwcr: int = BORN_HWCR, kept: Collection[int] = KEPT) -> None:
        self.kernel = kernel
        self.fs = kernel.fs
        self.kept = kept
        #: What each register holds, by CPU and number; one that is not here holds 0.
        self.words = {(cpu, HWCR): hwcr for cpu in parse_cpulist(self.fs.read(f"{CPUS}/present"))}
        self._loaded: set[str] = set()
        shutil.rmtree(kernel.host.root / "dev/cpu", ignore_errors=True)
        kernel.put(TAINTED, 0)
        self.fs.read_register = lambda path, register: self.words.get((_cpu_of(path), register), 0)
        self.fs.write_register = self._write
        self.fs.modules["msr"] = lambda load: self._load("msr", load)
        self.fs.modules["cpuid"] = lambda load: self._load("cpuid", load)
        kernel.cpus.followers.append(lambda cpu, online: self._show_devices())

    def _write(self, path: str, register: int, word: int) -> None:
        """Taint the kernel, as its driver does before the hardware is asked."""
        if self.fs.read_if_present(ALLOW_WRITES) == "off":
            raise refuse(errno.EPERM)
        self.fs.show(TAINTED, int(self.fs.read(TAINTED)) | 1 << TAINT_BIT)
        if register in self.kept:
            self.words[_cpu_of(path), register] = word

    def _load(self, name: str, load: bool) -> None:
        (self._loaded.add if load else self._loaded.discard)(name)
        if name == "msr":
            if load:
                self.kernel.put(ALLOW_WRITES, "default")
            else:
                self.kernel.host.drop(ALLOW_WRITES)
        self._show_devices()

    def _show_devices(self) -> None:
        """Have a device of each module for each CPU that is online, and no empty folder."""
        shutil.rmtree(self.kernel.host.root / "dev/cpu", ignore_errors=True)
        for cpu in parse_cpulist(self.fs.read(f"{CPUS}/online")):
            for name in self._loaded:
                self.kernel.put(f"/dev/cpu/{cpu}/{name}", "answers come from the fake")


def _cpu_of(path: str) -> int:
    return int(path.split("/")[3])
