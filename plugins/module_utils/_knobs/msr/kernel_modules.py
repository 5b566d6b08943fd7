# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel modules that show registers (msr) and CPUID (cpuid) below /dev/cpu, as a knob.

Addresses: ``msr:module/msr`` and ``msr:module/cpuid``; the value is "loaded", None for "is not".
"""

from __future__ import annotations

from ..._notation.cpulist import parse_cpulist
from ..protocol.knob import Knob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..._host.host import Host
    from ..._io.kernelfs import KernelFS
    from ..protocol.knob import Change, Settings

MODULE = "msr:module/"
LOADED = "loaded"


def has_device(fs: KernelFS, cpu: int, name: str) -> bool:
    """Return whether a CPU has a device such as msr: not while it is offline, nor without the kernel module."""
    return name in fs.list_names(f"/dev/cpu/{cpu}")


def read_online_cpus(fs: KernelFS) -> tuple[int, ...]:
    """Return the CPUs that are online at this moment."""
    return parse_cpulist(fs.read("/sys/devices/system/cpu/online"))


def first_online_cpu(fs: KernelFS) -> int:
    """Return a CPU that is there."""
    return read_online_cpus(fs)[0]


class MsrModules(Knob):
    """The kernel modules msr, and cpuid where a register is guarded by CPUID."""

    prefix = "msr"

    def __init__(self, host: Host, load: bool, guarded: Callable[[], bool]) -> None:
        """``guarded`` tells whether the request needs CPUID."""
        self.host = host
        self.fs = host.fs
        self.load = load
        self.guarded = guarded

    def owns_address(self, address: str) -> bool:
        """Only the kernel modules."""
        return address.startswith(MODULE)

    def wanted_settings(self) -> Settings:
        """Return what shall be loaded; nothing unless that was asked for."""
        names = (["cpuid", "msr"] if self.guarded() else ["msr"]) if self.load else []
        return {f"{MODULE}{name}": LOADED for name in names}

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Tell what is loaded, or built in, by the device that it makes."""
        return {
            a: LOADED if has_device(self.fs, first_online_cpu(self.fs), a[len(MODULE) :]) else None for a in addresses
        }

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Load, or unload again what this collection had loaded."""
        for change in changes:
            self.fs.load_module(change.address[len(MODULE) :], load=change.after is not None)
        # What CPUID tells is known only now.
        self.host.forget_topology()
