# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one BIOS setting is, and what is looked at to see it."""

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

    #: The value in force, None where the kernel does not show it, and how we know or why not.
    Seen = tuple[Optional[str], str]

ON, OFF = "on", "off"


class Look:
    """One look at a host. ``ledger`` knows what registers held before we wrote to them."""

    def __init__(self, fs: KernelFS, top: Topology, ledger: Ledger | None = None) -> None:
        self.fs = fs
        self.top = top
        self.ledger = ledger
        self._memory: smbios.Memory | None = None

    @property
    def memory(self) -> smbios.Memory:
        """The slots for memory, read once."""
        if self._memory is None:
            self._memory = smbios.read(self.fs)
        return self._memory

    def told(self, *parameters: str) -> str:
        """Return the first boot parameter that begins like one of these, an empty text where there is none."""
        words = cmdline.split_words(self.fs.read("/proc/cmdline"))
        return next((word for word in words if word.startswith(parameters)), "")


class Setting:
    """One BIOS setting: how to see it, what a wrong value costs, and where it is changed.

    ``costs`` maps a wrong value to what it costs; "" stands for any other value. ``menu`` is the place in AMI's setup,
    ``names`` has the attributes by vendor, with spaces between them. ``remedy`` stands in place of both for what no
    BIOS setting can mend. ``form`` makes a text of the value of an option that is no switch.
    """

    __slots__ = ("costs", "form", "menu", "names", "remedy", "see", "title")

    def __init__(
        self,
        title: str,
        see: Callable[[Look], Seen],
        costs: dict[str, str],
        menu: str = "",
        names: dict[str, str] | None = None,
        remedy: str = "",
        form: str = "{}",
    ) -> None:
        self.title = title
        self.see = see
        self.costs = costs
        self.menu = menu
        self.names = names or {}
        self.remedy = remedy
        self.form = form


def unseen(look: Look) -> Seen:
    """Say that there is nothing to see."""
    return None, "no kernel file shows it"
