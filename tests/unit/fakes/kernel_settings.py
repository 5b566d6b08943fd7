# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of the plain settings: transparent huge pages, NUMA balancing, work queues, the NMI watchdog and SMT.

Source: mm/huge_memory.c, kernel/{sched/core,workqueue,watchdog,cpu}.c of Linux 6.12.
"""

from __future__ import annotations

import errno
from collections.abc import Collection

from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import CACHE_AWARE, SCHEDULER
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.sysfs import (
    CPUS,
    THP,
    WORKQUEUE,
    parse_bracketed,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import (
    format_cpumask,
    parse_cpulist,
    parse_cpumask,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import Kernel, refuse

BALANCING, WATCHDOG = "/proc/sys/kernel/numa_balancing", "/proc/sys/kernel/nmi_watchdog"
#: The modes are bits, and four is the largest number that the kernel takes.
LARGEST_MODE = 4
#: The kernel has no name of ENOTSUPP for programs.
ENOTSUPP = 524
#: A request for every setting, which the fake and the kernel are both asked.
ASKED = {
    "smt": "off",
    "thp": "madvise",
    "thp_defrag": "defer+madvise",
    "numa_balancing": False,
    "workqueue_cpus": "housekeeping",
    "writeback_cpus": "housekeeping",
    "nmi_watchdog": False,
    "intent": {"housekeeping": {"cores": 1, "per": "node"}},
}


#: The files that not every kernel has.
NEWER = (f"{WORKQUEUE}/cpumask_requested", f"{WORKQUEUE}/cpumask_isolated", CACHE_AWARE)
#: The words of kstrtobool, by their first letters.
TRUE, FALSE = "1yYtT", "0nNfF"


class Settings:
    """The settings of a guest's kernel, with these of ``NEWER``; it has no counter for the watchdog, and no SMT."""

    def __init__(self, kernel: Kernel, newer: Collection[str] = NEWER, may_write_watchdog: bool = False) -> None:
        self.fs = kernel.fs
        self.width = parse_cpulist(self.fs.read(f"{CPUS}/possible"))[-1] + 1
        everywhere = format_cpumask(range(self.width), self.width)
        for path, text in {
            f"{THP}/enabled": "[always] madvise never",
            f"{THP}/defrag": "always defer defer+madvise [madvise] never",
            BALANCING: 1,
            WATCHDOG: 0,
            f"{WORKQUEUE}/cpumask": everywhere,
            f"{WORKQUEUE}/cpumask_requested": everywhere,
            f"{WORKQUEUE}/cpumask_isolated": format_cpumask((), self.width),
            f"{WORKQUEUE}/writeback/cpumask": everywhere,
            f"{SCHEDULER}/features": "",
            CACHE_AWARE: 1,
        }.items():
            if path in newer or path not in NEWER:
                kernel.put(path, text)
        (kernel.host.root / WATCHDOG[1:]).chmod(0o644 if may_write_watchdog else 0o444)
        self.fs.add_rule(f"{THP}/(enabled|defrag)", self._choose)
        self.fs.add_rule(BALANCING, self._set_number)
        self.fs.add_rule(f"{WORKQUEUE}/cpumask", self._set_all_work)
        self.fs.add_rule(f"{WORKQUEUE}/writeback/cpumask", self._set_writeback)
        self.fs.add_rule(f"{CPUS}/smt/control", self._switch_threads)
        self.fs.add_rule(CACHE_AWARE, self._switch_cache_awareness)
        self.fs.add_rule(WATCHDOG, self._refuse_without_counter)

    def _choose(self, path: str, text: str) -> None:
        word, offers = text.strip(), parse_bracketed(self.fs.read(path))[1]
        if word not in offers:
            raise refuse(errno.EINVAL)
        self.fs.show(path, " ".join(f"[{offer}]" if offer == word else offer for offer in offers))

    def _set_number(self, path: str, text: str) -> None:
        if not text.strip().isdecimal() or int(text) > LARGEST_MODE:
            raise refuse(errno.EINVAL)
        self.fs.show(path, int(text))

    def _parse_mask(self, text: str) -> tuple[int, ...]:
        """Refuse a mask that has more groups of digits than CPUs could fill, even if these are zeros."""
        try:
            cpus = parse_cpumask(text)
        except ValueError:
            raise refuse(errno.EINVAL) from None
        groups = text.count(",") + 1
        if groups > -(-self.width // 32) or (cpus and cpus[-1] >= self.width):
            raise refuse(errno.EOVERFLOW)
        return cpus

    def _set_all_work(self, path: str, text: str) -> None:
        """The queues keep off the CPUs of isolated partitions, and what was asked for is in a file of its own."""
        cpus = self._parse_mask(text)
        if not cpus:
            raise refuse(errno.EINVAL)
        if self.fs.read_if_present(f"{path}_requested") is not None:
            self.fs.show(f"{path}_requested", format_cpumask(cpus, self.width))
        isolated = parse_cpumask(self.fs.read_if_present(f"{path}_isolated") or "0")
        allowed = set(cpus).difference(isolated) or cpus
        self.fs.show(path, format_cpumask(allowed, self.width))

    def _set_writeback(self, path: str, text: str) -> None:
        self.fs.show(path, format_cpumask(self._parse_mask(text), self.width))

    def _refuse_without_counter(self, path: str, text: str) -> None:
        raise refuse(ENOTSUPP)

    def _switch_cache_awareness(self, path: str, text: str) -> None:
        if text[:1] not in (*TRUE, *FALSE):
            raise refuse(errno.EINVAL)
        self.fs.show(path, int(text[0] in TRUE))

    def _switch_threads(self, path: str, text: str) -> None:
        if self.fs.read(path) == "notsupported":
            raise refuse(errno.ENODEV)
        if text.strip() not in ("on", "off", "forceoff"):
            raise refuse(errno.EINVAL)
        self.fs.show(path, text.strip())
