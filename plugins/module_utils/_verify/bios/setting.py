# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""One BIOS setting, and the view of the kernel from which settings are read."""

from __future__ import annotations

from ..._host import smbios
from ..._notation import cmdline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Optional

    from ..._host.topology import Topology
    from ..._io.kernelfs import KernelFS
    from ..._knobs.protocol.ledger import Ledger

    #: The value in force with its source, or None with the reason why the value is unknown.
    Reading = tuple[Optional[str], str]

ON, OFF = "on", "off"


class KernelView:
    """The sources of BIOS settings: kernel files, topology, and a ledger with the originals of registers."""

    def __init__(self, fs: KernelFS, top: Topology, ledger: Ledger | None = None) -> None:
        self.fs = fs
        self.top = top
        self.ledger = ledger
        self._memory_slots: smbios.MemorySlots | None = None

    @property
    def memory_slots(self) -> smbios.MemorySlots:
        """The slots for memory modules, read at the first use."""
        if self._memory_slots is None:
            self._memory_slots = smbios.read_memory_slots(self.fs)
        return self._memory_slots

    def find_first_boot_parameter(self, *prefixes: str) -> str:
        """Return the first boot parameter that begins with one of the prefixes; "" where no parameter does."""
        words = cmdline.split_kernel_command_line(self.fs.read("/proc/cmdline"))
        return next((word for word in words if word.startswith(prefixes)), "")


class Setting:
    """A BIOS setting: the function that reads its value, the cost of a wrong value, and its place in the setup.

    ``costs`` maps a wrong value to a sentence on its cost; "" stands for any other value. ``menu`` is the place in
    AMI's setup, ``attribute_names`` has the attributes by vendor, separated by spaces. ``remedy`` replaces both for a
    fault that no BIOS setting can mend. ``value_format`` formats the value of an option that is no switch.
    ``expected_anyway`` returns the expected value where no option has one, and the host has a plain fault; else None.
    """

    def __init__(
        self,
        title: str,
        read: Callable[[KernelView], Reading],
        costs: dict[str, str],
        menu: str = "",
        attribute_names: dict[str, str] | None = None,
        remedy: str = "",
        value_format: str = "{}",
        expected_anyway: Callable[[KernelView], str | None] = lambda view: None,
    ) -> None:
        self.title = title
        self.read = read
        self.costs = costs
        self.menu = menu
        self.attribute_names = attribute_names or {}
        self.remedy = remedy
        self.value_format = value_format
        self.expected_anyway = expected_anyway


def reading_without_kernel_file(dummy_view: KernelView) -> Reading:
    return None, "no kernel file shows it"
