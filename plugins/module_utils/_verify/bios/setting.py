# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One BIOS setting, and the view of the kernel from which settings are read."""

from __future__ import annotations

from ..._notation import cmdline
from . import smbios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Optional

    from ..._host.topology import Topology
    from ..._io.kernelfs import KernelFS
    from ..._knobs.protocol.ledger import Ledger

    #: The value in force, None where the kernel does not show it, and the source of the value or why it is not known.
    Reading = tuple[Optional[str], str]

ON, OFF = "on", "off"


class KernelView:
    """What BIOS settings are read from: kernel files, topology, and a ledger with the originals of registers."""

    def __init__(self, fs: KernelFS, top: Topology, ledger: Ledger | None = None) -> None:
        self.fs = fs
        self.top = top
        self.ledger = ledger
        self._memory_slots: smbios.MemorySlots | None = None

    @property
    def memory_slots(self) -> smbios.MemorySlots:
        """The slots for memory modules, read once."""
        if self._memory_slots is None:
            self._memory_slots = smbios.read_memory_slots(self.fs)
        return self._memory_slots

    def find_boot_parameter(self, *prefixes: str) -> str:
        """Return the first boot parameter that begins with one of the prefixes, an empty text where there is none."""
        words = cmdline.split_words(self.fs.read("/proc/cmdline"))
        return next((word for word in words if word.startswith(prefixes)), "")


class Setting:
    """One BIOS setting: how to read it, what a wrong value costs, and where it is changed.

    ``costs`` maps a wrong value to what it costs; "" stands for any other value. ``menu`` is the place in AMI's setup,
    ``attribute_names`` has the attributes by vendor, with spaces between them. ``remedy`` replaces both for what no
    BIOS setting can mend. ``value_format`` formats the value of an option that is no switch.
    """

    __slots__ = ("attribute_names", "costs", "menu", "read", "remedy", "title", "value_format")

    def __init__(
        self,
        title: str,
        read: Callable[[KernelView], Reading],
        costs: dict[str, str],
        menu: str = "",
        attribute_names: dict[str, str] | None = None,
        remedy: str = "",
        value_format: str = "{}",
    ) -> None:
        self.title = title
        self.read = read
        self.costs = costs
        self.menu = menu
        self.attribute_names = attribute_names or {}
        self.remedy = remedy
        self.value_format = value_format


def read_nothing(dummy_view: KernelView) -> Reading:
    """Return that no kernel file shows the setting."""
    return None, "no kernel file shows it"
