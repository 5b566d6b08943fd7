# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Interrupts without a kernel; tests/lab/test_irq_conformance.py holds them against two, and has the real irqbalance.

Source: kernel/irq/proc.c of Linux 6.12.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Sequence
from pathlib import Path

from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.irq import irqbalance
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import (
    format_cpulist,
    format_cpumask,
    parse_cpulist,
    parse_cpumask,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import CPUS, Kernel, refuse

#: Where Debian's irqbalance has its variables.
FILE = "/etc/default/irqbalance"
#: number -> actions, and whether it may be moved
IRQS = {
    0: ("timer", False),
    3: ("", True),
    9: ("acpi", True),
    40: ("nvme0q0", True),
    41: ("nvme0q1", False),
    50: ("eth0", True),
    51: ("eth0-TxRx-0", True),
    52: ("eth0-TxRx-1", True),
    60: ("ahci,ehci", True),
}


class Interrupts:
    """The rules of interrupts: only some may be moved, and none is left without a CPU that is online.

    ``fixed`` are those that the kernel places itself, and refuses to move with the error ``code``. Those in ``renewed``
    get all CPUs again from their driver when a CPU comes or goes, as the interrupts of a virtual network card do. None
    fires, so each stays where it was, whatever is asked for.
    """

    def __init__(
        self, kernel: Kernel, fixed: Collection[int] = (), code: int = errno.EPERM, renewed: Collection[int] = ()
    ) -> None:
        self.fs = kernel.fs
        self.fixed = fixed
        self.code = code
        self.renewed = renewed
        self.fs.add_rule(r"/proc/irq/\d+/smp_affinity_list", self._move)
        self.fs.add_rule("/proc/irq/default_smp_affinity", self._set_default)
        kernel.cpus.followers.append(lambda cpu, online: self._renew())

    def _renew(self) -> None:
        for number in self.renewed:
            self.fs.show(f"/proc/irq/{number}/smp_affinity_list", self.fs.read(f"{CPUS}/online"))

    def _move(self, path: str, text: str) -> None:
        """Refuse to move what is the kernel's own to place before the text is read."""
        if int(path.split("/")[3]) in self.fixed:
            raise refuse(self.code)
        try:
            cpus = parse_cpulist(text)
        except ValueError:
            raise refuse(errno.EINVAL) from None
        if cpus and cpus[-1] >= self._width():
            raise refuse(errno.ERANGE)
        self._must_be_online(cpus)
        self.fs.show(path, format_cpulist(cpus))

    def _set_default(self, path: str, text: str) -> None:
        try:
            cpus = parse_cpumask(text)
        except ValueError:
            raise refuse(errno.EINVAL) from None
        if cpus and cpus[-1] >= self._width():
            raise refuse(errno.EOVERFLOW)
        self._must_be_online(cpus)
        self.fs.show(path, format_cpumask(cpus, self._width()))

    def _width(self) -> int:
        return parse_cpulist(self.fs.read(f"{CPUS}/possible"))[-1] + 1

    def _must_be_online(self, cpus: Collection[int]) -> None:
        if not set(cpus) & set(parse_cpulist(self.fs.read(f"{CPUS}/online"))):
            raise refuse(errno.EINVAL)


def with_interrupts(root: Path) -> hosts.Host:
    """The small machine with IRQS, on a kernel before 6.12."""
    kernel = Kernel(root)
    host = kernel.host
    Interrupts(kernel, {number for number, (dummy, movable) in IRQS.items() if not movable}, errno.EIO)
    host.put("/proc/irq/default_smp_affinity", "ffff")
    for number, (actions, dummy) in IRQS.items():
        host.put(f"/sys/kernel/irq/{number}/actions", actions)
        host.put(f"/proc/irq/{number}/smp_affinity_list", "0-15")
        host.put(f"/proc/irq/{number}/effective_affinity_list", "8")
    for address, driver, numbers in (
        ("0000:41:00.0", "nvme", (40, 41)),
        ("0000:61:00.0", "ice", (50, 51)),
        ("0000:61:00.1", "ice", (52,)),
        ("0000:02:00.0", "ahci", ()),
    ):
        host.put(f"/sys/bus/pci/devices/{address}/irq", 60)
        host.put(f"/sys/bus/pci/drivers/{driver}/{address}/x", "")
        for number in numbers:
            host.put(f"/sys/bus/pci/devices/{address}/msi_irqs/{number}", "msix")
    return host


def ledger(tree: hosts.Host) -> Ledger:
    return Ledger(Store(str(tree.root)), tree.fs)


class Systemd:
    """Plays systemctl for one unit, and starts it with its file's variables."""

    def __init__(self, tree: hosts.Host, active: bool = True, enabled: str = "enabled") -> None:
        self.tree = tree
        self.active = active
        self.enabled = enabled
        self.calls: list[str] = []
        tree.put(irqbalance.PROGRAM, "")
        self._start()

    def _start(self) -> None:
        path = self.tree.root / FILE.lstrip("/")
        rows = [row for row in (path.read_text() if path.exists() else "").split("\n") if "=" in row and row[0] != "#"]
        self.tree.put("/proc/77/comm", "irqbalance")
        self.tree.put("/proc/77/environ", "\0".join(["LANG=C", *rows]))

    def __call__(self, command: Sequence[str]) -> str:
        words = [word for word in command[1:] if not word.startswith("--") and word != irqbalance.UNIT]
        assert words, command
        if words != ["show"]:
            self.calls += words
        if words in (["enable"], ["disable"], ["mask"]):
            self.enabled = {"mask": "masked"}.get(words[0], f"{words[0]}d")
        if words in (["start"], ["stop"]):
            self.active = words == ["start"]
        if self.active and words in (["start"], ["try-restart"]):
            self._start()
        files = [] if self.enabled == "masked" else ["/usr/lib/irqbalance/defaults.env", FILE]
        rows = [f"EnvironmentFiles={file} (ignore_errors=yes)" for file in files]
        return "\n".join(
            [
                f"MainPID={77 if self.active else 0}",
                *rows,
                f"LoadState={'loaded' if files else 'masked'}",
                f"UnitFileState={self.enabled}",
                f"ActiveState={'active' if self.active else 'inactive'}",
                "",
            ]
        )
