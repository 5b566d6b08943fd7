# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel modules that show registers (msr) and CPUID (cpuid) below /dev/cpu, as a knob.

Addresses: ``msr:module/msr`` and ``msr:module/cpuid``. The value is "loaded", or None.
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


def has_device(fs: KernelFS, cpu: int, device: str) -> bool:
    """Return whether a CPU has a device such as msr, which exists if the CPU is online and the module loaded."""
    return device in fs.list_names(f"/dev/cpu/{cpu}")


def read_online_cpus(fs: KernelFS) -> tuple[int, ...]:
    return parse_cpulist(fs.read("/sys/devices/system/cpu/online"))


def first_online_cpu(fs: KernelFS) -> int:
    return read_online_cpus(fs)[0]


class MsrModules(Knob):
    """The kernel module msr, and cpuid if a requested register exists only on CPUs with a bit of CPUID."""

    prefix = "msr"

    def __init__(self, host: Host, load: bool, needs_cpuid: Callable[[], bool]) -> None:
        """``needs_cpuid`` returns whether the request needs CPUID."""
        self.host = host
        self.fs = host.fs
        self.load = load
        self.needs_cpuid = needs_cpuid

    def owns_address(self, address: str) -> bool:
        return address.startswith(MODULE)

    def wanted_settings(self) -> Settings:
        """Return the modules to load; none without the option load_module."""
        names = (["cpuid", "msr"] if self.needs_cpuid() else ["msr"]) if self.load else []
        return {f"{MODULE}{name}": LOADED for name in names}

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return which modules are loaded or built in, by their devices."""
        return {
            a: LOADED if has_device(self.fs, first_online_cpu(self.fs), a[len(MODULE) :]) else None for a in addresses
        }

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Load modules, or unload them in an undo."""
        for change in changes:
            self.fs.load_module(change.address[len(MODULE) :], load=change.after is not None)
        # The topology has facts of CPUID, which can be read only now.
        self.host.forget_topology()
