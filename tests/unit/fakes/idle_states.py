# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of idle states, as acpi_idle has them on an EPYC.

Source: drivers/cpuidle/sysfs.c of Linux 6.12.
"""

from __future__ import annotations

import errno
import struct

from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpuidle import CPUS, DMA_LATENCY
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import parse_cpulist
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import Kernel, refuse

#: What a 9754 with global C-states shows.
EPYC = (("POLL", 0), ("C1", 1), ("C2", 800))
QOS = "power/pm_qos_resume_latency_us"
#: What the kernel shows while nobody limits the latency of all CPUs, in microseconds.
NO_LIMIT = 2000000000


def give_states(tree: hosts.Host, cpus: range, states: tuple[tuple[str, int], ...] = EPYC) -> None:
    """Give CPUs these states, all of them allowed."""
    for cpu in cpus:
        for number, (name, latency) in enumerate(states):
            for file, text in (("name", name), ("latency", latency), ("disable", 0)):
                tree.put(f"{CPUS}/cpu{cpu}/cpuidle/state{number}/{file}", text)
        tree.put(f"{CPUS}/cpu{cpu}/{QOS}", 0)


class IdleStates:
    """The states of an EPYC on each CPU, where nobody holds a limit."""

    def __init__(self, kernel: Kernel) -> None:
        self.fs = kernel.fs
        give_states(kernel.host, range(len(parse_cpulist(self.fs.read(f"{CPUS}/present")))))
        kernel.put(f"{CPUS}/cpuidle/current_driver", "acpi_idle")
        kernel.put(f"{CPUS}/cpuidle/current_governor_ro", "menu")
        kernel.put(DMA_LATENCY, "")
        (kernel.host.root / DMA_LATENCY[1:]).write_bytes(struct.pack("<i", NO_LIMIT))
        self.fs.add_rule(rf"{CPUS}/cpu\d+/cpuidle/state\d+/disable", self._forbid)
        self.fs.add_rule(rf"{CPUS}/cpu\d+/{QOS}", self._limit_latency)

    def _forbid(self, path: str, text: str) -> None:
        """Any number but 0 forbids the state."""
        if not text.strip().isdecimal():
            raise refuse(errno.EINVAL)
        self.fs.show(path, int(int(text) > 0))

    def _limit_latency(self, path: str, text: str) -> None:
        """No latency at all has a word of its own, because 0 stands for no limit."""
        if text.strip() == "n/a":
            self.fs.show(path, "n/a")
        elif text.strip().isdecimal() and int(text) < NO_LIMIT:
            self.fs.show(path, int(text))
        else:
            raise refuse(errno.EINVAL)
